"""Events that tell two records apart: sets of outcomes of some view of a report, ranked by what samples promise.

The best event of a view collects the outcomes that one record favours most. Outcomes are chosen on one half of a sample
and judged on the other, so that a view with many outcomes does not look good by chance. Two figures judge: the evidence
against the promised epsilon, beyond what chance shows among so many events, and the bound that fresh draws would prove.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from keyveil.privacy.features import WHOLE, Features, Lexicon
from keyveil.privacy.intervals import evidence, hunch
from keyveil.privacy.views import Anything, Classifier, Codes, Indicator, JointView, Sample, View, bins

_JOINED = 5  # the most telling views that are also looked at three by three
_CELLS = 4096
_INDICATORS = 160  # outcomes that are looked at two by two
_EACH = 16  # of one view
_PAIRED = 3  # pairs of outcomes that are judged
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


def standouts(sample: Sample, views: Sequence[View], goal: float, pairs: bool) -> list[Standout]:
    """For every view the outcome that speaks most against the promise, and the one with the largest ratio.

    An outcome is judged by the two records that differ most in it; with ``pairs`` also two outcomes together.
    """
    found: list[Standout] = []
    for counts in _outcomes(sample, views):
        found += _extreme(counts, sample.draws, goal)
    if pairs:
        numbers, counts = _together(sample, _indicators(sample, views))
        if len(numbers):
            found += _extreme(counts.reshape(sample.groups, -1), sample.draws, goal)
    chance = math.log(max(len(found), 1) * sample.groups**2)
    return [Standout(one.excess - chance, one.worth, one.record, one.other) for one in found]


def differences(sample: Sample, views: Sequence[View]) -> NDArray[np.float64]:
    """How much all columns together differ, for all pairs of records (chi-square less its expectation)."""
    total = np.zeros((sample.groups, sample.groups))
    for view in views:
        counts = sample.counts(view)
        one, other = counts[:, None, :], counts[None, :, :]
        total += ((one - other) ** 2 / np.maximum(one + other, 1) - 1).sum(axis=2)
    return total


def alone(sample: Sample, views: Sequence[View], goal: float, most: int) -> tuple[int, int, list[Event]]:
    """Outcomes that one record shows and all others together hardly do: the two records, and at most so many events.

    However rare they are: the others have many more draws, so a few sightings say much. No events, if chance would do.
    """
    chance = math.log(max(len(views), 1))
    ranked = sorted(
        (
            (float(nats.max()) - chance, int(favourite[nats.argmax()]), view)
            for view in views
            for favourite, nats in [_against_all(sample.counts(view), goal)]
        ),
        key=lambda one: -one[0],
    )
    events: list[Event] = []
    if not ranked or ranked[0][0] <= 0:
        return 0, 0, events
    record, other = ranked[0][1], -1
    for excess, own, view in ranked[:most]:
        if own != record or excess <= 0:
            continue
        counts = sample.counts(view)
        favourite, nats = _against_all(counts, goal)
        outcomes = (favourite == record) & (nats > chance)
        seen = counts[:, outcomes].sum(axis=1)
        if other < 0:  # the one that shows least of the best event
            other = int(np.where(np.arange(sample.groups) == record, sample.features.n, seen).argmin())
        events.append(Event(view, outcomes, excess, _worth(int(seen[record]), int(seen[other]), sample.draws)))
    return record, other, events


def _against_all(counts: Codes, goal: float) -> tuple[Codes, NDArray[np.float64]]:
    """For each outcome the record that shows it most, and the evidence against all others, less what chance shows."""
    most = counts.max(axis=0)
    nats = evidence(most, counts.sum(axis=0) - most, goal, others=len(counts) - 1)
    return counts.argmax(axis=0), nats - math.log(counts.size)


# -- two records: which events ------------------------------------------------------------------------------------


def best_events(sample: Sample, goal: float, most: int) -> tuple[list[Event], list[Event]]:
    """Events that speak for the first of two records against the second, and the other way round, best first.

    At most so many, of different views; and always the best one that the other record never showed.
    """
    chosen, judged = sample.half(0), sample.half(1)
    views = chosen.views()
    ways: list[list[Event]] = []
    counted = [(view, chosen.counts(view)) for view in views]
    pairs = _best_pairs(chosen, views, goal)
    for order in (slice(None), slice(None, None, -1)):
        singles = [_best(view, counts[order], chosen.draws, goal) for view, counts in counted]
        judge = _Judge(judged, order, goal, math.log(len(views) + len(pairs) + 1))
        ranked = sorted(
            (judge(view, outcomes) for view, outcomes in singles), key=lambda event: event.rank, reverse=True
        )
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
            joints.append(_classifier([(view, counts[order]) for view, counts in counted], chosen))
        ranked += [judge(*_best(view, chosen.counts(view)[order], chosen.draws, goal)) for view in joints]
        ranked = sorted(ranked, key=lambda event: event.rank, reverse=True)[:most]
        never = [judge(view, (counts[order][0] > 0) & (counts[order][1] == 0)) for view, counts in counted]
        only = max((event for event in never if event.outcomes.any()), key=lambda event: event.rank, default=None)
        if only is not None and not any(_same(only, event) for event in ranked):
            ranked.append(only)
        ways.append(ranked or [Event(Anything(), np.ones(1, dtype=np.bool_), 0.0, 0.0)])
    return ways[0], ways[1]


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
        return Event(view, outcomes, nats - self.chance, _worth(int(hits), int(others), self.sample.draws))


def _best(view: View, counts: Codes, draws: int, goal: float) -> tuple[View, NDArray[np.bool_]]:
    """The event of a view that promises most: the first outcomes in the order of their own promise, or of size."""
    a, b = counts
    orders = [
        np.argsort(-hunch(a, b, draws, caution=1.0), kind="stable"),
        np.argsort(-evidence(a, b, goal), kind="stable"),
    ]
    if view.ordered:
        orders += [np.arange(view.size), np.arange(view.size)[::-1]]
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


def _classifier(counted: Sequence[tuple[View, Codes]], sample: Sample) -> Classifier:
    """Weights from the logarithms of the counts' ratios, where these are more than chance."""
    parts, weights = [], []
    for view, (a, b) in counted:
        if view.name == WHOLE:
            continue
        weight = np.log((a + 0.5) / (b + 0.5))
        solid = np.abs(weight) > 3 * np.sqrt(1 / (a + 0.5) + 1 / (b + 0.5))
        if solid.any():
            parts.append(view)
            weights.append(np.where(solid, weight, 0.0))
    bare = Classifier(tuple(parts), tuple(weights), np.zeros(0))
    return Classifier(bare.parts, bare.weights, bins(bare.total(sample.features)))


