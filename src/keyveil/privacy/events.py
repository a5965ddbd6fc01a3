"""Events that tell two records apart: sets of outcomes of some view of a report, ranked by what samples promise.

The best event of a view collects the outcomes that one record favours most. Outcomes are chosen on one half of a sample
and judged on the other, so that a view with many outcomes does not look good by chance. Two figures judge: the evidence
against the promised epsilon, beyond what chance shows among so many events, and the bound that fresh draws would prove.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.privacy.features import WHOLE, Features, Lexicon
from keyveil.privacy.intervals import CAUTION, evidence, hunch
from keyveil.privacy.views import Anything, Classifier, Codes, Indicator, JointView, Sample, View, bins

_LEADING = 12  # views that are looked at closely: by evidence, by ratio, and by what only one record shows
_JOINED = 5  # the most telling views that are also looked at three by three
_CELLS = 4096
_INDICATORS = 160  # outcomes that are looked at two by two
_EACH = 16  # of one view
_PAIRED = 3  # pairs of outcomes that are judged
_ALIKE = 1e-9  # nats: of an event that chance might show only the best outcomes are taken
_CHOSEN = 1.0  # standard errors that an event is discounted by which was chosen on other draws: with more of them, of
# few draws nothing ranks above "any report", and what spreads over many values, as an arc does, is never drawn again
_SPOKEN = 4  # outcomes of an event that are named


@dataclass(frozen=True, eq=False)
class Event:
    """Outcomes of a view, and what speaks for them."""

    view: View
    outcomes: NDArray[np.bool_]
    excess: float  # evidence against the promise, in nats, less what chance shows among all that was compared
    worth: float  # about the epsilon that it would prove

    @property
    def rank(self) -> tuple[float, float]:
        """Evidence against the promise decides; where there is none, the larger bound."""
        return max(self.excess, 0.0), self.worth

    def count(self, features: Features) -> int:
        return int(self.outcomes[self.view.codes(features)].sum())

    def hits(self, sample: Sample) -> Codes:
        """How often it happened, for every record of a sample."""
        found: Codes = sample.counts(self.view)[:, self.outcomes].sum(axis=1)
        return found

    def with_evidence(self, hits: Codes, record: int, goal: float, chance: float) -> Event:
        """The event with the evidence of new ``hits`` added, less what chance shows among as many events as are judged.

        Counted are those of one record against all others together.
        """
        others = hits.sum(keepdims=True) - hits[record]
        nats = evidence(hits[record : record + 1], others, goal, others=len(hits) - 1)
        return replace(self, excess=self.excess + float(nats[0]) - chance)

    def describe(self, lexicon: Lexicon) -> str:
        runs: list[list[int]] = []
        for code in np.flatnonzero(self.outcomes).tolist():
            if self.view.ordered and runs and runs[-1][1] == code - 1:
                runs[-1][1] = code
            else:
                runs.append([code, code])
        texts = [self.view.describe(first, last, lexicon) for first, last in runs[:_SPOKEN]]
        return "; or ".join(texts) + (f"; or {len(runs) - _SPOKEN} more" if len(runs) > _SPOKEN else "")


@dataclass(frozen=True)
class Standout:
    """An outcome that tells two records of a sample apart, by their numbers."""

    excess: float
    worth: float
    record: int
    other: int

    @property
    def rank(self) -> tuple[float, float]:
        """As of an event."""
        return max(self.excess, 0.0), self.worth


# -- many records: which two, and where to look -------------------------------------------------------------------


def standouts(counted: Counted, goal: float, most: int, pairs: bool) -> list[Standout]:
    """At most so many outcomes that speak against the promise, and as many with large ratios.

    An outcome is judged by the two records that differ most in it; with ``pairs`` also two outcomes together.
    """
    found = _extreme(counted.outcomes(), counted.sample.draws, goal, most)
    if pairs:
        together = _together(counted.sample, _indicators(counted))[1]
        found += _extreme(together.reshape(len(together), -1), counted.sample.draws, goal, most)
    return found


def differences(counted: Counted) -> NDArray[np.float64]:
    """How much all columns together differ, for all pairs of records (chi-square less its expectation)."""
    total = np.zeros((counted.sample.groups, counted.sample.groups))
    for who, counts in enumerate(counted.counts):
        total[who] = ((counts - counted.counts) ** 2 / np.maximum(counts + counted.counts, 1) - 1).sum(axis=1)
    return total


def alone(counted: Counted, goal: float, most: int, doubt: float) -> list[tuple[int, list[Event]]]:
    """Outcomes that one record shows and all others together hardly do: for each such record at most so many events.

    However rare they are: the others have many more draws, so a few sightings say much. Events are left out if they
    lack more than ``doubt`` nats to what chance shows among so many.
    """
    if not counted.views:
        return []
    favourite, nats = _against_all(counted.counts, goal)
    found: list[tuple[int, list[Event]]] = []
    for record in range(counted.sample.groups):
        own = np.where(favourite == record, nats, -np.inf)
        tops = np.maximum.reduceat(own, counted.starts)
        events = []
        for number in np.argsort(-tops, kind="stable")[:most].tolist():
            if tops[number] > -doubt:
                outcomes = counted.part(own, number) > min(float(tops[number]) - _ALIKE, 0.0)
                hits = counted.part(counted.counts, number)[:, outcomes].sum(axis=1)
                worth = _worth(int(hits[record]), int(np.delete(hits, record).min()), counted.sample.draws)
                events.append(Event(counted.views[number], outcomes, float(tops[number]), worth))
        if events:
            found.append((record, events))
    return found


def _against_all(counts: Codes, goal: float) -> tuple[Codes, NDArray[np.float64]]:
    """For each outcome the record that shows it most, and the evidence against all others, less what chance shows."""
    most = counts.max(axis=0)
    nats = evidence(most, counts.sum(axis=0) - most, goal, others=len(counts) - 1)
    return counts.argmax(axis=0), nats - math.log(counts.size)


# -- two records: which events ------------------------------------------------------------------------------------


def best_events(sample: Sample, goal: float, most: int) -> tuple[list[Event], list[Event]]:
    """Events that speak for the first of two records against the second, and the other way round, best first.

    At most so many, of different views, the last for the largest bound; and always the best one that the other record
    never showed.
    """
    chosen, judged = Counted.of(sample.half(0)), sample.half(1)
    pairs = _best_pairs(chosen, goal)
    ways: list[list[Event]] = []
    for order in (slice(None), slice(None, None, -1)):
        judge = _Judge(judged, order, goal, math.log(len(chosen.views) + len(pairs) + 1))
        worth_while = chosen.leading(order, goal)
        ranked = sorted_events(judge(*_best(view, counts, goal)) for view, counts in worth_while)
        leading = [event.view for event in ranked if event.view.name != WHOLE][:_JOINED]
        joints: list[View] = [
            *pairs,
            *(
                joint
                for count in (2, 3)
                for parts in combinations(leading, count)
                if (joint := JointView(parts)).size <= _CELLS and len({part.name for part in parts}) == count
            ),
        ]
        if len(leading) > 1:
            joints.append(_classifier(chosen, order))
        joined = [judge(*_best(view, chosen.sample.counts(view)[order], goal)) for view in joints]
        ranked = sorted_events([*ranked, *joined])
        largest = sorted(ranked[most - 1 :], key=lambda event: -event.worth)[:1]
        ranked = [*ranked[: most - 1], *largest]
        never = [judge(view, (a > 0) & (b == 0)) for view, (a, b) in worth_while if ((a > 0) & (b == 0)).any()]
        only = max(never, key=lambda event: event.excess, default=None)
        if only is not None and not any(_same(only, event) for event in ranked):
            ranked.append(only)
        ways.append(ranked or [Event(Anything(), np.ones(1, dtype=np.bool_), 0.0, 0.0)])
    return ways[0], ways[1]


def sorted_events(events: Iterable[Event]) -> list[Event]:
    """By rank; simple ones first among equals."""
    return sorted(events, key=lambda event: event.rank, reverse=True)


@dataclass(frozen=True)
class _Judge:
    """What a sample says about events that were chosen on another one."""

    sample: Sample
    order: slice
    goal: float
    chance: float

    def __call__(self, view: View, outcomes: NDArray[np.bool_]) -> Event:
        hits, others = self.sample.counts(view)[self.order][:, outcomes].sum(axis=1)
        nats = float(evidence(np.array([hits]), np.array([others]), self.goal)[0])
        worth = _worth(int(hits), int(others), self.sample.draws, _CHOSEN)
        return Event(view, outcomes, nats - self.chance, worth)


def _best(view: View, counts: Codes, goal: float) -> tuple[View, NDArray[np.bool_]]:
    """The event of a view that promises most: the first outcomes in the order of their own promise, or of size.

    In a view with an order these may begin anywhere, and go on at the smallest after the largest: a range, or an arc.
    """
    a, b = counts
    draws = int(a.sum())
    orders = [
        np.argsort(-hunch(a, b, draws, caution=1.0), kind="stable"),
        np.argsort(-evidence(a, b, goal), kind="stable"),
    ]
    if view.ordered:
        orders += [np.roll(np.arange(view.size), start) for start in range(view.size)]
    best, chosen = (-1.0, -math.inf), orders[0][:1]
    for order in orders:
        hits, others = np.cumsum(a[order]), np.cumsum(b[order])
        nats = evidence(hits, others, goal) - math.log(view.size)
        worths = hunch(hits, others, draws)
        longest = int(np.argmax(nats if nats.max() > 0 else worths))
        rank = (max(float(nats[longest]), 0.0), float(worths[longest]))
        if rank > best:
            best, chosen = rank, order[: longest + 1]
    outcomes = np.zeros(view.size, dtype=np.bool_)
    outcomes[chosen] = True
    return view, outcomes


def _classifier(counted: Counted, order: slice) -> Classifier:
    """Weights from the logarithms of the counts' ratios, where these are more than chance."""
    a, b = counted.counts[order] + 0.5
    weight = np.log(a / b)
    weight[np.abs(weight) <= 3 * np.sqrt(1 / a + 1 / b)] = 0.0
    held = [(view, counted.part(weight, number)) for number, view in enumerate(counted.views) if view.name != WHOLE]
    told = [(view, own) for view, own in held if own.any()]
    parts, weights = zip(*told, strict=True) if told else ((), ())
    bare = Classifier(parts, weights, np.zeros(0))
    return Classifier(parts, weights, bins(bare.total(counted.sample.features)))


