"""The most frequent keys, and how sure their order is."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np

from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates, Floats, Interval
from keyveil.learn.noise import highest_frequencies
from keyveil.learn.processed import Processed, unbiased
from keyveil.mechanisms.responses import normal_quantile


@dataclass(frozen=True)
class Ranked:
    """A key, its frequency, and the ranks that it may have (1 is the most frequent key).

    The limits of ``frequency`` are for a key named beforehand. ``selected_low`` and ``selected_high`` are right for the
    keys of this list, which were chosen by their estimates.
    """

    key: str
    frequency: Interval
    selected_low: float
    selected_high: float
    rank: int
    best: int
    worst: int


@dataclass(frozen=True)
class Ranking:
    """The ``k`` keys of largest estimate; all ranks of all keys hold together with the given confidence."""

    keys: tuple[Ranked, ...]
    certain: tuple[str, ...]  # surely among the k most frequent
    candidates: int  # how many keys may be among them
    confidence: float

    def rows(self) -> list[dict[str, str | float]]:
        """One dictionary per key, as frames take them."""
        numbers = ("selected_low", "selected_high", "rank", "best", "worst")
        return [
            {"key": one.key, **asdict(one.frequency), **{name: getattr(one, name) for name in numbers}}
            for one in self.keys
        ]


def top(estimates: Estimates, k: int = 10, *, confidence: float | None = None) -> Ranking:
    """The k keys of largest estimate, with intervals of their frequencies and of their ranks.

    Processed estimates are ordered and shown by their processed values, and by the unbiased ones where those are equal.
    The interval of each frequency has the given confidence, or that of the estimates; of the selected limits of all k
    keys together no more are wrong on average than that allows. Ranks come from wider intervals
    that hold all frequencies at once with that confidence (Bonferroni), whatever the dependence of the estimates: a key
    ranks behind every key whose interval lies above its own, and before every key whose interval lies below. Keys of
    equal frequency may have any order.
    """
    raw = unbiased(estimates)
    d, sure = raw.schema.d, confidence or raw.confidence
    if not 1 <= k <= d:
        raise MechanismError("question/top", f"There are {d} keys, so the top can have 1 to {d}, not {k}.")
    values, se = raw.frequency.values, raw.frequency.se
    known = np.isfinite(values) & np.isfinite(se)
    z = normal_quantile(1 - (1 - sure) / d)
    low = np.where(known, values - z * se, 0.0)  # a key that nobody spoke about may be anywhere
    high = np.where(known, highest_frequencies(raw, z), 1.0)
    best = 1 + d - np.searchsorted(np.sort(low), high, side="right")
    worst = d - np.searchsorted(np.sort(high), low, side="left")
    shown, names = estimates.frequency, raw.schema.keys
    order = np.lexsort([-np.where(known, column, -np.inf) for column in (values, shown.values)])[:k]
    (low, high), (chosen_low, chosen_high) = (_limits(estimates, count, sure) for count in (None, k))

    def ranked(rank: int, at: int) -> Ranked:
        one = replace(shown[names[at]], low=float(low[at]), high=float(high[at]))
        ranks = min(int(best[at]), rank), max(int(worst[at]), rank)
        return Ranked(names[at], one, float(chosen_low[at]), float(chosen_high[at]), rank, *ranks)

    return Ranking(
        keys=tuple(ranked(rank, at) for rank, at in enumerate(order.tolist(), start=1)),
        certain=tuple(names[at] for at in order.tolist() if worst[at] <= k),
        candidates=int(np.count_nonzero(best <= k)),
        confidence=sure,
    )


def _limits(estimates: Estimates, chosen: int | None, confidence: float) -> tuple[Floats, Floats]:
    """Limits of all frequencies, for so many keys that were chosen by their estimates or for each that was named."""
    lawful, d = estimates.lawful if isinstance(estimates, Processed) else estimates, estimates.schema.d
    column, share = lawful.frequency, 1.0
    if chosen is not None:
        low, high = lawful.selected(chosen)
        column, share = replace(column, low=low, high=high), chosen / d
    asked, told = (normal_quantile(1 - (1 - sure) * share) for sure in (confidence, lawful.confidence))
    limits = column.widened(np.full(d, asked / told))
    return estimates.beside(*limits) if isinstance(estimates, Processed) and lawful is not estimates else limits
