"""The two rounds of Adaptive: which key (``KeyPhase``), and a key sampled by public weights with its value.

A key goes through randomised response over all keys and dummies; a value goes through the piecewise window if its key
survived. Sampling amplifies privacy as long as no symbol, dummies included, can be certain: the null mass is spread
over as many dummies as the likeliest key would fit in. Derivation: docs/protocols-groups.md, docs/theory.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio, TwoLevel
from keyveil.core.codecs.symbols import Symbol
from keyveil.core.coins import Coins
from keyveil.core.epsilon import RESOLUTION, exp_floor, levels
from keyveil.core.errors import MechanismError, ProtocolError
from keyveil.core.estimates import Column, Estimates
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.kernels.arcs import below_each
from keyveil.mechanisms.announcements import CalibratedOnDevice, accepted_forms
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.capabilities import KeyCovariances
from keyveil.mechanisms.dependence import Dependence, PairTerms, one_symbol
from keyveil.mechanisms.encoders import Cap, round_many, round_to
from keyveil.mechanisms.families.key_value import FREQUENCIES, FREQUENCIES_AND_MEANS, REDUCED_KEYS, KeyValue
from keyveil.mechanisms.families.sampled import REDUCED_PAIRS, Sampled, Split
from keyveil.mechanisms.keyvalue.wsr import MOST_UNFAIR, MOST_WEIGHT, extreme_weights, heaviest
from keyveil.mechanisms.numeric.piecewise import check_steps, piecewise_window
from keyveil.mechanisms.responses import Response, Solution, Spread, SupportMoments
from keyveil.mechanisms.rounds.adaptive_budget import PhaseBudget, amplified, best_budget, shared_budget

REDUCED_STEPS = 2

Variant = Literal["repaired", "published"]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class KeyPhase(Sampled):
    """One key of a padded record, told with weight 1 + ℓ(e^ε - 1), every other one and every dummy with weight 1.

    ``split="paper"`` has one dummy and the weight e^ε: nothing is gained by sampling.
    """

    split: Split = "tight"

    name: ClassVar[str] = "adaptive-key"

    @property
    def estimated(self) -> frozenset[str]:
        return FREQUENCIES

    def validate(self) -> None:
        super().validate()
        self._refuse_unknown("split", "tight", "paper")

    @property
    def dummies(self) -> int:
        return self.max_pairs if self.split == "tight" else 1

    @cached_property
    def channel(self) -> TwoLevel:
        sharp = 1 + self.dummies * (exp_floor(self.epsilon) - 1)
        return TwoLevel(self.schema.d + self.dummies, 1, math.floor(sharp * RESOLUTION), RESOLUTION)

    @property
    def ratio(self) -> Ratio:
        return 1 + (Fraction(self.channel.high, self.channel.low) - 1) / self.dummies

    @property
    def codec(self) -> Symbol:
        return Symbol(self.schema.d + 1)

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        sampled = self.encoder.draw(pairs, coins)
        return min(told(self.schema.d if sampled is None else sampled[0], self.channel, coins)[1], self.schema.d)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        keys, _ = self.encoder.draw_many(records, coins)
        _, outputs = told_many(np.where(keys < 0, self.schema.d, keys), self.channel, coins)
        return np.minimum(outputs, self.schema.d)

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (self.schema.d + 1,)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return np.bincount(payloads, minlength=self.schema.d + 1)

    @cached_property
    def response(self) -> Response:
        own, other = (SupportMoments(share, share) for share in (self.channel.hit, self.channel.miss))
        return Response(own.mixed(self.inclusion, other), other)

    def dependence(self, population: bool = False) -> Dependence:
        return one_symbol(self.response).of_sets(population)

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        return self.response.estimates(
            self.header(tally.reports, confidence, population),
            respondents=np.full(self.schema.d, tally.reports),
            supports=self._own(tally)[:-1],
            signed=None,
            no_mean="This group tells keys alone; the next one tells values.",
        )


@dataclass(frozen=True)
class ValuePhase(CalibratedOnDevice, KeyValue):
    """A key sampled by public ``weights`` through randomised response, and its value through the piecewise window.

    *Repaired*: a key is sampled with probability weight / ``reserve``, the same for everybody; ``reserve`` is the
    weight of the ``max_pairs`` heaviest keys, and a device refuses one that is smaller. A key that did not survive
    gets a uniform value. *Published*: sampled by weight within the record, half the budget each for key and value,
    and the value 0 through the window for a key that did not survive; means are weighted by what else people hold.
    ``key_to_value`` is ε₂/ε₃, the budget of the key over that of the value; unless given 1 in the published form, and
    the one of least variance in the repaired form.
    """

    max_pairs: int
    weights: tuple[int, ...] | None = None
    reserve: int | None = None
    variant: Variant = "repaired"
    steps: int = 1024
    key_to_value: Fraction | None = None

    name: ClassVar[str] = "adaptive-value"
    unsaid: ClassVar[frozenset[str]] = frozenset({"key_to_value"})

    @property
    def estimated(self) -> frozenset[str]:
        return FREQUENCIES_AND_MEANS if self.repaired else frozenset({"mean"})

    @property
    def lacks(self) -> frozenset[type]:
        """Of the published form it is not known how often a key is sampled."""
        return super().lacks | (frozenset() if self.repaired else frozenset({KeyCovariances}))

    def cap(self) -> int:
        return self.max_pairs

    def validate(self) -> None:
        d = self.schema.d
        check_steps(self.name, self.steps)
        if not 1 <= self.max_pairs <= d:
            raise _refused(f"{self.name} takes max_pairs from 1 to {d} keys, not {self.max_pairs}.")
        if self.variant not in ("repaired", "published"):
            raise _refused(f"{self.name} takes variant=repaired|published, not {self.variant!r}.")
        if self.key_to_value is not None and not Fraction(1, 100) <= self.key_to_value <= 100:
            raise _refused(f"{self.name} takes a key_to_value from 0.01 to 100, not {self.key_to_value}.")
        if self.weights is None:
            object.__setattr__(self, "weights", (1,) * d)
        weights = self.weights or ()
        if len(weights) != d or min(weights) < 1 or max(weights) > min(MOST_WEIGHT, MOST_UNFAIR * min(weights)):
            raise _broadcast(
                f"{self.name} takes {d} whole weights up to {MOST_WEIGHT} "
                f"that differ by a factor of at most {MOST_UNFAIR}."
            )
        least = heaviest(weights, self.max_pairs)
        if self.reserve is None:
            object.__setattr__(self, "reserve", least)
        if not least <= self.total <= MOST_UNFAIR * least:
            raise _broadcast(
                f"The announced total of weights, {self.reserve}, is not the {least} that a set can reach."
            )
        factor = math.gcd(*weights, self.total)
        object.__setattr__(self, "weights", tuple(weight // factor for weight in weights))
        object.__setattr__(self, "reserve", self.total // factor)

    # -- channel ------------------------------------------------------------------------------------------------

    @property
    def beta(self) -> Integers:
        return np.array(self.weights, dtype=np.int64)

    @property
    def total(self) -> int:
        assert self.reserve is not None
        return self.reserve

    @property
    def repaired(self) -> bool:
        return self.variant == "repaired"

    @property
    def inclusion(self) -> Fraction:
        """How often the likeliest key is sampled by its holder: a device finds it from the broadcast weights."""
        return Fraction(int(self.beta.max()), self.total) if self.repaired else Fraction(1)

    @property
    def dummies(self) -> int:
        return math.ceil(1 / self.inclusion)

    @cached_property
    def budget(self) -> PhaseBudget:
        if self.repaired and self.key_to_value is None:
            return best_budget(self.epsilon, self.inclusion, self.schema.d, self.max_pairs, self.steps)
        if self.repaired:
            return shared_budget(self.epsilon, self.inclusion, self.schema.d, self.steps, self.key_to_value)
        value = self.epsilon / (1 + (1 if self.key_to_value is None else self.key_to_value))
        keys = TwoLevel(self.schema.d + 1, 1, *levels(self.epsilon - value))
        return PhaseBudget(keys, piecewise_window(self.steps, value))

    @property
    def ratio(self) -> Ratio:
        keys, value = self.budget
        if self.repaired:
            return amplified(Fraction(keys.high, keys.low), value, self.inclusion)
        return Fraction(keys.ratio) * Fraction(value.channel.ratio)

    @property
    def null(self) -> int:
        """The symbol of all dummies; a key k with the answer y is the symbol k · outputs + y."""
        return self.schema.d * self.budget.value.outputs

    @property
    def codec(self) -> Symbol:
        return Symbol(self.null + 1)

    @property
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "pairs": self.max_pairs, "steps": self.steps}

    def reduced(self) -> Self:
        keys = min(self.schema.d, REDUCED_KEYS)
        return replace(
            self,
            schema=self.schema if keys == self.schema.d else Schema(keys=keys),
            max_pairs=min(self.max_pairs, REDUCED_PAIRS, keys),
            weights=tuple(self.beta[:keys].tolist()),
            reserve=None,
            steps=min(self.steps, REDUCED_STEPS),
        )

    # -- announcements ------------------------------------------------------------------------------------------

    def announced(self) -> frozenset[str]:
        return frozenset({"weights", "reserve"})

    def announced_forms(self) -> Sequence[Mechanism]:
        """Extreme weights with the reserve that they need, and equal ones with a reserve that is larger."""
        d = self.schema.d
        tight = accepted_forms(self, weights=extreme_weights(d), reserve=[None])
        return [*tight, *accepted_forms(self, weights=[(1,) * d], reserve=[3 * d])]

    # -- device and bulk ----------------------------------------------------------------------------------------

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        (keys, window), (key, value) = self.budget, self._sampled(pairs, coins)
        hit, symbol = told(key, keys, coins)
        if symbol >= self.schema.d:
            return self.null
        if hit:
            answer = window.draw(round_to(value, 2 * self.steps, coins), coins)
        else:
            answer = coins.below(window.outputs) if self.repaired else window.draw(self.steps, coins)
        return symbol * window.outputs + answer

    def _sampled(self, pairs: Pairs, coins: Coins) -> tuple[int, int]:
        """The pair that the report is about; the key after the last stands for a dummy."""
        if self.repaired:
            pairs = Cap(self.max_pairs).draw(pairs, coins)
            weights = [int(self.beta[key]) for key, _ in pairs]
            place = coins.choose([*weights, self.total - sum(weights)])
        else:
            room = max(len(pairs), self.max_pairs, 1)
            weights = [int(self.beta[key]) * len(pairs) for key, _ in pairs]
            empty = (sum(weights) // len(pairs)) * (room - len(pairs)) if pairs else 1
            place = coins.choose([*weights, empty])
        return pairs[place] if place < len(pairs) else (self.schema.d, 0)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        (keys, window), (inputs, values) = self.budget, self._sampled_many(records, coins)
        hits, symbols = told_many(inputs, keys, coins)
        own = window.draw_many(round_many(values, 2 * self.steps, coins), coins)
        if self.repaired:
            fake = coins.below_many(window.outputs, records.n)
        else:
            fake = window.draw_many(np.full(records.n, self.steps, dtype=np.int64), coins)
        answers = symbols * window.outputs + np.where(hits, own, fake)
        return np.where(symbols >= self.schema.d, self.null, answers)

    def _sampled_many(self, records: Records, coins: Coins) -> tuple[Integers, NDArray[np.int32]]:
        if self.repaired:
            records = Cap(self.max_pairs).draw_many(records, coins)
        bounds = np.concatenate(([0], np.cumsum(self.beta[records.keys])))
        starts, stops = bounds[records.offsets[:-1]], bounds[records.offsets[1:]]
        if self.repaired:
            marks = starts + coins.below_many(self.total, records.n)
            held = marks < stops
        else:
            sizes, rooms = records.sizes, np.maximum(records.sizes, self.max_pairs)
            held = below_each(rooms, coins) < sizes
            marks = starts + below_each(np.maximum(stops - starts, 1), coins)
        places = np.searchsorted(bounds, marks[held], side="right") - 1
        keys, values = np.full(records.n, self.schema.d, dtype=np.int64), np.zeros(records.n, dtype=np.int32)
        keys[held], values[held] = records.keys[places], records.values[places]
        return keys, values

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (3, self.schema.d)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Per key the reports, the sum and the sum of squares of their answers, counted from the middle."""
        outputs, d = self.budget.value.outputs, self.schema.d
        keys, answers = np.divmod(payloads[payloads < self.null], outputs)
        cells = np.bincount(keys * outputs + answers, minlength=d * outputs).reshape(d, outputs)
        steps = np.arange(outputs, dtype=np.int64) - outputs // 2
        return (cells @ np.stack([np.ones_like(steps), steps, steps**2], axis=1)).T

    def solve(self, tally: Tally, population: bool) -> Solution:
        """Unbiased estimates of f and f·m; of what is sampled, where sampling depends on the rest of a record."""
        (keys, window), n = self.budget, max(tally.reports, 1)
        count, total, square = self._own(tally) / n
        included = self.beta / self.total if self.repaired else np.ones(self.schema.d)
        hit, miss = float(keys.hit), float(keys.miss)
        own, slope = included * (hit - miss) + miss, included * hit * float(window.gain * window.radius)
        frequency, product = (count - miss) / (own - miss), total / slope
        share = np.clip(frequency, 1 / n, 1)
        value = slope * np.clip(product / share, -1, 1)
        # Among fixed people a holder's own mean is no error; who is sampled by weight within a record is not known.
        if population or not self.repaired:
            mean = share * own + (1 - share) * miss
            var_q, var_t, cov = mean * (1 - mean), square - (share * value) ** 2, share * value * (1 - mean)
        else:
            var_q = share * own * (1 - own) + (1 - share) * miss * (1 - miss)
            var_t, cov = square - share * value**2, share * value * (1 - own)
        gain = own - miss
        spread = Spread(var_q / gain**2 / n, np.maximum(var_t, 0) / slope**2 / n, cov / gain / slope / n)
        return Solution(frequency, product, spread)

    def key_covariances(
        self, rows: Integers, columns: Integers, frequency: Floats, population: bool = False
    ) -> PairTerms:
        """One symbol excludes the others; how often a holder's key is sampled differs from key to key."""
        keys = self.budget.keys
        odds = float(keys.miss) / (self.beta / self.total * float(keys.hit - keys.miss))
        f, g, a, b = frequency[rows], frequency[columns], odds[rows], odds[columns]
        known = -(np.outer(a, b) + np.outer(a, g) + np.outer(f, b))
        return PairTerms(known, -1.0).of_sets(f, g, population)

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        estimates = self.solve(tally, population).estimates(
            self.header(tally.reports, confidence, population),
            respondents=np.full(self.schema.d, tally.reports),
        )
        if self.repaired:
            return estimates
        why = "Keys are sampled by what else a record holds: how often is known from the first phase alone."
        unknown = Column.unknown(self.schema, why)
        assert estimates.product is not None
        with np.errstate(divide="ignore", invalid="ignore"):
            printed = np.where(np.isnan(estimates.mean.values), np.nan, estimates.product / estimates.frequency.values)
        mean = replace(estimates.mean, values=printed).flagged("truncated", np.ones(self.schema.d, dtype=bool))
        return replace(estimates, frequency=unknown, mean=mean, product=None, product_se=None, covariance=None)


def told(input: int, channel: TwoLevel, coins: Coins) -> tuple[bool, int]:
    """Randomised response over symbols: whether the input was told, and the symbol."""
    hit, rank = channel.draw(coins)
    return hit, input if hit else rank + (rank >= input)


def told_many(inputs: Integers, channel: TwoLevel, coins: Coins) -> tuple[NDArray[np.bool_], Integers]:
    """``told`` for many people."""
    hits, ranks = channel.draw_many(len(inputs), coins)
    return hits, np.where(hits, inputs, ranks + (ranks >= inputs))


def _broadcast(sentence: str) -> ProtocolError:
    return ProtocolError("protocol/broadcast", sentence)


def _refused(sentence: str) -> MechanismError:
    return MechanismError("mechanism/option", sentence)