def _same(one: Event, other: Event) -> bool:
    return one.view is other.view and bool(np.array_equal(one.outcomes, other.outcomes))


def _worth(hits: int, others: int, draws: int, caution: float = CAUTION) -> float:
    return float(hunch(np.array([hits]), np.array([others]), draws, caution)[0])


# -- counts of single outcomes, and of two together ---------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Counted:
    """A sample with the counts of all outcomes of all its views side by side: [record, outcome]."""

    sample: Sample
    views: Sequence[View]
    counts: Codes
    starts: Codes  # where the outcomes of each view begin

    @classmethod
    def of(cls, sample: Sample) -> Counted:
        views = sample.views()
        counts = [np.zeros((sample.groups, 0), dtype=np.int64), *(sample.counts(view) for view in views)]
        return cls(sample, views, np.hstack(counts), np.cumsum([table.shape[1] for table in counts])[:-1])

    def part(self, held: NDArray[Any], number: int) -> NDArray[Any]:
        """What belongs to one view."""
        start = self.starts[number]
        return held[..., start : start + self.views[number].size]

    def outcomes(self) -> Codes:
        """Counts of all outcomes, and of all below and above each where a view has an order."""
        ordered = [self.part(self.counts, number) for number, view in enumerate(self.views) if view.ordered]
        sums = [held.cumsum(axis=1) for table in ordered for held in (table, table[:, ::-1])]
        return np.hstack([self.counts, *sums])

    def leading(self, order: slice, goal: float) -> list[tuple[View, Codes]]:
        """Views that may hold the best events for one of two records, in their own order, with their counts."""
        if not self.views:
            return []
        a, b = self.counts[order]
        figures = (evidence(a, b, goal), hunch(a, b, self.sample.draws), np.where(b == 0, a, 0))
        tops = [np.maximum.reduceat(figure, self.starts) for figure in figures]
        chosen = {int(number) for top in tops for number in np.argsort(-top, kind="stable")[:_LEADING]}
        chosen |= {number for number, view in enumerate(self.views) if view.ordered}
        return [(self.views[number], self.part(self.counts, number)[order]) for number in sorted(chosen)]


