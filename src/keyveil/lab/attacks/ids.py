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
from keyveil.lab.attacks.added import Added, single_counts, weighed
from keyveil.lab.attacks.crafting import DRAWS, IDS, several_records
from keyveil.mechanisms.base import Mechanism

AT_ONCE = 1 << 12
MOST_KINDS = 1 << 12  # different reports that the estimator judges one by one

Floats = NDArray[np.float64]


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
    taken to be linear in the counts, with the slopes that fit those judged so far; then only the report of a block
    that is best by these slopes is judged by the estimator itself.
    """

    def __init__(self, mechanism: Mechanism, kept: Tally, attackers: int, targets: Sequence[int]) -> None:
        self.mechanism, self.kept, self.attackers, self.targets = mechanism, kept, attackers, targets
        self.before = _sum(mechanism.estimate(kept), targets)
        self.known: dict[bytes, tuple[Added, float]] = {}
        self.slopes: Floats | None = None

    def of(self, reports: Reports) -> Floats:
        single = single_counts(self.mechanism, reports)
        if self.slopes is None:
            kinds = [one.kind for one in single]
            for kind, one in zip(kinds, single, strict=True):
                if kind not in self.known:
                    self.known[kind] = one, self.judged(one)
            if len(self.known) > MOST_KINDS:
                self.slopes = self._slopes()
            return np.array([self.known[kind][1] for kind in kinds])
        found = np.full(len(single), -np.inf)
        best = int(weighed(single, np.arange(len(self.slopes)), self.slopes).argmax())
        found[best] = self.judged(single[best])
        return found

    def judged(self, added: Added) -> float:
        crafted = added.tally(self.kept.fingerprint, self.attackers)
        return _sum(self.mechanism.estimate(self.kept + crafted), self.targets) - self.before

    def _slopes(self) -> Floats:
        """What each count of a report adds to the sum, by least squares over the reports that were judged."""
        reports, worths = zip(*self.known.values(), strict=True)
        counts = np.stack([one.times(1).reshape(-1) for one in reports]).astype(np.float64)
        slopes: Floats = np.linalg.lstsq(counts - counts.mean(axis=0), worths - np.mean(worths))[0]
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
