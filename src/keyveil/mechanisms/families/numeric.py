"""What the numeric mechanisms share: everybody holds a value for every key, and only means are estimated.

Every report gives an unbiased estimate of one value (``mean-est``: of all values). A key's mean is the average of the
estimates about it; its error follows from their mean square and from what is known of how much people differ.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import product
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio
from keyveil.core.codecs.symbols import Symbol
from keyveil.core.coins import Coins
from keyveil.core.estimates import Column, Estimates
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.schema import GRID, Schema
from keyveil.core.tally import Tally
from keyveil.mechanisms.base import Mechanism, Pairs, record_refused
from keyveil.mechanisms.capabilities import ReportEffects, Takes
from keyveil.mechanisms.effects import Effects, asked
from keyveil.mechanisms.encoders import UniformKey, round_many, round_to
from keyveil.mechanisms.families.window import Window
from keyveil.mechanisms.families.window_levels import WindowLevels
from keyveil.mechanisms.report_laws import Asked
from keyveil.mechanisms.responses import FEWEST, INSUFFICIENT, Spread, normal_quantile

Floats = NDArray[np.float64]

REDUCED_KEYS = 2


class ValueTotals(NamedTuple):
    """What the reports about each key say, on the scale [-1, 1] and per report."""

    respondents: NDArray[np.int64]  # how many there are
    mean: Floats  # of their unbiased estimates; NaN where there are no reports
    square: Floats  # mean square of their unbiased estimates
    spread: Floats  # variance of the values between people as far as the reports show it; 0 where they cannot


class Numeric(Mechanism):
    """A mechanism for values of keys that everybody holds."""

    takes: ClassVar[Takes] = "every key"

    @property
    def estimated(self) -> frozenset[str]:
        return frozenset({"mean"})

    @abstractmethod
    def answers(self, counts: NDArray[np.int64], n: int) -> ValueTotals:
        """What the counts of ``n`` reports say about each key."""

    @abstractmethod
    def squares_at(self, mean: Floats) -> Floats:
        """Expected mean square of the unbiased estimates of a key whose value is ``mean`` for everybody."""

    @property
    def reach(self) -> float:
        """The share of reports that speak about a key."""
        return 1.0

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        """Of means: everybody holds every key, so f is 1 without error and f·m is the mean.

        Values are taken as constant at the mean. Where they differ, signs vary no more in a population and less among
        fixed people; windows vary more.
        """
        nothing = np.zeros_like(mean)
        return Spread(nothing, (self.squares_at(mean) - mean**2) / (self.reach * n), nothing)

    def extreme_counts(self) -> Sequence[NDArray[np.int64]]:
        """Counts in which one report about every key says the least, or the most, that a report can say."""
        return ()

    @property
    def lacks(self) -> frozenset[type]:
        """What one report can add is known to those who say the extremes."""
        said = type(self).extreme_counts is not Numeric.extreme_counts
        return super().lacks | (frozenset() if said else frozenset({ReportEffects}))

    def report_effects(self, tally: Tally) -> list[Effects]:
        """A mean is the average of what the reports about a key say."""
        respondents = self.answers(self._own(tally), tally.reports).respondents
        return [asked(self, ((1, counts) for counts in self.extreme_counts()), respondents)]

    # -- records ------------------------------------------------------------------------------------------------

    def read(self, record: Any) -> Pairs:
        """A value for every key; where there is only one key, a bare number will do."""
        if self.schema.d == 1 and isinstance(record, Real | Decimal) and not isinstance(record, bool):
            record = {self.schema.keys[0]: record}
        return super().read(record)

    def check(self, pairs: Pairs) -> Pairs:
        if len(pairs) != self.schema.d:
            raise record_refused(
                "incomplete",
                f"{self.name} needs a finite value for each of the {self.schema.d} keys, and this record has "
                f"{len(pairs)}; for records with gaps use a key-value mechanism.",
            )
        return pairs

    def table(self, records: Records) -> NDArray[np.int32]:
        """Everybody's values, a column for each key."""
        incomplete = np.flatnonzero(records.sizes != self.schema.d)
        if len(incomplete):
            self.check(records.pairs(int(incomplete[0])))
        return records.values.reshape(records.n, self.schema.d)

    # -- estimates ----------------------------------------------------------------------------------------------

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        respondents, mean, square, spread = self.answers(self._own(tally), tally.reports)
        z, people = normal_quantile(confidence), respondents.astype(np.float64)
        # Respondents are a share of the target: for that share the spread between people is no error.
        known = 0.0 if population else people / max(tally.reports, 1)
        nothing = respondents == 0
        within = square - np.clip(np.nan_to_num(mean), -1, 1) ** 2 - known * spread
        least = 4 * FEWEST * np.nan_to_num(square) / np.maximum(people, 1)  # as if a few of the signs could be others
        se = np.where(nothing, np.nan, np.sqrt(np.maximum(within, least) / np.maximum(people, 1)))
        return Estimates(
            header=self.header(tally.reports, confidence, population),
            respondents=respondents,
            frequency=Column.unknown(
                self.schema, f"{self.name} collects values of keys that everybody holds; kvue gives frequencies."
            ),
            mean=Column(
                self.schema,
                mean,
                se,
                np.where(nothing, -1.0, mean - z * se),
                np.where(nothing, 1.0, mean + z * se),
                np.where(nothing, INSUFFICIENT, 0).astype(np.int8),
                scaled=True,
            ),
        )