def _extreme(counts: Codes, draws: int, goal: float, most: int) -> list[Standout]:
    """Outcomes with most evidence, and with the largest ratios; ``counts`` has a row for each record."""
    if not counts.size:
        return []
    high, low = counts.max(axis=0), counts.min(axis=0)
    nats = evidence(high, low, goal) - math.log(counts.size * len(counts))
    worths = hunch(high, low, draws)
    chosen = {int(at) for figure in (nats, worths) for at in np.argsort(-figure, kind="stable")[:most]}
    return [
        Standout(float(nats[at]), float(worths[at]), int(counts[:, at].argmax()), int(counts[:, at].argmin()))
        for at in sorted(chosen)
    ]


def _indicators(counted: Counted) -> list[Indicator]:
    """Outcomes that are neither rare nor nearly certain, the most even ones first."""
    shares = counted.counts.sum(axis=0) / counted.sample.features.n
    even = np.minimum(shares, 1 - shares)
    ranked: list[tuple[float, int, View]] = []
    for number, view in enumerate(counted.views):
        if view.name == WHOLE or view.ordered:
            continue
        own = counted.part(even, number)
        most = np.argsort(-own, kind="stable")[: 1 if view.size <= 3 else _EACH]
        ranked += [(float(own[outcome]), int(outcome), view) for outcome in most if own[outcome] > 0]
    ranked.sort(key=lambda one: -one[0])
    return [Indicator(view, outcome) for _, outcome, view in ranked[:_INDICATORS]]


