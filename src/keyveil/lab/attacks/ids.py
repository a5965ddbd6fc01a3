"""What an attacker gains by trying many ids, for mechanisms that derive something from the id.

The attacker wants to raise the frequencies of some targets together. Under an id that he was given he sends the best
report for it; or he tries many ids with a message each and sends the best of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.core.estimates import Estimates
from keyveil.core.report import PUBLIC_BYTES, Reports
from keyveil.core.schema import GRID
from keyveil.core.tally import Tally
from keyveil.lab.attacks.crafting import DRAWS, IDS, several_records, single_counts
from keyveil.mechanisms.base import Mechanism

AT_ONCE = 1 << 12
MOST_KINDS = 1 << 12  # different reports that the estimator judges one by one

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


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
    worth = _Worth(mechanism, kept, attackers, targets)
    publics = _publics(IDS, coins).repeat(DRAWS, axis=0)
    given = np.reshape(worth.of(_drawn(mechanism, publics, targets, coins)), (IDS, DRAWS)).max(axis=1)
    best = -np.inf
    for first in range(0, tried, AT_ONCE):
        some = _publics(min(AT_ONCE, tried - first), coins)
        best = max(best, float(worth.of(_drawn(mechanism, some, targets, coins)).max()))
    return IdSearch(float(given.mean()), best, tried)


class _Worth:
    """By how much reports raise the sum of the targets, if all attackers send the same one.

    Different reports are judged by the estimator as long as they are few. Beyond ``MOST_KINDS`` of them the sum is
    taken to be linear in the counts, and only the best one of a block is judged by the estimator itself.
    """

    def __init__(self, mechanism: Mechanism, kept: Tally, attackers: int, targets: Sequence[int]) -> None:
        self.mechanism, self.kept, self.attackers, self.targets = mechanism, kept, attackers, targets
        self.before = _sum(mechanism.estimate(kept), targets)
        self.known: dict[bytes, float] = {}
        self.slopes: Floats | None = None

    def of(self, reports: Reports) -> Floats:
        single = single_counts(self.mechanism, reports)
        if self.slopes is None:
            for counts in single:
                if counts.tobytes() not in self.known:
                    self.known[counts.tobytes()] = self.judged(counts)
            if len(self.known) > MOST_KINDS:
                self.slopes = self._slopes(single[0])
            return np.array([self.known[counts.tobytes()] for counts in single])
        scores = np.stack(single).reshape(len(single), -1) @ self.slopes
        found = np.full(len(single), -np.inf)
        best = int(scores.argmax())
        found[best] = self.judged(single[best])
        return found

    def judged(self, counts: Counts) -> float:
        crafted = Tally(self.kept.fingerprint, self.attackers, self.attackers * counts)
        return _sum(self.mechanism.estimate(self.kept + crafted), self.targets) - self.before

    def _slopes(self, like: Counts) -> Floats:
        """What one more of each count adds to the sum, for a fixed number of reports."""
        total = self.kept + Tally(self.kept.fingerprint, self.attackers, self.attackers * like)
        plain = _sum(self.mechanism.estimate(total), self.targets)
        slopes = np.empty(total.counts.size)
        for at in range(total.counts.size):
            moved = total.counts.copy()
            moved.flat[at] += self.attackers
            slopes[at] = (
                _sum(self.mechanism.estimate(Tally(total.fingerprint, total.reports, moved)), self.targets) - plain
            )
        return slopes


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
