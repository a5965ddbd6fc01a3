"""The largest correction of frequencies that crafted answers in an overflow group can lead to, whatever they are.

The shares of answers that can come out are covered by boxes, and in each box every number that the correction follows
from is taken at its worst end. So nothing is left out; finer boxes only make the limit smaller
(docs/decisions/0145-proved-limits.md).
"""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from keyveil.core.tally import Tally
from keyveil.core.undercount import ONE_SIDED
from keyveil.mechanisms.reach import Reach, Reachable, corrected
from keyveil.mechanisms.responses import FEWEST

if TYPE_CHECKING:
    from keyveil.mechanisms.rounds.overflow import OverflowQuestion

Floats = NDArray[np.float64]

BOXES = {3: 64, 4: 16}  # along each share of an answer but the first, by how many answers there are
SHARES = (0.0, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0)
"""Of the attackers, between which those lie who leave the group, and those who come to it: what more of them do there,
fewer can do elsewhere."""


def corrected_by(main: Reachable, question: OverflowQuestion, group: Tally | None) -> Reachable:
    """The limits of the main group's estimates, multiplied by any number that attackers let the overflow group tell.

    Whoever is replaced in one group, or answers in it, does not in the other. Without a ``group`` nothing is corrected.
    """

    def reach(leave: int, come: int) -> Reach:
        whole, found = main(leave, come), []
        if group is None:
            return corrected(whole, [(whole, 1.0)])
        for gone, most_gone in _ranges(min(leave, group.reports)):
            for there, most_there in _ranges(come):
                rest = main(leave - gone, come - there)
                found.append((rest, largest_correction(question, group, most_gone, most_there, rest.total[0])))
        return corrected(whole, found)

    return reach


def _ranges(most: int) -> list[tuple[int, int]]:
    """Ranges of whole numbers that hold all from 0 to ``most``."""
    ends = sorted({round(share * most) for share in SHARES})
    return list(pairwise(ends)) or [(0, 0)]


def largest_correction(question: OverflowQuestion, group: Tally, leave: int, come: int, least_total: float) -> float:
    """By how much frequencies are multiplied at most, if so many people leave the group and so many come.

    ``least_total`` is the least sum of all frequencies. Infinite where that may be zero while the surplus is seen.
    """
    counts = group.counts.astype(np.float64)
    if not group.reports + come:
        return 1.0
    people = max(group.reports - leave, 1), group.reports + come
    low, high = _boxes(counts, leave, come)
    cap, (true, false) = question.max_pairs, question.chances
    over_low = _mean(low, np.ones(low.shape[1]), true, false)
    spread = np.where((low.sum(axis=1) <= 0.5) & (high.sum(axis=1) >= 0.5), 0.25, 0.0)  # of s(1 - s)
    for ends in (low.sum(axis=1), high.sum(axis=1)):
        spread = np.maximum(spread, ends * (1 - ends))
    over_error = np.sqrt(np.maximum(spread, FEWEST / people[0]) / people[0]) / (true - false)
    size = np.minimum(np.maximum(least_total, cap * np.maximum(over_low - ONE_SIDED * over_error, 0)), cap)
    largest = 1.0
    for reach in question.reaches:
        worth = np.minimum([0.0, *question.reaches], reach)
        surplus = np.maximum(_mean(high, worth, true, false), 0)
        variance = np.maximum(low @ worth**2 - (high @ worth) ** 2, worth.max() ** 2 * FEWEST / people[1])
        seen = surplus > ONE_SIDED * np.sqrt(variance / people[1]) / (true - false)
        if np.any(seen & (size <= 0)):
            return float(np.inf)
        times = 1 + np.divide(surplus, size, out=np.zeros_like(size), where=seen)
        largest = max(largest, float(times.max(initial=1.0)))
    return largest


def _mean(shares: Floats, worth: Floats, true: float, false: float) -> Floats:
    """What answers but the first say on average, without bias, from their shares."""
    mean: Floats = (shares @ worth - false * worth.sum()) / (true - false)
    return mean


def _boxes(counts: Floats, leave: int, come: int) -> tuple[Floats, Floats]:
    """Boxes [box, answer] that hold all shares of the answers but the first that can come out."""
    total, others = float(counts.sum()), range(1, len(counts))

    def most(some: tuple[int, ...]) -> float:
        """The largest share of some answers together: everybody comes to them, and leaves others."""
        own = float(counts[list(some)].sum())
        left = total - min(leave, total - own) + come
        return (own + come) / left if left else 1.0

    def least(some: tuple[int, ...]) -> float:
        return 1 - most(tuple(at for at in range(len(counts)) if at not in some))

    edges = [np.linspace(least((at,)), most((at,)), BOXES[len(counts)] + 1) for at in others]
    low, high = (
        np.stack([each.ravel() for each in np.meshgrid(*(one[which] for one in edges), indexing="ij")], axis=1)
        for which in (slice(None, -1), slice(1, None))
    )
    possible = np.ones(len(low), dtype=np.bool_)
    for size in range(2, len(counts)):
        for some in combinations(others, size):
            places = [at - 1 for at in some]
            possible &= low[:, places].sum(axis=1) <= most(some) + 1e-12
            possible &= high[:, places].sum(axis=1) >= least(some) - 1e-12
    return low[possible], high[possible]
