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
    mechanism: Mechanism,
    kept: Tally,
    attackers: int,
    goals: Sequence[Sequence[int]],
    tried: int,
    coins: Coins,
) -> list[IdSearch]:
    """The gains beside ``kept`` reports of others, for each goal, a list of targets; none if nothing follows from ids.

    All goals are judged by the same ids and messages, which take turns at the targets of one and of all goals.
    """
    if not mechanism.reads_words:
        return []
    worths = [_Worth(mechanism, kept, attackers, targets) for targets in goals]
    publics = _publics(IDS, coins).repeat(DRAWS, axis=0)
    given = []
    for worth, targets in zip(worths, goals, strict=True):
        single = single_counts(mechanism, _drawn(mechanism, publics, _records(mechanism, targets), coins))
        given.append(float(np.reshape(worth.of(single), (IDS, DRAWS)).max(axis=1).mean()))
    records = [record for targets in goals for record in _records(mechanism, targets)]
    best = np.full(len(goals), -np.inf)
    for first in range(0, tried, AT_ONCE):
        some = _publics(min(AT_ONCE, tried - first), coins)
        single = single_counts(mechanism, _drawn(mechanism, some, records, coins))
        best = np.maximum(best, [worth.of(single).max() for worth in worths])
    return [IdSearch(one, float(most), tried) for one, most in zip(given, best, strict=True)]


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

    def of(self, single: Sequence[Added]) -> Floats:
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


def _publics(count: int, coins: Coins) -> NDArray[np.uint8]:
    return coins.words(2 * count).view(np.uint8).reshape(count, PUBLIC_BYTES)


def _records(mechanism: Mechanism, targets: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Records of people who hold one of the targets, and of people who hold all of them."""
    single = [[(key, GRID if mechanism.takes == "every set" else 0)] for key in targets]
    together = [pair for pairs in single for pair in pairs]
    return single if mechanism.takes == "one key" or len(targets) == 1 else [*single, together]


def _drawn(
    mechanism: Mechanism, publics: NDArray[np.uint8], records: list[list[tuple[int, int]]], coins: Coins
) -> Reports:
    """One message of an honest device under each of these ids, with the records in turn."""
    mixed = (records * -(-len(publics) // len(records)))[: len(publics)]
    rows = mechanism.respond_many(several_records(mixed, mechanism.schema.d), mechanism.read_words(publics), coins)
    return Reports(publics, rows)


def _sum(estimates: Estimates, targets: Sequence[int]) -> float:
    return float(np.nan_to_num(estimates.frequency.values[list(targets)]).sum())
