"""Rules of claims: what a paper says, as an inequality between results with a standard error.

A rule reads the curves of one form and gives a :class:`Finding`: a gap that is positive where the claim is right, and
its standard error. A claim holds if the gap exceeds two standard errors. Errors are compared as logarithms of ratios,
so that no data set with large errors outweighs the others; ``linear`` compares differences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from keyveil.lab.experiments.findings import NOTHING, Finding, ahead, between, needed, numbers, slope, worst
from keyveil.lab.experiments.results import Curve, View

Span = tuple[float, float] | None


class Rule(Protocol):
    """Anything that can judge the curves of a form."""

    def judge(self, view: View) -> Finding:
        """The gap of the claim in these results."""


@dataclass(frozen=True)
class Lower:
    """One series lies below every one of the others (``higher``: above): by the factor ``by``, on average over places.

    The rival against whom least is shown speaks; ``spared`` so many of them need not be beaten ("most others"). With
    ``everywhere`` there is also no place where another is told to be lower, and with ``each`` it is shown at every
    single place. With ``linear`` differences count.
    """

    one: str
    than: tuple[str, ...]
    measure: str
    by: float = 1.0
    between: Span = None
    people: tuple[str, ...] = ()
    everywhere: bool = False
    each: bool = False
    linear: bool = False
    higher: bool = False
    spared: int = 0

    def judge(self, view: View) -> Finding:
        averages: list[Finding] = []
        places: list[Finding] = []
        for rival in self.than:
            found = list(self._against(view, rival))
            if not found:
                continue
            count = sum(len(some) for _, some in found)
            shares = [len(some) / count for _, some in found]
            gap = sum(share * one.gap for share, (one, _) in zip(shares, found, strict=True))
            se = math.hypot(*(share * one.se for share, (one, _) in zip(shares, found, strict=True)))
            averages.append(Finding(gap, se, f"against {rival}, average over {_places(count)}"))
            places += [one for _, some in found for one in some]
        if not averages:
            return NOTHING
        averages = sorted(averages, key=lambda one: one.z)[min(self.spared, len(averages) - 1) :]
        weakest, least = worst(averages), worst(places)
        if self.each:
            return least
        return least if self.everywhere and least.contradicted and not weakest.contradicted else weakest

    def _against(self, view: View, rival: str) -> Iterator[tuple[Finding, list[Finding]]]:
        """For each population the average gap to one rival, and the gaps place by place."""
        for people in self.people or view.people:
            first, second = view.curve(people, self.one, self.measure), view.curve(people, rival, self.measure)
            if first is None or second is None:
                continue
            gaps, sign, least = ahead(first, second, self.linear), -1 if self.higher else 1, math.log(self.by)
            at = [place for place in _within(first, self.between) if math.isfinite(gaps.value[place])]
            if at:
                found = [
                    Finding(
                        sign * float(gaps.value[place]) - least,
                        float(np.nan_to_num(gaps.se[place])),
                        f"against {rival} on {people} at {first.x[place]:g}",
                    )
                    for place in at
                ]
                gap, se = gaps.average(at)
                yield Finding(sign * gap - least, se, ""), found


def higher(one: str, than: tuple[str, ...], measure: str, **more: Any) -> Lower:
    """One series lies above others."""
    return Lower(one, than, measure, higher=True, **more)


@dataclass(frozen=True)
class Alike:
    """Two series differ by at most the factor 1 + ``within`` on average, or with ``everywhere`` at every place."""

    one: str
    other: str
    measure: str
    within: float
    between: Span = None
    people: tuple[str, ...] = ()
    everywhere: bool = False

    def judge(self, view: View) -> Finding:
        found: list[Finding] = []
        limit = math.log(1 + self.within)
        for people in self.people or view.people:
            first, second = view.curve(people, self.one, self.measure), view.curve(people, self.other, self.measure)
            if first is None or second is None:
                continue
            gaps = ahead(first, second, False)
            places = [place for place in _within(first, self.between) if math.isfinite(gaps.value[place])]
            for some in [[place] for place in places] if self.everywhere else [places] if places else []:
                gap, se = gaps.average(some)
                where = f"{people} at {first.x[some[0]]:g}" if self.everywhere else f"average on {people}"
                found.append(Finding(limit - abs(gap), se, f"{self.one} and {self.other}, {where}"))
        return worst(found)


@dataclass(frozen=True)
class Trend:
    """Along the axis every one of the series falls (``rising``: rises): the slope of the logarithm against the
    logarithm of the axis (or the axis itself, where it has a zero) is beyond ``by``. The worst of the series counts.
    With ``against`` the ratio to that series is looked at."""

    series: tuple[str, ...]
    measure: str
    rising: bool = False
    by: float = 0.0
    between: Span = None
    people: tuple[str, ...] = ()
    linear: bool = False
    against: str = ""

    def judge(self, view: View) -> Finding:
        found = []
        for people, name, curve in _curves(self, view):
            y = numbers(curve, self.linear)
            if self.against:
                other = view.curve(people, self.against, self.measure)
                if other is None:
                    continue
                y = ahead(other, curve, False)
            steep, se = slope(curve.x, y, _within(curve, self.between), self.linear)
            gap = (steep if self.rising else -steep) - self.by
            if math.isfinite(gap):
                found.append(Finding(gap, se, f"slope of {name} on {people}: {steep:.3g}"))
        return worst(found)


@dataclass(frozen=True)
class Dips:
    """Both ends of the curve lie above its lowest point inside (``peaks``: below its highest). The worst counts.

    The lowest of several points is low by chance, too, so that more is asked of it the more there are.
    """

    series: tuple[str, ...]
    measure: str
    peaks: bool = False
    people: tuple[str, ...] = ()
    between: Span = None

    def judge(self, view: View) -> Finding:
        found = []
        for people, name, curve in _curves(self, view):
            places = _finite(curve, _within(curve, self.between))
            if len(places) < 3:
                continue
            sign = -1 if self.peaks else 1
            inside = min(places[1:-1], key=lambda at: sign * float(curve.value[at]))
            for end in (places[0], places[-1]):
                gap, se = between(curve, inside, end, linear=True)
                text = f"{name} on {people}: {curve.x[end]:g} against {curve.x[inside]:g}"
                found.append(Finding(sign * gap, se, text, level=needed(len(places) - 2)))
        return worst(found)


@dataclass(frozen=True)
class Bounded:
    """Every one of the series is at most ``most`` and at least ``least``, at every place (``last``: the last one).

    The worst counts."""

    series: tuple[str, ...]
    measure: str
    most: float = math.inf
    least: float = -math.inf
    between: Span = None
    people: tuple[str, ...] = ()
    last: bool = False

    def judge(self, view: View) -> Finding:
        found = []
        for people, name, curve in _curves(self, view):
            places = _finite(curve, _within(curve, self.between))
            for at in places[-1:] if self.last else places:
                value, se = float(curve.value[at]), float(np.nan_to_num(curve.se[at]))
                text = f"{name} on {people} at {curve.x[at]:g}: {value:.3g}"
                found.append(Finding(min(self.most - value, value - self.least), se, text))
        return worst(found)


@dataclass(frozen=True)
class Unbiased:
    """No value is off zero by more than ``share`` of what a single run errs by; the worst place counts."""

    series: tuple[str, ...]
    measure: str
    share: float
    between: Span = None
    people: tuple[str, ...] = ()

    def judge(self, view: View) -> Finding:
        found = []
        for people, name, curve in _curves(self, view):
            for at in _finite(curve, _within(curve, self.between)):
                value, se = float(curve.value[at]), float(np.nan_to_num(curve.se[at]))
                single = se * math.sqrt(max(curve.count, 1))
                text = f"{name} on {people} at {curve.x[at]:g}: {value:.2g}, a run errs by {single:.2g}"
                found.append(Finding(self.share * single - abs(value), se, text))
        return worst(found)


@dataclass(frozen=True)
class Flat:
    """Along the axis no series varies by more than the factor 1 + ``within`` (largest over least); the worst counts."""

    series: tuple[str, ...]
    measure: str
    within: float
    between: Span = None
    people: tuple[str, ...] = ()

    def judge(self, view: View) -> Finding:
        found = []
        for people, name, curve in _curves(self, view):
            places = _finite(curve, _within(curve, self.between))
            if len(places) < 2:
                continue
            most, least = (pick(places, key=lambda at: float(curve.value[at])) for pick in (max, min))
            gap, se = between(curve, least, most)
            text = f"{name} on {people}: {curve.x[most]:g} against {curve.x[least]:g}"
            pairs = len(places) * (len(places) - 1)  # either may be the larger one
            found.append(Finding(math.log(1 + self.within) - gap, se, text, choices=pairs))
        return worst(found)


@dataclass(frozen=True)
class Spot:
    """A series, a measure and the people, wherever they are not those of the whole view."""

    series: str
    measure: str
    people: str = ""


@dataclass(frozen=True)
class Less:
    """One spot lies below another, by the factor ``by`` on average along the axis: two measures, or two populations."""

    low: Spot
    high: Spot
    by: float = 1.0
    between: Span = None

    def judge(self, view: View) -> Finding:
        found: list[tuple[float, float, int]] = []
        for people in view.people if not self.low.people else (self.low.people,):
            one = view.curve(people, self.low.series, self.low.measure)
            other = view.curve(self.high.people or people, self.high.series, self.high.measure)
            if one is None or other is None:
                continue
            gaps = ahead(one, other, False)
            at = [place for place in _within(one, self.between) if math.isfinite(gaps.value[place])]
            if at:
                found.append((*gaps.average(at), len(at)))
        count = sum(places for _, _, places in found)
        if not count:
            return NOTHING
        gap = sum(gap * places for gap, _, places in found) / count - math.log(self.by)
        se = math.hypot(*(se * places / count for _, se, places in found))
        return Finding(gap, se, f"{self.low.series}, average over {_places(count)}")


@dataclass(frozen=True)
class Both:
    """All of several rules; the weakest of them speaks."""

    rules: tuple[Rule, ...]

    def judge(self, view: View) -> Finding:
        return worst([rule.judge(view) for rule in self.rules])


def both(*rules: Rule) -> Both:
    return Both(rules)


def falling(labels: Sequence[str], measure: str, **more: Any) -> Both:
    """Each series lies below the one before it."""
    return Both(tuple(Lower(low, (high,), measure, **more) for high, low in pairwise(labels)))


class _OfSeries(Protocol):
    @property
    def series(self) -> tuple[str, ...]: ...
    @property
    def people(self) -> tuple[str, ...]: ...
    @property
    def measure(self) -> str: ...


def _curves(rule: _OfSeries, view: View) -> Iterator[tuple[str, str, Curve]]:
    """The curves that a rule is about, with their people and series."""
    for people in rule.people or view.people:
        for name in rule.series:
            curve = view.curve(people, name, rule.measure)
            if curve is not None:
                yield people, name, curve


def _places(count: int) -> str:
    return "1 place" if count == 1 else f"{count} places"


def _within(curve: Curve, span: Span) -> list[int]:
    low, high = span or (-math.inf, math.inf)
    return [place for place, x in enumerate(curve.x) if low <= x <= high]


def _finite(curve: Curve, places: Sequence[int]) -> list[int]:
    return [place for place in places if math.isfinite(curve.value[place])]
