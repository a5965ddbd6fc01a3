"""What an attacker gains by trying many ids, for mechanisms that derive something from the id.

The attacker wants to raise some targets together: their frequencies, or their means where a mechanism tells only these.
Under an id that he was given he sends the best report for it; or he tries many ids with a message each and sends the
best of all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyveil.core.codecs.symbols import BitVector, Symbol
from keyveil.core.coins import Coins
from keyveil.core.report import PUBLIC_BYTES, Reports
from keyveil.core.schema import GRID
from keyveil.core.tally import Tally
from keyveil.lab.attacks.added import Added
from keyveil.lab.attacks.crafting import DRAWS, IDS, several_records
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.counting import cells_of, counts_of_each
from keyveil.mechanisms.part_rows import concatenated

AT_ONCE, CELLS_AT_ONCE = 1 << 12, 1 << 22  # ids, and counts of their reports, that are looked at together
MOST_KINDS = 1 << 12  # different reports that the estimator judges one by one
MOST_OUTPUTS = 1 << 12  # symbols of which all are tried under a given id
AGAIN = 4  # reports of a block that the estimator judges because they look better than the best so far

Counts = NDArray[np.int64]
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
    judge = _Judge(mechanism, kept, attackers, goals)
    records = [record for targets in goals for record in _records(mechanism, targets)]
    given = np.array([judge.under(one, records, coins) for one in _publics(IDS, coins)])
    for some in _blocks(mechanism, tried, coins):
        judge.look(_drawn(mechanism, some, records, coins))
        judge.look_at_bits(some)
    both = zip(given.mean(axis=0).tolist(), judge.best.tolist(), strict=True)
    return [IdSearch(one, most, tried) for one, most in both]


class _Judge:
    """By how much reports raise the targets of every goal, if all attackers send the same one.

    Different reports are judged by the estimator as long as they are few. Beyond ``MOST_KINDS`` of them the gains are
    taken to be linear in the counts, with the slopes that fit those judged so far; then only reports that are better
    by these slopes than all before them are judged by the estimator itself. ``best`` is of judged reports only.
    """

    def __init__(self, mechanism: Mechanism, kept: Tally, attackers: int, goals: Sequence[Sequence[int]]) -> None:
        self.mechanism, self.kept, self.attackers, self.goals = mechanism, kept, attackers, goals
        self.before = self._sums(kept)
        self.best: Floats = np.full(len(goals), -np.inf)
        self.known: dict[int, Floats] = {}
        self.judged: list[tuple[Added, Floats]] = []
        self.slopes: Floats | None = None  # [cell, goal], and what a report adds that touches none, in the last row
        size = math.prod(mechanism.tally_shape)
        self.marks = np.random.default_rng(1).integers(1, 1 << 63, size, dtype=np.uint64)
        self.bits: dict[int, Floats] = {}  # by what an empty report adds, which tells apart what ids lead to

    def look(self, reports: Reports) -> Floats:
        """The gain of each report for every goal, [report, goal]; to first order for those that are not judged."""
        mechanism = self.mechanism
        words, cells = mechanism.read_words(reports.publics), cells_of(mechanism)
        if cells is not None:  # one count a report: there are no more kinds than counts
            places, owners = np.unique(cells.places(words, reports.payloads), return_inverse=True)
            once = np.ones(1, dtype=np.int64)
            for place in places.tolist():
                if place not in self.known:
                    self._judge(place, Added(mechanism.tally_shape, np.array([place]), once))
            return np.array([self.known[place] for place in places.tolist()])[owners]
        counts = counts_of_each(mechanism, reports.payloads, words)
        # Reports that add the same have the same sum of marks; others have one with a chance of 2^-64.
        kinds, first, owners = np.unique(counts.view(np.uint64) @ self.marks, return_index=True, return_inverse=True)
        for kind, at in zip(kinds.tolist(), first.tolist(), strict=True):
            if kind not in self.known and self.slopes is None:
                self.judged.append((self._added(counts[at]), self._judge(kind, self._added(counts[at]))))
                if len(self.judged) >= MOST_KINDS:
                    self.slopes = self._fitted()
        nothing = np.full(len(self.goals), np.nan)
        gains = np.array([self.known.get(kind, nothing) for kind in kinds.tolist()])
        if self.slopes is not None:
            fresh = np.flatnonzero(np.isnan(gains[:, 0]))
            gains[fresh] = counts[first[fresh]] @ self.slopes[:-1] + self.slopes[-1]
            for goal in range(len(self.goals)):
                for at in fresh[np.argsort(-gains[fresh, goal])[:AGAIN]].tolist():
                    if gains[at, goal] > self.best[goal]:
                        gains[at] = self._judge(int(kinds[at]), self._added(counts[first[at]]))
        return gains[owners]

    def under(self, public: NDArray[np.uint8], records: list[list[tuple[int, int]]], coins: Coins) -> Floats:
        """The gains of the best reports under one id: every symbol there is, or what devices send, and chosen bits."""
        mechanism, codec = self.mechanism, self.mechanism.codec
        before, self.best = self.best, np.full(len(self.goals), -np.inf)
        found = self.look(_drawn(mechanism, public[None].repeat(DRAWS, axis=0), records, coins)).max(axis=0)
        if isinstance(codec, Symbol) and codec.outputs <= MOST_OUTPUTS:
            every = Reports(public[None].repeat(codec.outputs, axis=0), np.arange(codec.outputs))
            words = mechanism.read_words(every.publics)
            fine = mechanism.read_encoded(mechanism.encode_many(every), words).flaws == 0
            found = np.maximum(found, self.look(Reports(every.publics[fine], every.payloads[fine])).max(axis=0))
        self.best = np.maximum(before, self.best)
        return np.asarray(np.fmax(found, self.look_at_bits(public[None])))

    def look_at_bits(self, publics: NDArray[np.uint8]) -> Floats:
        """The most that reports of bits gain under some ids, each bit being set if it helps; NaN for other forms."""
        codec, mechanism = self.mechanism.codec, self.mechanism
        if not isinstance(codec, BitVector):
            return np.full(len(self.goals), np.nan)
        empty = codec.stack([BitVector.pack(np.zeros(codec.length, dtype=bool))])
        counts = counts_of_each(mechanism, empty.repeat(len(publics), axis=0), mechanism.read_words(publics))
        kinds, first = np.unique(counts.view(np.uint64) @ self.marks, return_index=True)
        for kind, at in zip(kinds.tolist(), first.tolist(), strict=True):
            if kind not in self.bits:
                self.bits[kind] = self._bits(publics[at], empty)
        found: Floats = np.max([self.bits[kind] for kind in kinds.tolist()], axis=0)
        self.best = np.maximum(self.best, found)
        return found

    def _bits(self, public: NDArray[np.uint8], empty: NDArray[np.uint64]) -> Floats:
        codec = self.mechanism.codec
        assert isinstance(codec, BitVector)
        single = codec.stack([BitVector.pack(row) for row in np.eye(codec.length, dtype=bool)])
        alone = self.look(Reports(public[None].repeat(codec.length + 1, axis=0), concatenated([empty, single])))
        chosen = codec.stack([BitVector.pack(gains[1:] > gains[0]) for gains in alone.T])
        return np.diag(self.look(Reports(public[None].repeat(len(chosen), axis=0), chosen)))

    def _added(self, row: Counts) -> Added:
        cells = np.flatnonzero(row)
        return Added(self.mechanism.tally_shape, cells, row[cells])

    def _judge(self, kind: int, added: Added) -> Floats:
        crafted = added.tally(self.kept.fingerprint, self.attackers)
        self.known[kind] = found = self._sums(self.kept + crafted) - self.before
        self.best = np.maximum(self.best, found)
        return found

    def _sums(self, tally: Tally) -> Floats:
        told = self.mechanism.estimate(tally)
        only = told.frequency.absent
        values = np.clip(told.mean.values, -1, 1) if only else told.frequency.values
        return np.array([np.nan_to_num(values[list(targets)]).sum() for targets in self.goals])

    def _fitted(self) -> Floats:
        """What each count of a report adds to the goals, by least squares over the reports that were judged."""
        size = math.prod(self.mechanism.tally_shape)
        touched = np.unique(np.concatenate([added.cells for added, _ in self.judged]))
        design = np.ones((len(self.judged), len(touched) + 1))
        for row, (added, _) in zip(design[:, :-1], self.judged, strict=True):
            row[:] = 0
            row[np.searchsorted(touched, added.cells)] = added.numbers
        gains = np.array([found for _, found in self.judged])
        slopes = np.zeros((size + 1, len(self.goals)))
        fitted = np.linalg.lstsq(design.T @ design, design.T @ gains)[0]  # far quicker than the design itself
        slopes[[*touched, size]] = fitted
        return slopes


def _blocks(mechanism: Mechanism, tried: int, coins: Coins) -> Iterator[NDArray[np.uint8]]:
    """So many ids, in blocks whose counts take bounded memory."""
    size = math.prod(mechanism.tally_shape)
    together = AT_ONCE if cells_of(mechanism) is not None else min(AT_ONCE, max(CELLS_AT_ONCE // size, 1))
    for first in range(0, tried, together):
        yield _publics(min(together, tried - first), coins)


def _publics(count: int, coins: Coins) -> NDArray[np.uint8]:
    return coins.words(2 * count).view(np.uint8).reshape(count, PUBLIC_BYTES)


def _records(mechanism: Mechanism, targets: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Records of people who hold one of the targets, and of people who hold all of them."""
    if mechanism.takes == "every key":
        return [[(key, GRID if key in targets else 0) for key in range(mechanism.schema.d)]]
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
