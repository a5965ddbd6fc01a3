"""What an attacker gains by trying many ids, for mechanisms that derive something from the id.

The attacker wants to raise the frequencies of some targets together. Under an id that he was given he sends the best
report for it; or he tries many ids with a message each and sends the best of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from keyveil.core.coins import Coins
from keyveil.core.estimates import Estimates
from keyveil.core.report import PUBLIC_BYTES, Reports
from keyveil.core.schema import GRID
from keyveil.core.tally import Tally
from keyveil.lab.attacks.crafting import DRAWS, IDS, several_records, single_counts
from keyveil.mechanisms.base import Mechanism

AT_ONCE = 1 << 14


@dataclass(frozen=True)
class IdSearch:
    """How far so many reports raise the sum of the targets: under ids as given, and under the best of those tried."""

    given: float
    searched: float
    tried: int


def id_search(
    mechanism: Mechanism, kept: Tally, attackers: int, targets: Sequence[int], tried: int, coins: Coins
) -> IdSearch | None:
    """The gains beside ``kept`` reports of others; None where nothing follows from the id."""
    if not mechanism.reads_words:
        return None
    worths: dict[bytes, float] = {}
    before = _sum(mechanism.estimate(kept), targets)

    def gains(reports: Reports) -> list[float]:
        found = []
        for counts in single_counts(mechanism, reports):
            kind = counts.tobytes()
            if kind not in worths:
                crafted = Tally(kept.fingerprint, attackers, attackers * counts)
                worths[kind] = _sum(mechanism.estimate(kept + crafted), targets) - before
            found.append(worths[kind])
        return found

    publics = _publics(IDS, coins).repeat(DRAWS, axis=0)
    given = np.reshape(gains(_drawn(mechanism, publics, targets, coins)), (IDS, DRAWS)).max(axis=1)
    best = -np.inf
    for first in range(0, tried, AT_ONCE):
        some = _publics(min(AT_ONCE, tried - first), coins)
        best = max(best, *gains(_drawn(mechanism, some, targets, coins)))
    return IdSearch(float(given.mean()), best, tried)


def _publics(count: int, coins: Coins) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    return coins.words(2 * count).view(np.uint8).reshape(count, PUBLIC_BYTES)


def _drawn(
    mechanism: Mechanism, publics: np.ndarray[tuple[int, int], np.dtype[np.uint8]], targets: Sequence[int], coins: Coins
) -> Reports:
    """Messages of devices that hold a target, or all of them, under these ids."""
    single = [[(key, GRID if mechanism.takes == "every set" else 0)] for key in targets]
    together = [pair for pairs in single for pair in pairs]
    records = single if mechanism.takes == "one key" else [*single, together]
    mixed = (records * -(-len(publics) // len(records)))[: len(publics)]
    rows = mechanism.respond_many(several_records(mixed, mechanism.schema.d), mechanism.read_words(publics), coins)
    return Reports(publics, rows)


def _sum(estimates: Estimates, targets: Sequence[int]) -> float:
    return float(np.nan_to_num(estimates.frequency.values[list(targets)]).sum())
