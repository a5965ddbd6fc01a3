"""Where to look: which two records, which way out, at which public bytes, and which events promise to refute.

First all records are drawn in all ways: many reports at new public bytes, and a few at each of many fixed ones, for a
leak may be rare, or bound to few public values. What stands out is drawn again in three rounds, each with fewer
candidates and more draws. Nothing here claims anything, so any number of things may be tried.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import combinations
from typing import Any

import numpy as np

from keyveil.core.coins import Coins
from keyveil.core.errors import PrivacyError
from keyveil.core.report import PUBLIC_BYTES
from keyveil.privacy.events import Counted, Event, alone, best_events, differences, sorted_events, standouts
from keyveil.privacy.features import Features, Lexicon, Silence, stacked
from keyveil.privacy.targets import Door, Way
from keyveil.privacy.views import Sample

Progress = Callable[[str, float], None]

SCAN, RACE = 0.25, 0.25  # shares of the effort; the rest proves
_TESTED = 3  # events of a finalist, besides "seen under one record only"
_SWEEP = 0.5  # share of the scan that goes to fixed public bytes
_FEWEST, _MOST_PUBLICS = 24, 1000  # draws of a record at one public value; public values
_ROUNDS = (24, 6, 2)  # candidates in each round of the race
_LEAST = 200  # draws of a record that the first round should have; with less effort it has fewer candidates
_BROAD = 5  # one in so many candidates of the first round is chosen by all columns together, at new public bytes and at
# fixed ones each: an arc of a circle that follows from public bytes shows at no others, and in no single outcome
_DOUBT = 5.0  # nats that what one record alone shows may lack, and is drawn again nevertheless
_SUSPECTS = 6  # records and ways of which that is done
_SURE, _UNSURE = 0.5, 0.25  # share of the race for them, if one is beyond chance and if none is
_BESIDE = 8  # records that are drawn beside each other for it, at most
_RARE = 0.2  # share of the fresh draws for what one record alone shows, compared with the shares of doors
_MOST_CELLS = 20_000_000  # draws times columns that are compared at once


@dataclass(frozen=True)
class Finalist:
    """Two records, a way out and the events that fresh draws are to decide on, the best first."""

    way: Way
    record: Any
    other: Any
    events: Sequence[Event]
    share: float  # its part of the fresh draws, where nothing speaks against the promise

    @property
    def weight(self) -> float:
        """Its part of the fresh draws: more for what speaks against the promise."""
        return self.share + max(self.excess, 0.0)

    @property
    def excess(self) -> float:
        """The evidence of its events against the promise, in nats, beyond chance."""
        return max(event.excess for event in self.events)


@dataclass(frozen=True)
class Effort:
    """What a search may cost: so many draws, or so many seconds from its beginning."""

    draws: int | None
    seconds: float
    began: float = field(default_factory=time.perf_counter)

    def reports(self, share: float, rate: float) -> float:
        """Reports that a share of the effort pays for, at so many a second."""
        return share * (self.seconds * rate if self.draws is None else self.draws)

    def over(self, share: float) -> bool:
        """Whether a share of the time is used up."""
        return self.draws is None and time.perf_counter() - self.began > share * self.seconds


def rate(work: Callable[[int], object], reports: int) -> float:
    """Reports a second, if ``work(n)`` makes ``n * reports``; a first call may load and compile things."""
    work(4)
    count = 8
    while True:
        began = time.perf_counter()
        work(count)
        elapsed = time.perf_counter() - began
        if elapsed > 0.03 or count >= 1 << 16:
            return count * reports / max(elapsed, 1e-9)
        count *= 4


@dataclass(frozen=True, eq=False)
class _Candidate:
    """Two records by their numbers, and a way out."""

    way: Way
    record: int
    other: int
    rank: tuple[float, float]


@dataclass(frozen=True, eq=False)
class _Suspect:
    """A record by its number, a way out, and rare events that it alone has shown."""

    way: Way
    record: int
    events: Sequence[Event]

    @property
    def excess(self) -> float:
        return max(event.excess for event in self.events)


@dataclass(eq=False)
class Search:
    """The search behind one door, for evidence that epsilon is above ``goal``."""

    door: Door
    records: list[Any]
    effort: Effort
    goal: float
    lexicon: Lexicon
    coins: Coins
    say: Progress

    def __post_init__(self) -> None:
        self._rare: list[_Suspect] = []
        self._sharp: list[_Candidate] = []
        self._broad: list[_Candidate] = []

    def finalists(self) -> list[Finalist]:
        """The winner of the race and, if there is such a thing, the rarest outcomes that one record alone shows."""
        measured = self.effort.draws is None
        way = self.door.ways[-1]
        speed = rate(lambda n: self._draw(way, n), way.cost * len(self.records)) if measured else 0.0
        self._scan(self.effort.reports(SCAN, speed) / len(self.records))
        suspects = nlargest(_SUSPECTS, self._rare, key=lambda one: one.excess)
        reports = self.effort.reports(RACE, speed)
        again = reports * (0.0 if not suspects else _SURE if suspects[0].excess > 0 else _UNSURE)
        return [self._race(reports - again), *self._seen_again(suspects, again)]

    # -- all records ----------------------------------------------------------------------------------------------

    def _scan(self, each: float) -> None:
        """All records in all ways, with so many reports of each record."""
        ways, at, mixed = self.door.ways, self.door.at, self.door.mixed
        columns = max(len(self._draw(way, 1).columns) for way in ways)
        most = max(_MOST_CELLS // (len(self.records) * columns), 2)
        swept = _SWEEP * each if at else 0.0
        drawn = {way: self._draw(way, max(8, min(int((each - swept) / len(ways) / way.cost), most))) for way in ways}
        if all(self._silent(features) for features in drawn.values()):
            raise PrivacyError("audit/silent", "The subject raised an error for every record, so there are no reports.")
        for way, features in drawn.items():
            if way is not mixed:
                self._look(way, [features], closely=True)
        pool = [drawn[mixed]] if mixed else []
        if at:
            pool += self._sweep(at, swept, most)
        if mixed:
            self._look(mixed, pool, closely=True)

    def _sweep(self, at: Callable[[bytes], Way], each: float, most: int) -> Iterator[Features]:
        """A few reports of every record at each of many public values; as many are kept as fit beside each other."""
        few = max(_FEWEST, math.isqrt(int(each)) // 4)
        publics = max(1, min(round(each / few), _MOST_PUBLICS))
        for number in range(publics):
            way = at(self.coins.bytes(PUBLIC_BYTES))
            features = self._draw(way, few)
            self._look(way, [features], closely=number < 2)
            if (number + 1) * few < most:
                yield features
            self.say(f"Searching {self.door.name}", SCAN * (number + 1) / publics)
            if self.effort.over(0.8 * SCAN):
                break

    def _look(self, way: Way, several: Sequence[Features], closely: bool) -> None:
        """Pairs of records that stand out; ``closely``: in two outcomes, in all columns or against all others, too."""
        count = len(self.records)
        group = np.concatenate([np.repeat(np.arange(count), features.n // count) for features in several])
        sample = Sample(stacked(several), group, count)
        counted = Counted.of(sample)
        found = standouts(counted, self.goal, _ROUNDS[0], closely)
        self._sharp += [_Candidate(way, one.record, one.other, one.rank) for one in found]
        if not closely:
            return
        apart = differences(counted)
        pairs = [(float(apart[a, b]), a, b) for a, b in combinations(range(count), 2)]
        self._broad += [_Candidate(way, a, b, (0.0, worth)) for worth, a, b in nlargest(_ROUNDS[0] // _BROAD, pairs)]
        self._rare += [_Suspect(way, *found) for found in alone(counted, self.goal, _TESTED, _DOUBT)]

    # -- two records ----------------------------------------------------------------------------------------------

    def _race(self, reports: float) -> Finalist:
        """Rounds between fewer and fewer pairs of records, with so many reports in all."""
        seats = max(_ROUNDS[-1], min(_ROUNDS[0], int(reports / len(_ROUNDS) / (2 * _LEAST))))
        few = math.ceil(seats / _BROAD)
        broad = [one for fixed in (False, True) for one in _best(self._broad_at(fixed), few)]
        candidates = _distinct([*_best(self._sharp, max(seats - len(broad), 1)), *broad])
        rounds = [len(candidates), *(places for places in _ROUNDS[1:] if places < len(candidates)), 1]
        for number, places in enumerate(rounds[1:]):
            share = (number + 1) / len(rounds[1:])
            judged: list[tuple[_Candidate, Finalist]] = []
            for candidate in candidates:
                judged += self._judged(candidate, reports / len(rounds[1:]) / (2 * len(candidates)))
                if self.effort.over(SCAN + RACE * share):
                    break
            self.say(f"Comparing {self.door.name}", SCAN + RACE * share)
            judged.sort(key=lambda one: one[0].rank, reverse=True)
            candidates = _distinct([candidate for candidate, _ in judged])[:places]
        return judged[0][1]

    def _broad_at(self, fixed: bool) -> list[_Candidate]:
        """Chosen by all columns: at fixed public bytes, or at new ones, of which there are many more draws."""
        return [one for one in self._broad if (one.way.public is not None) == fixed]

    def _judged(self, candidate: _Candidate, each: float) -> Iterator[tuple[_Candidate, Finalist]]:
        """New draws of two records, and their best events: for the first, and for the second."""
        way, a, b = candidate.way, candidate.record, candidate.other
        pair = [self.records[a], self.records[b]]
        most = _MOST_CELLS // (2 * len(way.draw(pair, 1, self.lexicon).columns))
        n = max(8, 2 * (int(min(each / way.cost, most)) // 2))
        for first, second, events in zip(
            (a, b), (b, a), best_events(Sample.of(way.draw(pair, n, self.lexicon), 2), self.goal, _TESTED), strict=True
        ):
            finalist = Finalist(way, self.records[first], self.records[second], events, self.door.share)
            yield _Candidate(way, first, second, events[0].rank), finalist

    def _seen_again(self, suspects: Sequence[_Suspect], reports: float) -> list[Finalist]:
        """The best of what one record alone showed, if it speaks against the promise together with new draws.

        All suspects of a way are judged by the same draws, each record against all others: with few records these say
        more than as many draws of two, and the right suspect need not be the first.
        """
        judged: list[Finalist] = []
        chance = math.log(max(sum(len(one.events) for one in suspects), 1))
        for way in {id(one.way): one.way for one in suspects}.values():
            own = [one for one in suspects if one.way is way]
            judged += self._judged_again(way, own, reports * len(own) / len(suspects), chance)
        return nlargest(1, [one for one in judged if one.excess > 0], key=lambda one: one.excess)

    def _judged_again(
        self, way: Way, suspects: Sequence[_Suspect], reports: float, chance: float
    ) -> Iterator[Finalist]:
        """Suspects of one way, with the evidence of new draws added to what spoke for them."""
        wanted = dict.fromkeys([*(one.record for one in suspects), *range(len(self.records))])
        numbers = list(wanted)[:_BESIDE]
        drawn = [self.records[number] for number in numbers]
        most = _MOST_CELLS // (len(drawn) * len(self._draw(way, 1).columns))
        n = max(1, int(min(reports / (len(drawn) * way.cost), most)))
        sample = Sample.of(way.draw(drawn, n, self.lexicon), len(drawn))
        for suspect in suspects:
            place = numbers.index(suspect.record)
            hits = [event.hits(sample) for event in suspect.events]
            found = [
                event.with_evidence(own, place, self.goal, chance)
                for event, own in zip(suspect.events, hits, strict=True)
            ]
            best = hits[max(range(len(found)), key=lambda number: found[number].excess)]
            other = int(np.where(np.arange(len(drawn)) == place, n + 1, best).argmin())  # shows least of the best
            yield Finalist(way, drawn[place], drawn[other], sorted_events(found), _RARE)

    def _draw(self, way: Way, count: int) -> Features:
        return way.draw(self.records, count, self.lexicon)

    def _silent(self, features: Features) -> bool:
        """Whether nothing but errors came."""
        said = {self.lexicon.thing(int(code)) for code in np.unique(features.column("report as text"))}
        return all(isinstance(thing, Silence) and thing != Silence() for thing in said)


def _best(candidates: Sequence[_Candidate], most: int) -> list[_Candidate]:
    return _distinct(sorted(candidates, key=lambda one: one.rank, reverse=True))[:most]


def _distinct(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """Each way and pair of records once, in whichever direction."""
    found: dict[tuple[int, frozenset[int]], _Candidate] = {}
    for one in candidates:
        found.setdefault((id(one.way), frozenset((one.record, one.other))), one)
    return list(found.values())