def _same(one: Event, other: Event) -> bool:
    return one.view is other.view and bool(np.array_equal(one.outcomes, other.outcomes))


def _worth(hits: int, others: int, draws: int) -> float:
    return float(hunch(np.array([hits]), np.array([others]), draws)[0])


# -- counts of single outcomes, and of two together ---------------------------------------------------------------


def _outcomes(sample: Sample, views: Sequence[View]) -> Iterator[Codes]:
    """For every view the counts of its outcomes, and of all below and above each where they have an order."""
    for view in views:
        counts = sample.counts(view)
        yield np.hstack([counts, counts.cumsum(axis=1), counts[:, ::-1].cumsum(axis=1)]) if view.ordered else counts


def _extreme(counts: Codes, draws: int, goal: float) -> Iterator[Standout]:
    """The outcome with most evidence and the one with the largest ratio; ``counts`` has a row for each record."""
    high, low = counts.max(axis=0), counts.min(axis=0)
    nats, worths = evidence(high, low, goal), hunch(high, low, draws)
    for at in {int(nats.argmax()), int(worths.argmax())}:
        yield Standout(
            float(nats[at]) - math.log(len(nats)),
            float(worths[at]),
            int(counts[:, at].argmax()),
            int(counts[:, at].argmin()),
        )


def _indicators(sample: Sample, views: Sequence[View]) -> list[Indicator]:
    """Outcomes that are neither rare nor nearly certain, the most even ones first."""
    ranked: list[tuple[float, int, View]] = []
    for view in views:
        if view.name == WHOLE or view.ordered:
            continue
        shares = sample.counts(view).sum(axis=0) / sample.features.n
        even = np.minimum(shares, 1 - shares)
        most = np.argsort(-even, kind="stable")[: 1 if view.size <= 3 else _EACH]
        ranked += [(float(even[outcome]), int(outcome), view) for outcome in most if even[outcome] > 0]
    ranked.sort(key=lambda one: -one[0])
    return [Indicator(view, outcome) for _, outcome, view in ranked[:_INDICATORS]]


def _together(sample: Sample, indicators: Sequence[Indicator]) -> tuple[Codes, Codes]:
    """Two outcomes of different columns at once: their numbers [pair, 2], and counts [record, pair, 6].

    Counted are both, the first alone, the second alone, neither, exactly one, and both or neither.
    """
    numbers = np.array(
        [(i, j) for i, j in combinations(range(len(indicators)), 2) if indicators[i].name != indicators[j].name],
        dtype=np.int64,
    ).reshape(-1, 2)
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


def _best_pairs(sample: Sample, views: Sequence[View], goal: float) -> list[View]:
    """The few pairs of outcomes that tell two records apart best."""
    indicators = _indicators(sample, views)
    numbers, counts = _together(sample, indicators)
    if not len(numbers):
        return []
    high, low = counts.max(axis=0), counts.min(axis=0)
    nats = evidence(high, low, goal).max(axis=1) - math.log(counts[0].size)
    order = np.lexsort([hunch(high, low, sample.draws).max(axis=1), np.maximum(nats, 0)])[::-1]
    return [JointView((indicators[i], indicators[j])) for i, j in numbers[order[:_PAIRED]].tolist()]
