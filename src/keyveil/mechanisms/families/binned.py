"""Forms whose reports tell where a value lies: at one of a few points of its range, or in one of a few cells.

rounding="grid"     the levels of the schema, or ``bins`` equidistant points: a value between two points is rounded
                    to one of them at random, so that means are unbiased whatever the values are
rounding="cell"     ``bins`` equal cells: the cell that the value lies in, and no mean
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from keyveil.core.histogram import Histogram, Points, equidistant
from keyveil.core.tally import Tally
from keyveil.mechanisms.capabilities import Cells, Histograms, need
from keyveil.mechanisms.encoders import Labels, PointLabels
from keyveil.mechanisms.families.key_value import FREQUENCIES, FREQUENCIES_AND_MEANS, REDUCED_KEYS, KeyValue, refused
from keyveil.mechanisms.label_sums import LabelSums
from keyveil.mechanisms.responses import Floats, Solution, Spread

MOST_BINS = 256
REDUCED_BINS = 3
GRID_POINTS, CELLS = "grid", "cell"


@dataclass(frozen=True)
class Binned(KeyValue):
    """A mechanism whose labels are signs, or with ``bins`` points or cells of the value's range.

    Where the schema has levels they are the points; ``bins=2`` then asks for signs, which tell means with less noise.
    """

    bins: int | None = None
    rounding: str | None = None

    unsaid: ClassVar[frozenset[str]] = frozenset({"rounding"})  # signs know no rounding

    def validate(self) -> None:
        super().validate()
        levels = self.schema.most_levels
        if self.bins is None and levels:
            object.__setattr__(self, "bins", levels)
        if self.bins is None:
            if self.rounding is not None:
                raise refused(f"{self.name} takes rounding only with bins.")
            return
        if not 2 <= self.bins <= MOST_BINS:
            raise refused(f"{self.name} takes from 2 to {MOST_BINS} bins, not {self.bins}.")
        if self.rounding is None:
            object.__setattr__(self, "rounding", GRID_POINTS)
        if self.rounding not in (GRID_POINTS, CELLS):
            raise refused(f"{self.name} takes rounding {GRID_POINTS} or {CELLS}, not {self.rounding!r}.")
        if levels and (self.rounding == CELLS or self.bins not in (2, levels)):
            raise refused(
                f"The values of this schema have {levels} levels, so {self.name} takes bins={levels} for levels or "
                f"bins=2 for signs, without rounding={CELLS}."
            )

    @cached_property
    def labels(self) -> Labels:
        if self.bins is None or self.rounding == CELLS:
            return Labels(self.bins)
        if self.bins != self.schema.most_levels:
            return PointLabels(self.bins, (equidistant(self.bins),))
        rows = [self.schema.grid_levels(key) or equidistant(self.bins) for key in range(self.schema.d)]
        return PointLabels(self.bins, (rows[0],) if rows.count(rows[0]) == len(rows) else tuple(rows))

    def every_value(self, key: int = 0) -> Sequence[int]:
        return self.labels.every_value(key)

    @property
    def estimated(self) -> frozenset[str]:
        return FREQUENCIES if self.rounding == CELLS else FREQUENCIES_AND_MEANS

    @property
    def sizes(self) -> dict[str, int]:
        return super().sizes if self.bins is None else {**super().sizes, "bins": self.bins}

    @property
    def few_bins(self) -> int | None:
        """As many bins as reduced sizes have."""
        of_levels = self.bins is not None and self.bins == self.schema.most_levels
        levels = self.schema.first(REDUCED_KEYS, REDUCED_BINS).most_levels if of_levels else 0
        return levels or (self.bins and min(self.bins, REDUCED_BINS))

    @property
    def title(self) -> str:
        kind = "" if self.bins is None else " with cells" if self.rounding == CELLS else " with bins"
        return f"{super().title}{kind}"

    @property
    def lacks(self) -> frozenset[type]:
        return super().lacks | (frozenset({Histograms, Cells}) if self.bins is None else frozenset())

    # -- masses -------------------------------------------------------------------------------------------------

    @abstractmethod
    def cell_odds(self) -> Sequence[Any]:
        """How often a report supports labels (``Odds``), per key."""

    @abstractmethod
    def label_counts(self, tally: Tally) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many reports support each label [d, labels], and how many could speak about each key [d]."""

    @cached_property
    def points(self) -> Points | None:
        """Where the labels lie, if they are points."""
        if not isinstance(self.labels, PointLabels):
            return None
        if self.bins == self.schema.most_levels:
            return Points.of(self.schema, self.labels.count)
        return Points.equal(self.schema.d, self.labels.count)

    def histogram(self, tally: Tally, population: bool = False) -> Histogram:
        need(self, Histograms, "estimate/no-histogram")
        sums, masses = self._masses(tally, population)
        return sums.histogram(self.schema, masses, tally.reports, self.points)

    def solve(self, tally: Tally, population: bool) -> Solution:
        """Unbiased estimates; those of means from the masses at points, where labels are points."""
        solution: Solution = super().solve(tally, population)  # type: ignore[misc]
        if self.points is None:
            return solution
        sums, masses = self._masses(tally, population)
        return sums.with_products(solution, masses, self.points)

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        """Values are taken as constant at the mean: each is rounded to the two points around it."""
        spread: Spread = super().predicted_spread(frequency, mean, sizes, n, population)  # type: ignore[misc]
        if self.points is None:
            return spread
        keys = np.arange(self.schema.d)
        asked = np.full(len(keys), n * self.reach)
        known = np.zeros(len(keys)) if population else np.full(len(keys), self.reach)
        odds = LabelSums.told(self.cell_odds(), asked, n, population).odds
        masses = frequency[:, None] * self.points.shares(keys, np.nan_to_num(mean))
        told = LabelSums(odds, asked, known, np.zeros(len(keys), dtype=np.bool_)).product_spread(masses, self.points)
        return told._replace(frequency=spread.frequency)

    @property
    def reach(self) -> float:
        """The share of reports that speak about a key."""
        return 1.0

    @property
    def no_mean(self) -> str | None:
        """Why there are no means, if there are none."""
        if self.rounding != CELLS:
            return None
        return f"{self.title} does not tell means; {self.name} without rounding={CELLS} does."

    def _masses(self, tally: Tally, population: bool) -> tuple[LabelSums, Floats]:
        counts, respondents = self.label_counts(tally)
        fixed = True if self.points is None else self.points.levels
        sums = LabelSums.told(self.cell_odds(), respondents, tally.reports, population, fixed)
        return sums, sums.masses(counts)
