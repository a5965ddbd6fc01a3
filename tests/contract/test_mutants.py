"""A test must be able to fail: mechanisms that are wrong on purpose, and the check that must reject each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from keyveil import testing as checks
from keyveil.core.channels import Product, Ratio, TwoLevel, binary
from keyveil.core.coins import Coins
from keyveil.core.epsilon import RESOLUTION, exp_floor, lie_threshold
from keyveil.core.errors import PrivacyError
from keyveil.core.records import Records
from keyveil.core.report import Payload, Report
from keyveil.core.schema import GRID, Schema
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.categorical.grr import GRR
from keyveil.mechanisms.categorical.unary import OUE
from keyveil.mechanisms.encoders import value_of
from keyveil.mechanisms.families.one_key import ABSENT
from keyveil.mechanisms.keyvalue.kvue import KVUE
from keyveil.mechanisms.keyvalue.ssr import SSR
from keyveil.mechanisms.keyvalue.wsr import WSR
from keyveil.mechanisms.numeric.duchi import Duchi
from keyveil.mechanisms.numeric.square_wave import SquareWave
from keyveil.mechanisms.responses import Response, Spread, fieller, normal_quantile, support_counts
from keyveil.privacy.certify import certify
from tests.contract.cases import BULK, REPEATS, SCORES, SINGLES


def sharper(channel: TwoLevel, factor: Fraction) -> TwoLevel:
    return TwoLevel(channel.outputs, channel.marked, int(channel.high * factor), channel.low)


@dataclass(frozen=True)
class WrongProbability(GRR):
    """Tells the truth ten per cent too often."""

    @cached_property
    def channel(self) -> TwoLevel:
        return sharper(super().channel, Fraction(11, 10))


@dataclass(frozen=True)
class LooseRounding(GRR):
    """Rounds e^ε up instead of down: too much by less than a billionth."""

    @cached_property
    def channel(self) -> TwoLevel:
        return TwoLevel(self.schema.d, 1, math.ceil(exp_floor(self.epsilon) * RESOLUTION), RESOLUTION)


@dataclass(frozen=True)
class LooseBit(OUE):
    """Rounds the chance of a false bit down instead of up."""

    @cached_property
    def channel(self) -> Product:
        return Product(binary(RESOLUTION // 2, lie_threshold(self.epsilon) - 1), self.schema.d)


@dataclass(frozen=True)
class ClearCoordinate(OUE):
    """Forgets to perturb the last bit."""

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        report, last = super().respond(pairs, word, coins), self.schema.d - 1
        assert isinstance(report, bytes)
        cleared = int.from_bytes(report, "little") & ~(1 << last)
        return (cleared | (pairs[0][0] == last) << last).to_bytes(len(report), "little")


@dataclass(frozen=True)
class SkippedAbsence(KVUE):
    """Says nothing for a person who does not hold the key: silence that nobody else can produce as surely."""

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        if value_of(pairs, self.encoder.key(word)) is None:
            return ABSENT
        return super().respond(pairs, word, coins)


@dataclass(frozen=True)
class CleverClosedForm(GRR):
    """Claims less than its sampler spends."""

    @property
    def ratio(self) -> Ratio:
        return Fraction(3, 2)


@dataclass(frozen=True)
class NoisyBulk(GRR):
    """Bulk draws from a noisier or a sharper channel than devices do."""

    factor: Fraction = Fraction(1)

    def respond_many(self, records: Records, words: Any, coins: Coins) -> Any:
        true, (hits, ranks) = self.keys_of(records), sharper(self.channel, self.factor).draw_many(records.n, coins)
        return np.where(hits, true, ranks + (ranks >= true))


@dataclass(frozen=True)
class WrongEstimator(GRR):
    """Estimates with the p of another formula (the printed p of a published table)."""

    @property
    def response(self) -> Response:
        high, total = self.channel.high - self.channel.low, self.channel.total
        return support_counts(Fraction(high, total), self.channel.miss)


@dataclass(frozen=True)
class WrongErrors(GRR):
    """States standard errors that are off by a factor."""

    factor: Fraction = Fraction(1)

    def estimate(self, *args: Any, **kwargs: Any) -> Any:
        estimates = super().estimate(*args, **kwargs)
        column, factor = estimates.frequency, float(self.factor)
        centre = column.values
        wrong = type(column)(
            column.schema,
            centre,
            column.se * factor,
            centre + factor * (column.low - centre),
            centre + factor * (column.high - centre),
            column.flag,
        )
        return replace(estimates, frequency=wrong)


@dataclass(frozen=True)
class WrongCovariance(KVUE):
    """States the covariance of f and f·m as a multiple of what it is: with the other sign, or not at all."""

    factor: int = 1

    def estimate(self, *args: Any, **kwargs: Any) -> Any:
        estimates: Any = super().estimate(*args, **kwargs)
        return replace(estimates, covariance=self.factor * estimates.covariance)


@dataclass(frozen=True)
class OtherCovariance(WrongCovariance):
    """Has means, intervals and errors of means from that covariance too: only the squares of errors tell."""

    def estimate(self, *args: Any, **kwargs: Any) -> Any:
        estimates: Any = super().estimate(*args, **kwargs)
        f, u = estimates.frequency, estimates.product
        spread = Spread(f.se**2, estimates.product_se**2, estimates.covariance)
        return replace(estimates, mean=fieller(self.schema, f.values, u, spread, normal_quantile(estimates.confidence)))


@dataclass(frozen=True)
class WrongIntervals(KVUE):
    """Knows the covariance, but makes the intervals of means with the other sign."""

    def estimate(self, *args: Any, **kwargs: Any) -> Any:
        estimates: Any = super().estimate(*args, **kwargs)
        f, u = estimates.frequency, estimates.product
        spread = Spread(f.se**2, estimates.product_se**2, -estimates.covariance)
        z = normal_quantile(estimates.confidence)
        return replace(estimates, mean=fieller(self.schema, f.values, u, spread, z))


@dataclass(frozen=True)
class WrongMeanErrors(KVUE):
    """Gives means the right intervals, and a standard error that is off by a factor."""

    factor: Fraction = Fraction(1)

    def estimate(self, *args: Any, **kwargs: Any) -> Any:
        estimates: Any = super().estimate(*args, **kwargs)
        return replace(estimates, mean=replace(estimates.mean, se=float(self.factor) * estimates.mean.se))


@dataclass(frozen=True)
class RoundedValues(Duchi):
    """Rounds values to signs deterministically: private, but biased."""

    def respond_many(self, records: Records, words: Any, coins: Coins) -> Any:
        signs = np.where(records.values >= 0, GRID, -GRID).astype(np.int32)
        return super().respond_many(Records(records.offsets, records.keys, signs, records.d), words, coins)


@dataclass(frozen=True)
class TellingId(GRR):
    """Writes the key into the public bytes."""

    def perturb(self, record: Any, coins: Coins, public: bytes | None = None) -> Report:
        report = super().perturb(record, coins, public)
        return Report(bytes([self.read(record)[0][0]]) + report.public[1:], report.payload)


@dataclass(frozen=True)
class ClearBeyondEight(OUE):
    """Perturbs the first eight bits only: nothing that can be enumerated has more."""

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        report = super().respond(pairs, word, coins)
        assert isinstance(report, bytes)
        return report[:1] + (1 << pairs[0][0]).to_bytes(len(report), "little")[1:]


@dataclass(frozen=True)
class ThirdPair(SSR):
    """Sends one pair in the clear for anybody with more than two."""

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        report = super().respond(pairs, word, coins)
        assert isinstance(report, tuple)
        return tuple(sorted({*report[1:], 2 * pairs[0][0]})) if len(pairs) > 2 else report


@dataclass(frozen=True)
class ClearCell(KVUE):
    """Tells one cell of every key but the first without noise."""

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        key = self.encoder.key(word)
        value = value_of(pairs, key)
        if key and value is not None and self.labels.draw(value, coins, key) == 1:
            return 2
        return super().respond(pairs, word, coins)


@dataclass(frozen=True)
class ClearWindow(SquareWave):
    """Answers a few values without noise."""

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        if -0.7 < self.value(pairs, word) / GRID < -0.5:
            return 0
        return super().respond(pairs, word, coins)


@dataclass(frozen=True)
class NegativeWeight(WSR):
    """Takes so much from the null symbol that its weight falls below zero: sampled, that passes for never."""

    @property
    def reserve(self) -> int:
        return super().reserve - 1


Check = Callable[[Mechanism], None]


def bulk_draws(mechanism: Mechanism) -> None:
    checks.bulk_draws_have_the_law(mechanism, draws=BULK)


def fixed_people(mechanism: Mechanism) -> None:
    checks.errors_are_as_stated(mechanism, population=False, scores=SCORES)


def joint_of_fixed_people(mechanism: Mechanism) -> None:
    checks.joint_errors_are_as_stated(mechanism, population=False, repeats=REPEATS)


def joint_of_a_sample(mechanism: Mechanism) -> None:
    checks.joint_errors_are_as_stated(mechanism, population=True, repeats=REPEATS)


def devices_against_bulk(mechanism: Mechanism) -> None:
    checks.devices_do_at_full_size_what_bulk_does(mechanism, singles=SINGLES)


SCHEMA = Schema(keys=4)
MUTANTS: list[tuple[Mechanism, Check]] = [
    (WrongProbability(SCHEMA, Fraction(1)), checks.privacy_by_enumeration),
    (LooseRounding(SCHEMA, Fraction(1)), checks.privacy_by_enumeration),
    (LooseBit(SCHEMA, Fraction(1)), checks.privacy_by_enumeration),
    (ClearCoordinate(SCHEMA, Fraction(1)), checks.privacy_by_enumeration),
    (SkippedAbsence(Schema(keys=2), Fraction(1)), checks.privacy_by_enumeration),
    (CleverClosedForm(SCHEMA, Fraction(1)), checks.privacy_by_enumeration),
    (NoisyBulk(SCHEMA, Fraction(1), factor=Fraction(13, 10)), bulk_draws),
    (NoisyBulk(SCHEMA, Fraction(1), factor=Fraction(7, 10)), bulk_draws),
    (NoisyBulk(SCHEMA, Fraction(1), factor=Fraction(13, 10)), fixed_people),
    (NoisyBulk(SCHEMA, Fraction(1), factor=Fraction(7, 10)), fixed_people),
    (WrongEstimator(SCHEMA, Fraction(1)), fixed_people),
    (WrongErrors(SCHEMA, Fraction(1), factor=Fraction(13, 10)), fixed_people),
    (WrongErrors(SCHEMA, Fraction(1), factor=Fraction(7, 10)), fixed_people),
    *(
        (WrongCovariance(Schema(keys=3), Fraction(4), factor=factor), check)
        for factor in (-1, 0, 2)
        for check in (joint_of_fixed_people, joint_of_a_sample)
    ),
    *(
        (OtherCovariance(Schema(keys=3), Fraction(4), factor=factor), check)
        for factor in (-1, 0)
        for check in (joint_of_fixed_people, joint_of_a_sample)
    ),
    (WrongIntervals(Schema(keys=3), Fraction(4)), joint_of_fixed_people),
    (WrongMeanErrors(Schema(keys=3), Fraction(4), factor=Fraction(101, 100)), joint_of_fixed_people),
    (RoundedValues(SCHEMA, Fraction(1)), fixed_people),
    (TellingId(SCHEMA, Fraction(1)), checks.reports_are_what_devices_draw),
    (ClearBeyondEight(Schema(keys=100), Fraction(1)), devices_against_bulk),
    (ThirdPair(Schema(keys=100), Fraction(1), max_pairs=5), devices_against_bulk),
    (ClearCell(Schema(keys=2), Fraction(1), bins=4), checks.privacy_by_enumeration),
    (ClearWindow(Schema(keys=1), Fraction(1), cells=6), checks.privacy_by_enumeration),
]


@pytest.mark.parametrize(
    ("mutant", "check"), MUTANTS, ids=[f"{type(mutant).__name__}-{check.__name__}" for mutant, check in MUTANTS]
)
def test_the_suite_rejects(mutant: Mechanism, check: Check) -> None:
    with pytest.raises(AssertionError):
        check(mutant)


def test_a_negative_weight_is_no_probability() -> None:
    with pytest.raises(PrivacyError) as refused:
        certify(NegativeWeight(Schema(keys=3), Fraction(1), max_pairs=2))
    assert refused.value.code == "privacy/weights"


def test_a_closed_form_below_the_enumeration_is_never_certified() -> None:
    with pytest.raises(PrivacyError) as refused:
        certify(CleverClosedForm(SCHEMA, Fraction(1)))
    assert refused.value.code == "privacy/closed-form"


@pytest.mark.parametrize("mutant", [WrongProbability, LooseRounding, LooseBit])
def test_what_spends_too_much_is_not_certified(mutant: type[GRR]) -> None:
    assert not mutant(SCHEMA, Fraction(1)).certificate().certified
