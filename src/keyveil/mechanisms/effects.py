"""What a single report can add to the estimates, whatever its sender chose: the ground of influence bounds.

Most estimates are averages: f and U = f·m of a key are means, over the reports that speak about it, of two numbers
that each report adds. ``Effects`` holds the extremes of these numbers. They come from the estimator itself, asked
about counts that a single report leads to, so that nothing is written down twice (docs/robustness.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from keyveil.core.tally import Tally

if TYPE_CHECKING:
    from keyveil.mechanisms.base import Mechanism
    from keyveil.mechanisms.joint.statistics import Statistic
    from keyveil.mechanisms.responses import Response

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Effects:
    """One average for every key: over how many reports it goes, and what one of them can add to it.

    A report adds one of the ``points``, and besides up to ``most`` of the ``generators``, each once. What it adds is
    f and f·m of the key; where ``direct`` is set, the second number is the mean itself. NaN is what is not estimated.
    """

    people: Counts  # [key]
    points: Floats  # [point, key, 2]
    generators: Floats | None = None  # [generator, key, 2]
    most: int | None = None  # generators that one report can have; all of them unless given
    direct: bool = False
    fixed: bool = True  # False where weights or corrections follow from the data: then it holds for small changes only
    at_once: int | None = None  # keys that one report can support, if there are fewer than all

    def range(self, frequency: Floats | float, product: Floats | float) -> tuple[Floats, Floats]:
        """Per key the least and the largest of ``frequency``·f + ``product``·(f·m) that one report can add."""
        low, high = (edge(_along(self.points, frequency, product), axis=0) for edge in (np.min, np.max))
        if self.generators is None:
            return low, high
        worth = np.sort(_along(self.generators, frequency, product), axis=0)
        most = len(worth) if self.most is None else min(self.most, len(worth))
        return low + np.minimum(worth[:most], 0).sum(axis=0), high + np.maximum(worth[-most:], 0).sum(axis=0)

    def scaled(self, frequency: Floats | float, product: Floats | float, *, fixed: bool) -> Effects:
        """The effects on weighted estimates, as those of one of several groups in the merged answer."""
        weights = np.stack(np.broadcast_arrays(frequency, product), axis=-1)

        def weighted(numbers: Floats) -> Floats:
            return np.where(weights == 0, 0.0, numbers * weights)  # what has no weight may be unknown

        generators = None if self.generators is None else weighted(self.generators)
        return replace(self, points=weighted(self.points), generators=generators, fixed=self.fixed and fixed)

    def placed(self, places: NDArray[np.int64], keys: int) -> Effects:
        """The effects on some of ``keys`` keys, as effects on all: none on the others."""

        def spread(numbers: Floats | None) -> Floats | None:
            if numbers is None:
                return None
            wide = np.zeros((len(numbers), keys, 2))
            wide[:, places] = numbers
            return wide

        people, points = np.zeros(keys, dtype=np.int64), spread(self.points)
        people[places] = self.people
        assert points is not None
        return replace(self, people=people, points=points, generators=spread(self.generators))


class Average(NamedTuple):
    """One number as an average: over how many reports it goes, and what one of them can add to it."""

    people: int
    least: float
    largest: float


@runtime_checkable
class JointEffects(Protocol):
    """Statistics of several keys are sums of averages, and it is known what one report can add to each of these."""

    def joint_effects(self, tally: Tally, keys: Counts, statistic: Statistic) -> Sequence[Average] | None:
        """The averages that add up to a statistic of one row of keys, but for a constant; None if they are unknown."""


def _along(numbers: Floats, frequency: Floats | float, product: Floats | float) -> Floats:
    """Weighted sums of f and f·m; what has weight zero is not looked at, so that it may be unknown."""
    total: Floats = np.zeros(numbers.shape[:2])
    for at, weight in enumerate((frequency, product)):
        if np.any(weight):
            total = total + weight * numbers[..., at]
    return total


def of_statistics(
    response: Response, supports: Sequence[int], signed: Sequence[int] | None, respondents: Counts
) -> Effects:
    """For keys that answer alike: a report has one of some pairs of support and signed support for each of them."""
    said = response.solve(
        1,
        np.ones(len(supports), dtype=np.int64),
        np.array(supports, dtype=np.int64),
        None if signed is None else np.array(signed, dtype=np.int64),
        False,
    )
    points = np.stack((said.frequency, said.product), axis=-1)[:, None, :]
    return Effects(respondents, np.broadcast_to(points, (len(supports), len(respondents), 2)))


def asked(mechanism: Mechanism, tallies: Iterable[tuple[int, Counts]], respondents: Counts) -> Effects:
    """What the mechanism itself estimates from tallies in which every key has the counts of one extreme report."""
    points = [_estimated(mechanism, Tally(mechanism.fingerprint, *one)) for one in tallies]
    return Effects(respondents, np.array(points), direct="frequency" not in mechanism.estimated)


def _estimated(mechanism: Mechanism, tally: Tally) -> Floats:
    """f and f·m of every key, or the mean where frequencies are not estimated."""
    told = mechanism.estimate(tally)
    unknown = np.full(mechanism.schema.d, np.nan)
    product = told.product if told.product is not None else unknown
    if "frequency" not in mechanism.estimated:
        product = told.mean.values
    return np.stack((told.frequency.values, product), axis=-1)


def independent_cells(none: Floats, every: Floats, plus: int, minus: int, respondents: Counts) -> Effects:
    """Reports that support any of a key's ``plus`` + ``minus`` cells, each on its own.

    ``none`` and ``every`` are the estimates of f per key from a report that supports none, and all, of these cells.
    """
    step = (every - none) / (plus + minus)
    points = np.stack((none, np.zeros_like(none)), axis=-1)[None]
    generators = np.array([np.stack((step, sign * step), axis=-1) for sign in [1] * plus + [-1] * minus])
    return Effects(respondents, points, generators)
