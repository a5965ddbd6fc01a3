"""Views of reports: maps from a report to one of finitely many outcomes, and how often samples show each.

A view looks at one column of the features, at several together, or at the sum of what all of them say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from keyveil.privacy.features import MISSING, WHOLE, Features, Lexicon, Silence
from keyveil.privacy.intervals import evidence

Codes = NDArray[np.int64]

_VALUES = 512  # values of a column that are told apart: so many by frequency, as many by their favourite record
_BINS = 32
_LEVELS = np.unique([0.002, 0.01, *np.linspace(0, 1, _BINS + 1), 0.99, 0.998])[1:]  # quantiles between bins
_RARE = 2  # a value seen less often is one outcome with all others as rare: what is seen once tells nothing alone
_SPOKEN = 4  # parts that are named


class View(Protocol):
    """A way to look at reports: outcomes are numbered from 0. The name is that of its column, if it has but one."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def ordered(self) -> bool: ...
    def codes(self, features: Features) -> Codes: ...
    def describe(self, first: int, last: int, lexicon: Lexicon) -> str:
        """Outcomes in a row, in words; only views with an order have more than one."""


@dataclass(frozen=True, eq=False)
class Values:
    """The value of a column, if it is a known one; the last outcome stands for all others."""

    name: str
    values: Codes
    ordered: bool = False

    @property
    def size(self) -> int:
        return len(self.values) + 1

    def codes(self, features: Features) -> Codes:
        column = features.column(self.name)
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

    def codes(self, features: Features) -> Codes:
        column = features.column(self.name, self.real)
        missing = np.isnan(column) if self.real else column == MISSING
        return np.where(missing, len(self.edges) + 1, np.searchsorted(self.edges, column, side="right"))

    def describe(self, first: int, last: int, lexicon: Lexicon) -> str:
        name = self.name.removesuffix(" as a real number")
        if last <= len(self.edges):
            return _between(name, self.edges, first, last)
        missing = f"{name} is missing"
        return missing if first == last else f"{_between(name, self.edges, first, last - 1)} or {missing}"


@dataclass(frozen=True, eq=False)
class Indicator:
    """Whether a view has one certain outcome: 1, or not: 0."""

    whole: View
    outcome: int
    ordered: bool = False
    size: int = 2

    @property
    def name(self) -> str:
        return self.whole.name

    def codes(self, features: Features) -> Codes:
        held: Codes = (self.whole.codes(features) == self.outcome).astype(np.int64)
        return held

    def describe(self, first: int, last: int, lexicon: Lexicon) -> str:
        text = self.whole.describe(self.outcome, self.outcome, lexicon)
        return text if first else f"not ({text})"


@dataclass(frozen=True, eq=False)
class JointView:
    """Several views at once."""

    parts: tuple[View, ...]
    ordered: bool = False
    name: str = ""

    @property
    def size(self) -> int:
        return math.prod(part.size for part in self.parts)

    def codes(self, features: Features) -> Codes:
        joined = np.zeros(features.n, dtype=np.int64)
        for part in self.parts:
            joined = joined * part.size + part.codes(features)
        return joined

    def describe(self, first: int, last: int, lexicon: Lexicon) -> str:
        texts, code = [], first
        for part in reversed(self.parts):
            code, own = divmod(code, part.size)
            texts.append(part.describe(own, own, lexicon))
        return " and ".join(reversed(texts))


@dataclass(frozen=True, eq=False)
class Classifier:
    """What all columns say, added up as if they were independent (naive Bayes), in bins: weak hints in many places."""

    parts: tuple[View, ...]
    weights: tuple[NDArray[np.float64], ...]
    edges: NDArray[np.float64]
    ordered: bool = True
    name: str = ""

    @property
    def size(self) -> int:
        return len(self.edges) + 1

    def total(self, features: Features) -> NDArray[np.float64]:
        total = np.zeros(features.n)
        for part, weight in zip(self.parts, self.weights, strict=True):
            total += weight[part.codes(features)]
        return total

    def codes(self, features: Features) -> Codes:
        return np.searchsorted(self.edges, self.total(features), side="right").astype(np.int64)

    def describe(self, first: int, last: int, lexicon: Lexicon) -> str:
        names = [part.name for part in self.parts]
        listed = ", ".join(names[:_SPOKEN]) + (", …" if len(names) > _SPOKEN else "")
        return _between(f"evidence of {listed} together", self.edges, first, last)


