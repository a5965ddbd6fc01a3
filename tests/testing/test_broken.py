"""Foreign classes that break the contract: each is refused with one sentence that names the broken member."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
import pytest

from keyveil.core.channels import Ratio, Table
from keyveil.core.codecs.symbols import Symbol
from keyveil.core.coins import Coins
from keyveil.core.errors import ContractError, KeyveilError
from keyveil.core.estimates import Estimates
from keyveil.core.histogram import Histogram
from keyveil.core.records import Records
from keyveil.core.report import Payload, Report
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.capabilities import (
    CAPABILITIES,
    Announced,
    Capped,
    Cells,
    ContingencyTables,
    Histograms,
    JointStatistics,
    KeyCovariances,
    KeyDependence,
    KnownTotal,
    LearnsSizes,
    Parted,
    PredictedVariance,
    ReportEffects,
    SupportRates,
    Takes,
    TallyLaw,
    Windows,
)
from keyveil.mechanisms.categorical.grr import GRR
from keyveil.mechanisms.categorical.rappor import RAPPOR
from keyveil.mechanisms.categorical.ss import SS
from keyveil.mechanisms.dependence import Dependence, PairTerms
from keyveil.mechanisms.effects import Effects
from keyveil.mechanisms.families.one_key import OneKey
from keyveil.mechanisms.keyvalue.ioh import IOH
from keyveil.mechanisms.keyvalue.kvue import KVUE
from keyveil.mechanisms.keyvalue.moments import Moments
from keyveil.mechanisms.keyvalue.rappor_meanest import RAPPORMeanEst
from keyveil.mechanisms.keyvalue.split import Split
from keyveil.mechanisms.keyvalue.topsel_cover import TopSelCover
from keyveil.mechanisms.keyvalue.wsr import WSR
from keyveil.mechanisms.numeric.square_wave import SquareWave
from keyveil.testing import CAPABILITY_CHECKS, check_mechanism, repeated, suite


class Stranger:
    """Not derived from Mechanism."""

    name = "stranger"


class Unfinished(OneKey):
    name: ClassVar[str] = "unfinished"

    @property
    def channel(self) -> Table:
        return Table(((1, 1), (1, 1), (1, 1)))


class Nameless(KVUE):
    name = None  # type: ignore[assignment]


class Undecorated(KVUE):
    name: ClassVar[str] = "undecorated"
    loudness: int = 3


@dataclass(frozen=True)
class Unmade(KVUE):
    name: ClassVar[str] = "unmade"

    def validate(self) -> None:
        raise ZeroDivisionError("division by zero")


@dataclass(frozen=True)
class FloatRatio(KVUE):
    name: ClassVar[str] = "float-ratio"

    @property
    def ratio(self) -> Ratio:
        return 2.5


@dataclass(frozen=True)
class ModestRatio(KVUE):
    name: ClassVar[str] = "modest-ratio"

    @property
    def ratio(self) -> Ratio:
        return Fraction(1)


class HalfCodec:
    bits, longest, varies = 2, 1, False

    def encode(self, payload: Payload) -> bytes:
        return bytes([int(payload)])  # type: ignore[arg-type]


@dataclass(frozen=True)
class NoDecoder(KVUE):
    name: ClassVar[str] = "no-decoder"

    @property
    def codec(self) -> Any:
        return HalfCodec()


@dataclass(frozen=True)
class Lenient(Symbol):
    def decode(self, data: bytes) -> Payload:
        return data[0] % self.outputs


@dataclass(frozen=True)
class LenientCodec(KVUE):
    name: ClassVar[str] = "lenient-codec"

    @property
    def codec(self) -> Symbol:
        return Lenient(self.outputs)


@dataclass(frozen=True)
class FloatPayload(KVUE):
    name: ClassVar[str] = "float-payload"

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Any:
        return 0.5


@dataclass(frozen=True)
class Honest(KVUE):
    """Tells the truth."""

    name: ClassVar[str] = "honest"

    @property
    def channel(self) -> Table:
        return Table(((98, 1, 1), (1, 98, 1), (1, 1, 98)))


@dataclass(frozen=True)
class FailingResponse(KVUE):
    name: ClassVar[str] = "failing-response"

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        return pairs[0][0]


@dataclass(frozen=True)
class FewRows(KVUE):
    name: ClassVar[str] = "few-rows"

    def respond_many(self, records: Records, words: Any, coins: Coins) -> Any:
        return super().respond_many(records, words, coins)[:-1]


@dataclass(frozen=True)
class OtherBulk(KVUE):
    name: ClassVar[str] = "other-bulk"

    def respond_many(self, records: Records, words: Any, coins: Coins) -> Any:
        return np.zeros(records.n, dtype=np.int64)


@dataclass(frozen=True)
class ListedShape(KVUE):
    name: ClassVar[str] = "listed-shape"

    @property
    def tally_shape(self) -> Any:
        return list(super().tally_shape)


@dataclass(frozen=True)
class FlatFold(KVUE):
    name: ClassVar[str] = "flat-fold"

    def fold(self, payloads: Any, words: Any) -> Any:
        return super().fold(payloads, words).ravel()


@dataclass(frozen=True)
class CountsBlocks(KVUE):
    """Counts each block once more than it should."""

    name: ClassVar[str] = "counts-blocks"

    def fold(self, payloads: Any, words: Any) -> Any:
        return super().fold(payloads, words) + 1


@dataclass(frozen=True)
class Misnamed(KVUE):
    name: ClassVar[str] = "misnamed"

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        estimates = super().estimate(tally, confidence, population)
        return replace(estimates, header=replace(estimates.header, n=estimates.n + 1))


@dataclass(frozen=True)
class NoEstimates(KVUE):
    name: ClassVar[str] = "no-estimates"

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Any:
        return {"fries": 0.3}


@dataclass(frozen=True)
class Hopeful(KVUE):
    """Counts a tenth of the silent reports as support."""

    name: ClassVar[str] = "hopeful"

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        counts = tally.counts.copy()
        moved = counts[0] // 10
        counts[0] -= moved
        counts[2] += moved
        return super().estimate(Tally(tally.fingerprint, tally.reports, counts), confidence, population)


@dataclass(frozen=True)
class OneRecord(KVUE):
    name: ClassVar[str] = "one-record"

    def every_record(self) -> Iterable[Pairs]:
        return [[]]


@dataclass(frozen=True)
class NoWords(KVUE):
    name: ClassVar[str] = "no-words"

    def every_word(self) -> list[int]:
        return []


@dataclass(frozen=True)
class Choosy(KVUE):
    """Refuses some records that it says it takes."""

    name: ClassVar[str] = "choosy"
    takes: ClassVar[Takes] = "one key"


@dataclass(frozen=True)
class OddTakes(KVUE):
    name: ClassVar[str] = "odd-takes"
    takes: ClassVar[Any] = "whatever"


@dataclass(frozen=True)
class Shrinking(KVUE):
    name: ClassVar[str] = "shrinking"

    def reduced(self) -> Any:
        return KVUE(Schema(keys=2), self.epsilon)


@dataclass(frozen=True)
class Cheaper(KVUE):
    name: ClassVar[str] = "cheaper"

    def reduced(self) -> Self:
        return replace(super().reduced(), epsilon=self.epsilon / 2)


@dataclass(frozen=True)
class SameForAll(KVUE):
    name: ClassVar[str] = "same-for-all"
    fingerprint = bytes(32)


@dataclass(frozen=True)
class Forgetful(KVUE):
    """Its document lacks an option."""

    volume: int = 1

    name: ClassVar[str] = "forgetful"

    def document(self) -> dict[str, Any]:
        document = super().document()
        return {**document, "options": {}}


@dataclass(frozen=True)
class Loud(KVUE):
    """Its option is a float."""

    volume: float = 0.5

    name: ClassVar[str] = "loud"


@dataclass(frozen=True)
class ReadsNothing(KVUE):
    name: ClassVar[str] = "reads-nothing"
    readings: ClassVar[frozenset[str]] = frozenset({"colour"})


@dataclass(frozen=True)
class LacksNothing(KVUE):
    name: ClassVar[str] = "lacks-nothing"
    lacks = frozenset({int})


@dataclass(frozen=True)
class WrongExample(KVUE):
    name: ClassVar[str] = "wrong-example"
    examples: ClassVar[Any] = ({"colour": "red"},)


@dataclass(frozen=True)
class LatePublic(KVUE):
    """Draws the public bytes after the answer."""

    name: ClassVar[str] = "late-public"

    def perturb(self, record: Any, coins: Coins, public: bytes | None = None) -> Report:
        coins.below(2)
        return super().perturb(record, coins, public)


@dataclass(frozen=True)
class Optimist(KVUE):
    """Predicts errors that are too small by a third."""

    name: ClassVar[str] = "optimist"

    def predicted_spread(self, *given: Any, **options: Any) -> Any:
        spread = super().predicted_spread(*given, **options)
        return type(spread)(*(part * 2 / 3 for part in spread))


@dataclass(frozen=True)
class ForgetsFirst(KVUE):
    """Draws tallies in which one person is missing in a hundred."""

    name: ClassVar[str] = "forgets-first"

    def draw_tally(self, records: Records, coins: Coins, draws: Any) -> Any:
        return super().draw_tally(records.slice(records.n // 100, records.n), coins, draws)


@dataclass(frozen=True)
class Unlimited(KVUE):
    name: ClassVar[str] = "unlimited"

    def cap(self) -> Any:
        return 4.0


class FewFakes(GRR):
    """Says that people without the key support it a tenth less often than they do."""

    def support_rates(self) -> tuple[Fraction, Fraction]:
        own, other = super().support_rates()
        return own, other * Fraction(9, 10)


class Independent(GRR):
    """Takes the estimates of two keys for independent, although one symbol excludes the others."""

    def dependence(self, population: bool = False) -> Dependence:
        return replace(super().dependence(population), base=0.0, slope=0.0)


class SeparateBits(RAPPOR):
    """Takes frequencies for independent that are solved from the same bits."""

    def key_covariances(self, rows: Any, columns: Any, frequency: Any, population: bool = False) -> PairTerms:
        found = super().key_covariances(rows, columns, frequency, population)
        return found._replace(known=found.known - super().key_covariances(rows, columns, frequency).known)


class SameSample(RAPPORMeanEst):
    """Forgets that people who are a sample hold keys together by chance."""

    def key_covariances(self, rows: Any, columns: Any, frequency: Any, population: bool = False) -> PairTerms:
        return super().key_covariances(rows, columns, frequency)


class TooMany(GRR):
    """Says that people hold 1.1 keys on average, where everybody holds one."""

    def constraint(self, estimates: Estimates) -> Any:
        return replace(super().constraint(estimates), total=1.1)


class LightCells(KVUE):
    """Histograms that lack a tenth of the people."""

    def histogram(self, tally: Tally, population: bool = False) -> Histogram:
        found = super().histogram(tally, population)
        return replace(found, mass=found.mass * 0.9)


class OneOdd(KVUE):
    """Knows the odds of one key only."""

    def cell_odds(self) -> Any:
        return super().cell_odds()[:1]


class Mirrored(SquareWave):
    """Takes high values for low ones."""

    def window_counts(self, tally: Tally) -> Any:
        found = super().window_counts(tally)
        return replace(found, counts=found.counts[:, ::-1])


class HalfHeard(Split):
    """Counts the first part for all of the people, although the others are in the merged estimates."""

    def part_answers(self, tally: Tally) -> Any:
        return super().part_answers(tally)[:1]


class SureParts(Split):
    """States weights that lead to the estimates, of parts that were heard four times as often as they were."""

    def part_answers(self, tally: Tally) -> Any:
        return [replace(one, tally=_fourfold(one.tally)) for one in super().part_answers(tally)]


def _fourfold(tally: Tally) -> Tally:
    return Tally(tally.fingerprint, 4 * tally.reports, 4 * tally.counts)


class SureOfPairs(Moments):
    """States variances that are half as large as they are."""

    def answer_jointly(self, *given: Any, **options: Any) -> Any:
        found = super().answer_jointly(*given, **options)
        return replace(found, covariance=found.covariance / 2)


class MirroredCells(IOH):
    """Takes plus for minus."""

    def contingency_tables(self, tally: Tally) -> Any:
        found = super().contingency_tables(tally)
        return found._replace(shares=found.shares[:, ::-1])


class Trusting(WSR):
    """Admits what it spends without any announcement."""

    def announced_ratio(self) -> Ratio:
        return Fraction(3, 2)


class AnyName(WSR):
    """Lets an option be announced that it does not have."""

    def announced(self) -> frozenset[str]:
        return frozenset({"colour"})


class Guessing(TopSelCover):
    """Gives an option that it does not take."""

    @classmethod
    def options_for_sizes(cls, law: Any, cap: int, keys: int) -> dict[str, Any]:
        return {"colour": cap}


class Harmless(KVUE):
    """Says that a report can do half of what it does."""

    def report_effects(self, tally: Tally) -> list[Effects]:
        return [one.scaled(0.5, 0.5, fixed=True) for one in super().report_effects(tally)]


class Fearful(WSR):
    """Says that a report can do thirty times what it does."""

    def report_effects(self, tally: Tally) -> list[Effects]:
        return [one.scaled(30.0, 30.0, fixed=True) for one in super().report_effects(tally)]


BROKEN: list[tuple[Any, dict[str, Any], str]] = [
    (Stranger, {}, "class"),
    (Unfinished, {}, "signs"),
    (Nameless, {}, "name"),
    (Undecorated, {}, "loudness"),
    (Unmade, {}, "__init__"),
    (FloatRatio, {}, "ratio"),
    (ModestRatio, {}, "ratio"),
    (NoDecoder, {}, "codec"),
    (LenientCodec, {}, "codec"),
    (FloatPayload, {}, "respond"),
    (Honest, {}, "respond"),
    (FailingResponse, {}, "respond"),
    (FewRows, {}, "respond_many"),
    (OtherBulk, {}, "respond_many"),
    (ListedShape, {}, "tally_shape"),
    (FlatFold, {}, "fold"),
    (CountsBlocks, {}, "fold"),
    (Misnamed, {}, "estimate"),
    (NoEstimates, {}, "estimate"),
    (Hopeful, {}, "estimate"),
    (OneRecord, {}, "every_record"),
    (NoWords, {}, "every_word"),
    (Choosy, {}, "check"),
    (OddTakes, {}, "takes"),
    (Shrinking, {}, "reduced"),
    (Cheaper, {}, "reduced"),
    (SameForAll, {}, "fingerprint"),
    (Forgetful, {"volume": 2}, "document"),
    (Loud, {}, "options"),
    (ReadsNothing, {}, "readings"),
    (LacksNothing, {}, "lacks"),
    (WrongExample, {}, "examples"),
    (LatePublic, {}, "perturb"),
]
DECLARED: list[tuple[Any, dict[str, Any], type, str]] = [  # what is declared and not true
    (Optimist, {}, PredictedVariance, "predicted_spread"),
    (ForgetsFirst, {}, TallyLaw, "draw_tally"),
    (Unlimited, {}, Capped, "cap"),
    (FewFakes, {}, SupportRates, "support_rates"),
    (Independent, {}, KeyDependence, "dependence"),
    (SeparateBits, {"bits": 4, "cohorts": 2}, KeyCovariances, "key_covariances"),
    (SameSample, {}, KeyCovariances, "key_covariances"),
    (TooMany, {}, KnownTotal, "constraint"),
    (LightCells, {"bins": 4}, Histograms, "histogram"),
    (OneOdd, {"bins": 4}, Cells, "cell_odds"),
    (Mirrored, {}, Windows, "window_counts"),
    (SureOfPairs, {}, JointStatistics, "answer_jointly"),
    (HalfHeard, {"max_pairs": 2}, Parted, "part_answers"),
    (SureParts, {"max_pairs": 2}, Parted, "part_answers"),
    (MirroredCells, {}, ContingencyTables, "contingency_tables"),
    (Trusting, {"max_pairs": 2}, Announced, "announced_ratio"),
    (AnyName, {"max_pairs": 2}, Announced, "announced"),
    (Harmless, {}, ReportEffects, "report_effects"),
    (Fearful, {"max_pairs": 2}, ReportEffects, "report_effects"),
    (Guessing, {"padding": 2}, LearnsSizes, "options_for_sizes"),
]


@pytest.mark.parametrize(("cls", "options", "member"), BROKEN, ids=[case[0].__name__ for case in BROKEN])
def test_the_broken_member_is_named(cls: Any, options: dict[str, Any], member: str) -> None:
    with pytest.raises(ContractError) as refused:
        check_mechanism(cls, epsilons=[1], **options)
    assert (refused.value.code, refused.value.member) == (f"contract/{member}", member)
    sentence = refused.value.sentence
    assert sentence.endswith(".") and "\n" not in sentence
    assert member in sentence or member in ("class", "__init__")
    assert isinstance(refused.value, AssertionError)  # test frameworks show it as a failure, not as an accident


@pytest.mark.parametrize(
    ("cls", "options", "capability", "member"), DECLARED, ids=[case[0].__name__ for case in DECLARED]
)
def test_a_capability_that_is_declared_and_not_true_is_named(
    cls: Any, options: dict[str, Any], capability: type, member: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeated, "REPEATS", 150)  # so many show what is as wrong as these are
    with pytest.raises(ContractError) as refused:
        CAPABILITY_CHECKS[capability](cls(Schema(keys=4), Fraction(1), **options))
    assert refused.value.code == f"contract/{member}"
    assert member in refused.value.sentence


def test_every_capability_has_its_check() -> None:
    assert set(CAPABILITY_CHECKS) == CAPABILITIES


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("privkvm", "is a protocol"),
        ("kvu", "did you mean kvue"),
        (lambda schema, epsilon: 3, "makes a int, which is no Mechanism"),
    ],
)
def test_what_is_no_mechanism_is_refused(given: Any, told: str) -> None:
    with pytest.raises(KeyveilError, match=told):
        check_mechanism(given)


def test_an_object_is_checked_with_its_own_options_and_the_report_is_for_people(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(suite, "PEOPLE", 1500)
    monkeypatch.setattr(repeated, "REPEATS", 150)
    report = check_mechanism(SS(Schema(keys=9), Fraction(3), size=2), epsilons=[2])
    assert (report.mechanism, report.options["size"]) == ("ss", 2)
    assert report.to_dict()["checks"][0]["name"] == "members are there"
    assert report.seconds == sum(one["seconds"] for one in report.to_dict()["checks"])
    assert str(report).startswith(f"ss keeps the contract: {len(report.checks)} checks")
    assert "\n  tallies" not in str(report) and "\n  predictions come true " in str(report)  # what it declares
