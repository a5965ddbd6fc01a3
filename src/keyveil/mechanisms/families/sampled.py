"""Mechanisms that pad a record to ``max_pairs`` places and speak about one of them.

A holder's pair is sampled with probability 1/``max_pairs``; an empty place is a dummy and touches no key that is
sent. That costs a factor of about ``max_pairs`` in variance, which the set responses (``ssr``, ``wsr``) do not pay.
Records with more pairs are taken as they are: every one of their pairs is then sampled less often, and frequencies
come out too low.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import MechanismError
from keyveil.core.estimates import FLAGS, Column, Estimates
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.mechanisms.announcements import AnnouncedCap
from keyveil.mechanisms.budget_split import SPLITS, value_budget
from keyveil.mechanisms.capabilities import ReportEffects
from keyveil.mechanisms.effects import Effects, of_statistics
from keyveil.mechanisms.encoders import Labels, PadAndSample
from keyveil.mechanisms.families.key_value import REDUCED_KEYS, KeyValue
from keyveil.mechanisms.responses import Floats, Response, Spread, three_state

REDUCED_PAIRS = 2
CLIPPED = np.int8(FLAGS.index("clipped"))

Split = Literal["tight", "paper"]
Estimator = Literal["unbiased", "published"]


@dataclass(frozen=True)
class Sampled(AnnouncedCap, KeyValue):
    """One pair out of max(|S|, max_pairs) places is what a report is about."""

    max_pairs: int

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({"max_pairs": 2},)

    def validate(self) -> None:
        if not 1 <= self.max_pairs <= self.schema.d:
            raise MechanismError(
                "mechanism/option", f"{self.name} takes max_pairs from 1 to {self.schema.d} keys, not {self.max_pairs}."
            )

    def _refuse_unknown(self, option: str, *known: str) -> None:
        if getattr(self, option) not in known:
            raise MechanismError(
                "mechanism/option", f"{self.name} takes {option}={'|'.join(known)}, not {getattr(self, option)!r}."
            )

    def cap(self) -> int:
        return self.max_pairs

    @cached_property
    def encoder(self) -> PadAndSample:
        return PadAndSample(self.max_pairs)

    @property
    def inclusion(self) -> Fraction:
        """How often a holder's pair is the one that is sampled."""
        return Fraction(1, self.max_pairs)

    @property
    @abstractmethod
    def response(self) -> Response:
        """How the supports of a key answer to its holders, whose pair is sampled or not."""

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        """Every report speaks about every key; nobody is taken to hold more pairs than the cap."""
        return self.response.predicted(frequency, mean, n, population)

    @property
    def sizes(self) -> dict[str, int]:
        return {"keys": self.schema.d, "max_pairs": self.max_pairs}

    def reduced(self) -> Self:
        return self._with_keys(REDUCED_KEYS)

    def _with_keys(self, most: int) -> Self:
        keys = min(self.schema.d, most)
        schema = self.schema if keys == self.schema.d else Schema(keys=keys)
        return replace(self, schema=schema, max_pairs=min(self.max_pairs, REDUCED_PAIRS, keys))


class Rates(NamedTuple):
    """The constants of the three-state core."""

    seen: Fraction  # a sampled pair speaks
    fake: Fraction  # any other key speaks
    truth: Fraction  # a sampled pair that speaks has its own sign


