"""Events that tell two records apart: sets of outcomes of some view of a report, ranked by what samples promise.

A view maps every report to one of finitely many outcomes. The best event of a view collects the outcomes that one
record favours most; its worth is a cautious guess at the epsilon that fresh draws would prove.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from keyveil.privacy.features import MISSING, WHOLE, Lexicon, Sights, Silence
from keyveil.privacy.intervals import hunch

Codes = NDArray[np.int64]

_VALUES = 512  # outcomes of a column that are told apart; rarer ones are one outcome together
_BINS = 32
_LEVELS = np.unique([0.002, 0.01, *np.linspace(0, 1, _BINS + 1), 0.99, 0.998])[1:]  # quantiles between bins
_RARE = 4  # a value seen less often says nothing alone
_JOINED = 5  # the most telling views that are also looked at together
_CELLS = 4096
_SPOKEN = 4  # outcomes of an event that are named


class View(Protocol):
    """A way to look at reports: outcomes are numbered from 0."""

    @property
    def size(self) -> int: ...
    @property
    def ordered(self) -> bool: ...
    def codes(self, sights: Sights) -> Codes: ...
    def describe(self, first: int, last: int, lexicon: Lexicon) -> str:
        """Outcomes in a row, in words; only views with an order have more than one."""


Counted = tuple[View, Codes, Codes]
"""A view, and how often each of its outcomes was seen for two records."""


@dataclass(frozen=True, eq=False)
class Values:
    """The value of a column, if it is a known one; the last outcome stands for all others."""

    name: str
    values: Codes
    ordered: bool = False

    @property
    def size(self) -> int:
        return len(self.values) + 1

    def codes(self, sights: Sights) -> Codes:
        column = sights.column(self.name)
        at = np.minimum(np.searchsorted(self.values, column), len(self.values) - 1)
        return np.where(self.values[at] == column, at, len(self.values))

    def describe(self, first: int, last: int, lexicon: Lexicon) -> str:
        if first == len(self.values):
            return f"{self.name} is something else"
        value = int(self.values[first])
        if value == MISSING:
            return f"{self.name}: no" if " in " in self.name else f"{self.name} is missing"
        if self.name == WHOLE and isinstance(parts := lexicon.thing(value), tuple):
            return " and ".join(f"{name} is {_shown(part)}" for name, part in parts)
        if self.name == WHOLE or self.name.endswith(" as text"):
            return f"{self.name.removesuffix(' as text')} is {_shown(lexicon.thing(value))}"
        return f"{self.name}: yes" if " in " in self.name else f"{self.name} is {value}"


@dataclass(frozen=True, eq=False)
class Bins:
    """The interval between quantiles that a number falls into; the last outcome stands for no number."""

    name: str
    edges: NDArray[np.float64]
    real: bool
    ordered: bool = True

    @property
    def size(self) -> int:
        return len(self.edges) + 2

    def codes(self, sights: Sights) -> Codes:
        column = sights.column(self.name, self.real)
        missing = np.isnan(column) if self.real else column == MISSING
        return np.where(missing, len(self.edges) + 1, np.searchsorted(self.edges, column, side="right"))

    def describe(self, first: int, last: int, lexicon: Lexicon) -> str:
        name = self.name.removesuffix(" as a real number")
        if last <= len(self.edges):
            return _between(name, self.edges, first, last)
        missing = f"{name} is missing"
        return missing if first == last else f"{_between(name, self.edges, first, last - 1)} or {missing}"


@dataclass(frozen=True, eq=False)
class JointView:
    """Several views at once."""

    parts: tuple[View, ...]
    ordered: bool = False

    @property
    def size(self) -> int:
        return math.prod(part.size for part in self.parts)

    def codes(self, sights: Sights) -> Codes:
        joined = np.zeros(sights.n, dtype=np.int64)
        for part in self.parts:
            joined = joined * part.size + part.codes(sights)
        return joined

    def describe(self, first: int, last: int, lexicon: Lexicon) -> str:
        texts, code = [], first
        for part in reversed(self.parts):
            code, own = divmod(code, part.size)
            texts.append(part.describe(own, own, lexicon))
        return " and ".join(reversed(texts))


@dataclass(frozen=True, eq=False)
class EventCounts:
    """The sum of what all columns say, as if they were independent: weak hints in many places add up."""

    parts: tuple[View, ...]
    weights: tuple[NDArray[np.float64], ...]
    edges: NDArray[np.float64]
    ordered: bool = True

    @property
    def size(self) -> int:
        return len(self.edges) + 1

    def total(self, sights: Sights) -> NDArray[np.float64]:
        total = np.zeros(sights.n)
        for part, weight in zip(self.parts, self.weights, strict=True):
            total += weight[part.codes(sights)]
        return total

    def codes(self, sights: Sights) -> Codes:
        return np.searchsorted(self.edges, self.total(sights), side="right").astype(np.int64)

    def describe(self, first: int, last: int, lexicon: Lexicon) -> str:
        names = [getattr(part, "name", "") for part in self.parts]
        listed = ", ".join(names[:_SPOKEN]) + (", …" if len(names) > _SPOKEN else "")
        return _between(f"evidence of {listed} together", self.edges, first, last)


@dataclass(frozen=True)
class Anything:
    """Does not look at all; what is left where reports never differ."""

    size: int = 1
    ordered: bool = False

    def codes(self, sights: Sights) -> Codes:
        return np.zeros(sights.n, dtype=np.int64)

    def describe(self, first: int, last: int, lexicon: Lexicon) -> str:
        return "any report"


@dataclass(frozen=True, eq=False)
class Event:
    """Outcomes of a view, and what they promise to prove."""

    view: View
    outcomes: NDArray[np.bool_]
    worth: float

    def count(self, sights: Sights) -> int:
        return int(self.outcomes[self.view.codes(sights)].sum())

    def describe(self, lexicon: Lexicon) -> str:
        runs: list[list[int]] = []
        for code in np.flatnonzero(self.outcomes).tolist():
            if self.view.ordered and runs and runs[-1][1] == code - 1:
                runs[-1][1] = code
            else:
                runs.append([code, code])
        texts = [self.view.describe(first, last, lexicon) for first, last in runs[:_SPOKEN]]
        return "; or ".join(texts) + (f"; or {len(runs) - _SPOKEN} more" if len(runs) > _SPOKEN else "")


def columns_of(samples: Sequence[Sights]) -> list[View]:
    """A view, or two, for every column in which the samples are not all the same."""
    names = dict.fromkeys(name for sights in samples for name in sights.columns)
    return [view for name in names for view in _views(name, samples)]


def tables(views: Sequence[View], samples: Sequence[Sights]) -> Iterator[Codes]:
    """For every view, the counts of its outcomes: a row per sample."""
    for view in views:
        yield np.stack([np.bincount(view.codes(sights), minlength=view.size) for sights in samples])


def best_events(one: Sights, other: Sights, most: int) -> tuple[list[Event], list[Event]]:
    """The events, of different views, that speak most for ``one`` against ``other``, and the other way round."""
    singles = columns_of([one, other])
    counted = [(view, *table) for view, table in zip(singles, tables(singles, [one, other]), strict=True)]
    return _ranked(counted, one, other, most), _ranked([(view, b, a) for view, a, b in counted], other, one, most)


def _ranked(counted: Sequence[Counted], one: Sights, other: Sights, most: int) -> list[Event]:
    """The best events of columns, of small groups of them, and of all together."""
    ranked = _sorted(_best(view, a, b, one.n) for view, a, b in counted)
    leading = [event.view for event in ranked if getattr(event.view, "name", WHOLE) != WHOLE][:_JOINED]
    joints: list[View] = [
        joint
        for count in (2, 3)
        for parts in combinations(leading, count)
        if (joint := JointView(parts)).size <= _CELLS and len({getattr(part, "name", "") for part in parts}) == count
    ]
    if len(leading) > 1:
        joints.append(_evidence(counted, one, other))
    joined = zip(joints, tables(joints, [one, other]), strict=True)
    ranked = _sorted([*ranked, *(_best(view, a, b, one.n) for view, (a, b) in joined)])
    return ranked[:most] or [Event(Anything(), np.ones(1, dtype=np.bool_), 0.0)]


def _sorted(events: Iterable[Event]) -> list[Event]:
    """By worth; simple ones first among equals."""
    return sorted(events, key=lambda event: -event.worth)


def _views(name: str, samples: Sequence[Sights]) -> Iterator[View]:
    real = any(sights.columns[name].dtype.kind == "f" for sights in samples if name in sights.columns)
    pooled: NDArray[Any] = np.concatenate([sights.column(name, real) for sights in samples])
    if not real:
        values, counts = np.unique(pooled, return_counts=True)
        if len(values) == 1:
            return
        common = np.sort(np.argsort(-counts, kind="stable")[:_VALUES])
        kept = values[common][counts[common] >= _RARE].astype(np.int64)
        if len(kept):
            yield Values(name, kept)
        if len(values) <= _BINS or name == WHOLE or name.endswith(" as text"):
            return
        pooled = pooled[pooled != MISSING]
    numbers = pooled[np.isfinite(pooled)] if real else pooled
    if len(numbers):
        edges = np.unique(np.quantile(numbers, _LEVELS, method="higher"))
        yield Bins(name, edges.astype(np.float64), real)


def _best(view: View, a: Codes, b: Codes, draws: int) -> Event:
    """The event of a view that promises most: the first outcomes in the order of their own promise, or of size."""
    orders = [np.argsort(-hunch(a, b, draws, caution=1.0), kind="stable")]
    if view.ordered:
        orders += [np.arange(view.size), np.arange(view.size)[::-1]]
    best, chosen = -math.inf, orders[0][:1]
    for order in orders:
        worths = hunch(np.cumsum(a[order]), np.cumsum(b[order]), draws)
        longest = int(np.argmax(worths))
        if worths[longest] > best:
            best, chosen = float(worths[longest]), order[: longest + 1]
    outcomes = np.zeros(view.size, dtype=np.bool_)
    outcomes[chosen] = True
    return Event(view, outcomes, best)


def _between(name: str, edges: NDArray[np.float64], first: int, last: int) -> str:
    low = "" if first == 0 else f"{edges[first - 1]:.6g} ≤ "
    high = "" if last == len(edges) else f" < {edges[last]:.6g}"
    return f"{low}{name}{high}"


def _shown(thing: Any) -> str:
    """Something that is not a number, in a few words."""
    if isinstance(thing, Silence):
        return "silence" if thing == Silence() else f"silence ({thing.reason})"
    return thing.hex() if isinstance(thing, bytes) else repr(thing)


def _evidence(counted: Sequence[Counted], one: Sights, other: Sights) -> EventCounts:
    """Weights from the logarithms of the counts' ratios, where these are more than chance."""
    parts, weights = [], []
    for view, a, b in counted:
        if getattr(view, "name", WHOLE) == WHOLE:
            continue
        weight = np.log((a + 0.5) / (b + 0.5))
        solid = np.abs(weight) > 3 * np.sqrt(1 / (a + 0.5) + 1 / (b + 0.5))
        if solid.any():
            parts.append(view)
            weights.append(np.where(solid, weight, 0.0))
    bare = EventCounts(tuple(parts), tuple(weights), np.zeros(0))
    pooled = np.concatenate([bare.total(one), bare.total(other)])
    edges = np.unique(np.quantile(pooled, _LEVELS, method="higher"))
    return EventCounts(bare.parts, bare.weights, edges)