def _together(sample: Sample, indicators: Sequence[Indicator]) -> tuple[Codes, Codes]:
    """Two outcomes of different columns at once: their numbers [pair, 2], and counts [record, pair, 6].

    Counted are both, the first alone, the second alone, neither, exactly one, and both or neither.
    """
    numbers = np.stack(np.triu_indices(len(indicators), 1), axis=1)
    columns = np.unique([one.name for one in indicators], return_inverse=True)[1]
    numbers = numbers[columns[numbers[:, 0]] != columns[numbers[:, 1]]]
    both = np.zeros((sample.groups, len(indicators), len(indicators)), dtype=np.int64)
    if len(numbers):
        marks = np.stack([one.codes(sample.features) for one in indicators], axis=1).astype(np.float32)
        for who in range(sample.groups):
            held = marks[sample.group == who]
            both[who] = np.rint(held.T @ held)
    single = both.diagonal(axis1=1, axis2=2)
    one, other, joint = single[:, numbers[:, 0]], single[:, numbers[:, 1]], both[:, numbers[:, 0], numbers[:, 1]]
    neither = sample.draws - one - other + joint
    cells = [joint, one - joint, other - joint, neither, one + other - 2 * joint, neither + joint]
    return numbers, np.stack(cells, axis=2)


def _best_pairs(counted: Counted, goal: float) -> list[View]:
    """The few pairs of outcomes that tell two records apart best."""
    indicators = _indicators(counted)
    numbers, counts = _together(counted.sample, indicators)
    if not len(numbers):
        return []
    high, low = counts.max(axis=0), counts.min(axis=0)
    nats = evidence(high, low, goal).max(axis=1) - math.log(counts[0].size)
    order = np.lexsort([hunch(high, low, counted.sample.draws).max(axis=1), np.maximum(nats, 0)])[::-1]
    return [JointView((indicators[i], indicators[j])) for i, j in numbers[order[:_PAIRED]].tolist()]