class OneValue(Numeric):
    """A report speaks about one key, drawn from its public word, with the whole epsilon (Harmony's way)."""

    @cached_property
    def encoder(self) -> UniformKey:
        return UniformKey(self.schema.d)

    @property
    def reach(self) -> float:
        return 1 / self.schema.d

    def asked_about(self, tally: Tally) -> Asked:
        return Asked.evenly(
            self.answers(self._own(tally), tally.reports).respondents, np.arange(self.schema.d)[:, None]
        )

    def every_word(self) -> list[int]:
        return self.encoder.every_word()

    def every_record(self) -> Iterable[Pairs]:
        """Every choice of values that matter, and of one that has to be rounded."""
        for values in product((*self.every_value(), GRID // 3), repeat=self.schema.d):
            yield list(enumerate(values))

    def every_value(self) -> Sequence[int]:
        """Values of which all others are mixtures: the ends of the range, unless there are more inputs than two."""
        return (-GRID, GRID)

    def reduced(self) -> Self:
        return self if self.schema.d <= REDUCED_KEYS else replace(self, schema=Schema(keys=REDUCED_KEYS))

    def value(self, pairs: Pairs, word: int) -> int:
        """The value that the report is about."""
        return pairs[self.encoder.key(word)][1]

    def values(self, records: Records, words: NDArray[np.uint64]) -> NDArray[np.int32]:
        """``value`` for many people."""
        table = self.table(records)
        return table[np.arange(records.n), self.encoder.keys(words)]


class WindowValue(OneValue):
    """The value, rounded to an input, is told through a window that slides with it."""

    @property
    @abstractmethod
    def window(self) -> Window:
        """Its inputs are the points from -1 to 1 that values are rounded to."""

    @property
    def ratio(self) -> Ratio:
        return self.window.channel.ratio

    @property
    def variation(self) -> Fraction:
        return self.window.channel.variation

    @property
    def codec(self) -> Symbol:
        return Symbol(self.window.outputs)

    @property
    def levels(self) -> WindowLevels | None:
        """How values become inputs that are levels; nothing where any point of the range will do."""
        return None

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        value = self.value(pairs, word)
        if self.levels is None:
            return self.window.draw(round_to(value, self.window.inputs - 1, coins), coins)
        return self.window.draw(self.levels.draw(self.encoder.key(word), value, coins), coins)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        values = self.values(records, words)
        if self.levels is None:
            return self.window.draw_many(round_many(values, self.window.inputs - 1, coins), coins)
        return self.window.draw_many(self.levels.draw_many(self.encoder.keys(words), values, coins), coins)

    def squares_at(self, mean: Floats) -> Floats:
        return self.window.answer_squares(self.window.rounded_squares(mean))

    def every_value(self) -> Sequence[int]:
        return self.window.every_value() if self.levels is None else self.levels.labels.every_value(0)


def average(totals: NDArray[Any], people: NDArray[np.int64]) -> Floats:
    """Totals per person, NaN where there is nobody."""
    averages: Floats = np.where(people > 0, totals / np.maximum(people, 1), np.nan)
    return averages