@dataclass(frozen=True)
class Anything:
    """Does not look at all; what is left where reports never differ."""

    size: int = 1
    ordered: bool = False
    name: str = ""

    def codes(self, features: Features) -> Codes:
        return np.zeros(features.n, dtype=np.int64)

    def describe(self, first: int, last: int, lexicon: Lexicon) -> str:
        return "any report"


@dataclass(frozen=True, eq=False)
class Sample:
    """As many reports of each of several records: which row is of which record, by its number."""

    features: Features
    group: Codes
    groups: int

    @classmethod
    def of(cls, features: Features, groups: int) -> Sample:
        """From reports that come record after record."""
        return cls(features, np.repeat(np.arange(groups), features.n // groups), groups)

    @property
    def draws(self) -> int:
        """Reports of each record."""
        return self.features.n // self.groups

    def half(self, which: int) -> Sample:
        """Every other report; each record must have an even number."""
        rows = slice(which, None, 2)
        return Sample(self.features.rows(rows), self.group[rows], self.groups)

    def counts(self, view: View) -> Codes:
        """How often each outcome was seen: a row for each record."""
        flat = np.bincount(self.group * view.size + view.codes(self.features), minlength=self.groups * view.size)
        return flat.reshape(self.groups, view.size)

    def views(self) -> list[View]:
        """A view, or two, for every column in which the reports are not all the same."""
        return [view for name in self.features.columns for view in _views(name, self)]


def bins(numbers: NDArray[Any]) -> NDArray[np.float64]:
    """Edges that part numbers into bins of about the same size, and a few smaller ones at both ends."""
    return np.unique(np.quantile(numbers, _LEVELS, method="higher")).astype(np.float64)


def _views(name: str, sample: Sample) -> Iterator[View]:
    column = sample.features.columns[name]
    real = column.dtype.kind == "f"
    if not real:
        values, codes, counts = np.unique(column, return_inverse=True, return_counts=True)
        if len(values) == 1:
            return
        kept = _kept(codes, counts, sample)
        if len(kept):
            yield Values(name, values[kept].astype(np.int64))
        if len(values) <= _BINS or name == WHOLE or name.endswith(" as text"):
            return
        column = column[column != MISSING]
    numbers = column[np.isfinite(column)] if real else column
    if len(numbers):
        yield Bins(name, bins(numbers), real)


def _kept(codes: Codes, counts: Codes, sample: Sample) -> Codes:
    """The values that are told apart: those seen most often, and those seen of one record more than of all others."""
    seen = np.flatnonzero(counts >= _RARE)
    if len(seen) <= _VALUES:
        return seen
    common = seen[np.argsort(-counts[seen], kind="stable")[:_VALUES]]
    cells, sizes = np.unique(codes * sample.groups + sample.group, return_counts=True)
    most = np.zeros(len(counts), dtype=np.int64)
    np.maximum.at(most, cells // sample.groups, sizes)
    alone = evidence(most[seen], counts[seen] - most[seen], 0.0, others=max(sample.groups - 1, 1))
    return np.union1d(common, seen[np.argsort(-alone, kind="stable")[:_VALUES]])


def _between(name: str, edges: NDArray[np.float64], first: int, last: int) -> str:
    low = "" if first == 0 else f"{edges[first - 1]:.6g} ≤ "
    high = "" if last == len(edges) else f" < {edges[last]:.6g}"
    return f"{low}{name}{high}"


def _shown(thing: Any) -> str:
    """Something that is not a number, in a few words."""
    if isinstance(thing, Silence):
        return "silence" if thing == Silence() else f"silence ({thing.reason})"
    return thing.hex() if isinstance(thing, bytes) else repr(thing)
