"""The most frequent keys, and how sure their order is."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace

import numpy as np

from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates, Interval
from keyveil.learn.processed import unbiased
from keyveil.mechanisms.responses import normal_quantile


@dataclass(frozen=True)
class Ranked:
    """A key, its frequency, and the ranks that it may have (1 is the most frequent key)."""

    key: str
    frequency: Interval
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
        return [
            {"key": one.key, **asdict(one.frequency), "rank": one.rank, "best": one.best, "worst": one.worst}
            for one in self.keys
        ]


def top(estimates: Estimates, k: int = 10, *, confidence: float | None = None) -> Ranking:
    """The k keys of largest unbiased estimate, with intervals of their frequencies and of their ranks.

    The interval of each frequency has the given confidence, or that of the estimates. Ranks come from wider intervals
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
    high = np.where(known, values + z * se, 1.0)
    best = 1 + d - np.searchsorted(np.sort(low), high, side="right")
    worst = d - np.searchsorted(np.sort(high), low, side="left")
    order = np.argsort(-np.where(known, values, -np.inf), kind="stable")[:k]
    names = raw.schema.keys
    return Ranking(
        keys=tuple(
            Ranked(names[at], _with_confidence(raw.frequency[names[at]], sure), rank, int(best[at]), int(worst[at]))
            for rank, at in enumerate(order.tolist(), start=1)
        ),
        certain=tuple(names[at] for at in order.tolist() if worst[at] <= k),
        candidates=int(np.count_nonzero(best <= k)),
        confidence=sure,
    )


def _with_confidence(frequency: Interval, confidence: float) -> Interval:
    """The same frequency with normal limits of a given confidence; one without a standard error stays as it is."""
    if not math.isfinite(frequency.se):
        return frequency
    reach = normal_quantile(confidence) * frequency.se
    return replace(frequency, low=frequency.value - reach, high=frequency.value + reach)