@dataclass(frozen=True)
class PCKV(Sampled):
    """Correlated perturbation of a sampled key and its sign (Gu et al. 2020)."""

    split: Split = "tight"
    estimator: Estimator = "unbiased"
    value_epsilon: Fraction | None = None

    readings: ClassVar[frozenset[str]] = frozenset({"estimator"})
    unsaid: ClassVar[frozenset[str]] = frozenset({"value_epsilon"})
    keys_at_once: ClassVar[int | None] = None  # keys that a report can support, if there are fewer than all

    def validate(self) -> None:
        super().validate()
        self._refuse_unknown("split", *SPLITS)
        self._refuse_unknown("estimator", "unbiased", "published")
        _ = self.sign_epsilon  # refuses a budget that leaves nothing

    @property
    def sign_epsilon(self) -> Fraction:
        """ε₂, the budget of the sign; the key has the rest of ε (``split="paper"``) or all that ε allows beside it."""
        return value_budget(self.name, self.epsilon, self.split, self.value_epsilon)

    @property
    @abstractmethod
    def rates(self) -> Rates:
        """From the integers of the channel."""

    @abstractmethod
    def votes(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many reports say minus and plus about each key, [2, d]."""

    @property
    def labels(self) -> Labels:
        return Labels()

    @cached_property
    def response(self) -> Response:
        seen, fake, truth = self.rates
        return three_state(seen, fake, truth, inclusion=self.inclusion)

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        """As unbiased estimates have it: published frequencies are cut, published means have no law."""
        spread = super().predicted_spread(frequency, mean, sizes, n, population)
        return spread if self.estimator == "unbiased" else spread.of_frequency()

    def support_rates(self) -> tuple[Fraction, Fraction]:
        return self.response.rates

    @property
    def lacks(self) -> frozenset[type]:
        """What published estimates cut off follows from the data."""
        return super().lacks | (frozenset() if self.estimator == "unbiased" else frozenset({ReportEffects}))

    def report_effects(self, tally: Tally) -> list[Effects]:
        """A report says nothing, minus or plus of a key."""
        said = of_statistics(self.response, (0, 1, 1), (0, -1, 1), np.full(self.schema.d, tally.reports))
        return [replace(said, at_once=self.keys_at_once)]

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        minus, plus = self.votes(self._own(tally))
        estimates = self.response.estimates(
            self.header(tally.reports, confidence, population),
            respondents=np.full(self.schema.d, tally.reports, dtype=np.int64),
            supports=minus + plus,
            signed=plus - minus,
        )
        return estimates if self.estimator == "unbiased" else self._published(estimates, minus, plus)

    def _published(self, estimates: Estimates, minus: NDArray[np.int64], plus: NDArray[np.int64]) -> Estimates:
        """Gu et al.'s correction: whatever is impossible is cut off. Less error, but biased, and so flagged."""
        n, (seen, fake, truth) = max(estimates.n, 1), map(float, self.rates)
        frequency = estimates.frequency.clipped(1 / n, 1)
        own, other = seen * truth - fake / 2, seen * (1 - truth) - fake / 2
        excess_plus, excess_minus = plus - n * fake / 2, minus - n * fake / 2
        determinant, sampled = own**2 - other**2, n * frequency.values / self.max_pairs
        high = np.clip((own * excess_plus - other * excess_minus) / determinant, 0, sampled)
        low = np.clip((own * excess_minus - other * excess_plus) / determinant, 0, sampled)
        mean = _moved(estimates.mean, (high - low) / sampled)
        return replace(estimates, frequency=frequency, mean=mean.clipped(-1, 1))


def _moved(column: Column, values: NDArray[np.float64]) -> Column:
    """The column with other values, flagged wherever they differ by more than rounding."""
    same = np.isclose(values, column.values, rtol=1e-9, atol=1e-12)
    return replace(column, values=values, flag=np.maximum(column.flag, np.where(same, np.int8(0), CLIPPED)))


def others(ranks: NDArray[np.int64], hot: Sequence[int]) -> NDArray[np.int64]:
    """Keys by their ranks among those that are not sampled; ``hot`` has the sampled one, if there is one."""
    return ranks + (ranks >= hot[0]) if hot else ranks


def vector_ratio(likely: Fraction, unlikely: Fraction, silent: Fraction) -> Fraction:
    """The largest ratio of a vector over all keys in which only the sampled one has a law of its own.

    Each is the probability of what the sampled key says over that of the same from any other: the most likely
    answer, the least likely answer, and silence. A report may be likely for one record's whole padded set and
    unlikely or silent for another's, so sampling amplifies nothing: tight if twice ``max_pairs`` keys exist, or
    ``max_pairs`` where an answer is no likelier than silence.
    """
    return likely / min(unlikely, silent)


def count_states(keys: NDArray[np.int64], states: NDArray[np.int64], count: int, d: int) -> NDArray[np.int64]:
    """For each key how many people send it through each row of a factor, [count, d]; row 0 has all others.

    ``keys`` (-1 for a dummy) and ``states`` are everybody's sampled pair. Given this table, the reports of all
    people about a key are independent draws from the rows of the factor: a tally can be drawn without any report.
    """
    real = keys >= 0
    counts = np.bincount(states[real] * d + keys[real], minlength=count * d).reshape(count, d).astype(np.int64)
    counts[0] = len(keys) - counts[1:].sum(axis=0)
    return counts
