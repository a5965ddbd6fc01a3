"""The largest change of any answer that a search found: for quantiles, conditionals, EM and empirical Bayes.

Nothing is proved of these: the answer is no average of what reports say. The search tries the reports that an attacker
thinks of for each key of interest (``lab.attacks.crafting``), all crafted reports being alike, and keeps the largest
change in either direction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from keyveil.core.attacked import Kind
from keyveil.core.coins import Coins
from keyveil.core.errors import KeyveilError
from keyveil.core.tally import Tally
from keyveil.lab.attacks.crafting import JUDGED, TRIED, single_counts, thought_of
from keyveil.mechanisms.base import Mechanism

Answer = Callable[[Tally], float]
"""A question about a tally, answered by one number."""


@dataclass(frozen=True)
class Found:
    """An answer, and the least and the largest that a search made of it."""

    value: float
    low: float
    high: float
    tried: int  # different reports
    kind: Kind = "largest found"


def largest_found(
    mechanism: Mechanism,
    tally: Tally,
    attackers: int,
    answer: Answer,
    keys: Sequence[str | int],
    coins: Coins,
    tried: int = TRIED,
    judged: int = JUDGED,
) -> Found:
    """How far the answer moves if ``attackers`` of the reports are replaced by copies of one that was tried.

    The reports that are replaced are like all others: their part of the counts is taken off evenly. ``keys`` are those
    that the question is about. ``tried`` reports are thought of, and of those that differ ``judged`` are looked at.
    """
    left = max(tally.reports - attackers, 0)
    kept = Tally(tally.fingerprint, left, np.rint(tally.counts * (left / max(tally.reports, 1))).astype(np.int64))
    kinds: dict[bytes, np.ndarray[tuple[int, ...], np.dtype[np.int64]]] = {}
    for key in keys:
        pool = thought_of(mechanism, mechanism.schema.place(key), coins, max(tried // len(keys), 1))
        kinds |= {counts.tobytes(): counts for counts in single_counts(mechanism, pool)}
    value = answer(tally)
    moved = [value]
    looked_at = list(kinds.values())[:judged]
    for counts in looked_at:
        crafted = Tally(tally.fingerprint, tally.reports - left, (tally.reports - left) * counts)
        try:
            moved.append(answer(kept + crafted))
        except KeyveilError:
            continue  # such reports leave nothing to say
    known = [one for one in moved if not np.isnan(one)]
    return Found(value, min(known, default=np.nan), max(known, default=np.nan), len(looked_at))
