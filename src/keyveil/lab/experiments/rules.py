"""Rules of claims: what a paper says, as an inequality between results with a standard error.

A rule reads the curves of one form and gives a :class:`Finding`: a gap that is positive where the claim is right, and
its standard error. A claim holds if the gap exceeds ``SURE`` standard errors. Errors are compared as logarithms of
ratios, so that no data set with large errors outweighs the others; ``linear`` compares differences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from keyveil.lab.experiments.results import Curve, View

Floats = NDArray[np.float64]
Span = tuple[float, float] | None

SURE = 2.0  # standard errors that a gap must exceed: 2.3 % of gaps of zero do
CONTRADICTED = 3.0  # and by so many below zero one of many places contradicts "everywhere"; of 30 places 4 % would


@dataclass(frozen=True)
class Finding:
    """How far results are on the claim's side, in the rule's units, and what was compared."""

    gap: float
    se: float
    text: str

    @property
    def holds(self) -> bool:
        return bool(self.gap > SURE * self.se) if math.isfinite(self.gap) else False

    @property
    def contradicted(self) -> bool:
        return bool(self.gap < -SURE * self.se) if math.isfinite(self.gap) else False

    @property
    def z(self) -> float:
        if math.isnan(self.gap):
            return -math.inf
        return self.gap / self.se if self.se > 0 else math.copysign(math.inf, self.gap)


class Rule(Protocol):
    """Anything that can judge the curves of a form."""

    def judge(self, view: View) -> Finding:
        """The gap of the claim in these results."""


NOTHING = Finding(math.nan, math.nan, "no results")


@dataclass(frozen=True)
class Lower:
    """One series lies below every one of the others (``higher``: above): by the factor ``by``, on average over places.

    The rival against whom least is shown speaks. With ``everywhere`` there is also no place where another is told to be
    lower. With ``linear`` differences count, and ``margin`` is the least one. Standard errors of places add up as those
    of independent numbers.
    """

    one: str
    than: tuple[str, ...]
    measure: str
    by: float = 1.0
    between: Span = None
    people: tuple[str, ...] = ()
    everywhere: bool = False
    linear: bool = False
    margin: float = 0.0
    higher: bool = False

    def judge(self, view: View) -> Finding:
        averages, places = [], []
        for rival in self.than:
            against = self._places(view, rival)
            if against:
                gap, se = float(np.mean([one.gap for one in against])), _together([one.se for one in against])
                averages.append(Finding(gap, se, f"against {rival}, average over {_places(len(against))}"))
                places += against
        if not averages:
            return NOTHING
        weakest, worst = (min(some, key=lambda one: one.z) for some in (averages, places))
        return worst if self.everywhere and weakest.holds and worst.z < -CONTRADICTED else weakest

    def _places(self, view: View, rival: str) -> list[Finding]:
        """The gap to one rival, place by place."""
        found = []
        for people in self.people or view.people:
            first, second = view.curve(people, self.one, self.measure), view.curve(people, rival, self.measure)
            if first is None or second is None:
                continue
            gap, se = _ahead(first, second, self.linear)
            gap = (-gap if self.higher else gap) - (self.margin if self.linear else math.log(self.by))
            for at in _within(first, self.between):
                if math.isfinite(gap[at]):
                    text = f"against {rival} on {people} at {first.x[at]:g}"
                    found.append(Finding(float(gap[at]), float(np.nan_to_num(se[at])), text))
        return found


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
        for people in self.people or view.people:
            first, second = view.curve(people, self.one, self.measure), view.curve(people, self.other, self.measure)
            if first is None or second is None:
                continue
            gap, se = _ahead(first, second, False)
            places = [place for place in _within(first, self.between) if math.isfinite(gap[place])]
            limit = math.log(1 + self.within)
            if self.everywhere:
                found += [
                    Finding(limit - abs(float(gap[at])), float(np.nan_to_num(se[at])), f"{people} at {first.x[at]:g}")
                    for at in places
                ]
            elif places:
                off = abs(float(gap[places].mean()))
                found.append(Finding(limit - off, _together(np.nan_to_num(se[places])), f"average on {people}"))
        return min(found, key=lambda one: one.z) if found else NOTHING


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
        for people in self.people or view.people:
            for name in self.series:
                curve = view.curve(people, name, self.measure)
                if curve is None:
                    continue
                if self.against:
                    other = view.curve(people, self.against, self.measure)
                    if other is None:
                        continue
                    ratio, spread = _ahead(other, curve, False)
                    curve = replace(curve, value=np.exp(ratio), se=spread * np.exp(ratio), runs=None)
                slope, se = _slope(curve, _within(curve, self.between), self.linear)
                gap = (slope if self.rising else -slope) - self.by
                found.append(Finding(gap, se, f"slope of {name} on {people}: {slope:.3g}"))
        known = [one for one in found if math.isfinite(one.gap)]
        return min(known, key=lambda one: one.z) if known else NOTHING


@dataclass(frozen=True)
class Dips:
    """Both ends of the curve lie above its lowest point inside (``peaks``: below its highest). The worst counts."""

    series: tuple[str, ...]
    measure: str
    peaks: bool = False
    people: tuple[str, ...] = ()
    between: Span = None

    def judge(self, view: View) -> Finding:
        found = []
        for people in self.people or view.people:
            for name in self.series:
                curve = view.curve(people, name, self.measure)
                places = [] if curve is None else _finite(curve, _within(curve, self.between))
                if curve is None or len(places) < 3:
                    continue
                value, se = (-curve.value if self.peaks else curve.value), np.nan_to_num(curve.se)
                inside = min(places[1:-1], key=lambda at: float(value[at]))
                for end in (places[0], places[-1]):
                    spread = math.hypot(se[inside], se[end])
                    text = f"{name} on {people}: {curve.x[end]:g} against {curve.x[inside]:g}"
                    found.append(Finding(float(value[end] - value[inside]), spread, text))
        return min(found, key=lambda one: one.z) if found else NOTHING


@dataclass(frozen=True)
class Bounded:
    """Every one of the series is at most ``most`` and at least ``least``, at every place; the worst counts."""

    series: tuple[str, ...]
    measure: str
    most: float = math.inf
    least: float = -math.inf
    between: Span = None
    people: tuple[str, ...] = ()

    def judge(self, view: View) -> Finding:
        found = []
        for people in self.people or view.people:
            for name in self.series:
                curve = view.curve(people, name, self.measure)
                for at in () if curve is None else _finite(curve, _within(curve, self.between)):
                    assert curve is not None
                    value, se = float(curve.value[at]), float(np.nan_to_num(curve.se[at]))
                    text = f"{name} on {people} at {curve.x[at]:g}: {value:.3g}"
                    found.append(Finding(min(self.most - value, value - self.least), se, text))
        return min(found, key=lambda one: one.z) if found else NOTHING


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
        for people in self.people or view.people:
            for name in self.series:
                curve = view.curve(people, name, self.measure)
                places = [] if curve is None else _finite(curve, _within(curve, self.between))
                if curve is None or len(places) < 2:
                    continue
                most, least = (pick(places, key=lambda at: float(curve.value[at])) for pick in (max, min))
                gap, se = _apart(curve, least, curve, most)
                text = f"{name} on {people}: {curve.x[most]:g} against {curve.x[least]:g}"
                found.append(Finding(math.log(1 + self.within) - gap, se, text))
        return min(found, key=lambda one: one.z) if found else NOTHING


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
        gaps, errors = [], []
        for people in view.people if not self.low.people else (self.low.people,):
            one = view.curve(people, self.low.series, self.low.measure)
            other = view.curve(self.high.people or people, self.high.series, self.high.measure)
            for at in () if one is None or other is None else _finite(one, _within(one, self.between)):
                assert one is not None and other is not None
                gap, se = _apart(one, at, other, at)
                if math.isfinite(gap):
                    gaps.append(gap - math.log(self.by))
                    errors.append(se)
        if not gaps:
            return NOTHING
        return Finding(float(np.mean(gaps)), _together(errors), f"average over {_places(len(gaps))}")


@dataclass(frozen=True)
class Both:
    """All of several rules; the weakest of them speaks."""

    rules: tuple[Rule, ...]

    def judge(self, view: View) -> Finding:
        return min((rule.judge(view) for rule in self.rules), key=lambda one: one.z)


def both(*rules: Rule) -> Both:
    return Both(rules)


def falling(labels: Sequence[str], measure: str, **more: Any) -> Both:
    """Each series lies below the one before it."""
    return Both(tuple(Lower(low, (high,), measure, **more) for high, low in pairwise(labels)))


# -- numbers --------------------------------------------------------------------------------------------------------


def _ahead(first: Curve, second: Curve, linear: bool) -> tuple[Floats, Floats]:
    """By how much the first lies below the second, as differences or logarithms of ratios, with standard errors.

    Runs that both curves share, such as two decoders of one collection, are compared run by run.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        unit_1, unit_2 = (np.ones(len(curve.value)) if linear else curve.value for curve in (first, second))
        gap = second.value - first.value if linear else np.log(second.value) - np.log(first.value)
        if first.runs is not None and second.runs is not None and first.pairing == second.pairing and first.count > 1:
            apart = second.runs / unit_2 - first.runs / unit_1
            return gap, apart.std(axis=0, ddof=1) / math.sqrt(first.count)
        return gap, np.hypot(first.se / unit_1, second.se / unit_2)


def _apart(low: Curve, at: int, high: Curve, there: int) -> tuple[float, float]:
    """The logarithm of the ratio of two points, the second over the first, with its standard error."""
    one, other = float(low.value[at]), float(high.value[there])
    if not (one > 0 and other > 0):
        return math.nan, math.nan
    spread = math.hypot(float(np.nan_to_num(low.se[at])) / one, float(np.nan_to_num(high.se[there])) / other)
    return math.log(other / one), spread


def _slope(curve: Curve, places: Sequence[int], linear: bool) -> tuple[float, float]:
    at = _finite(curve, places) if linear else [place for place in _finite(curve, places) if curve.value[place] > 0]
    if len(at) < 2:
        return math.nan, math.nan
    x, value, se = curve.x[at], curve.value[at], np.nan_to_num(curve.se[at])
    along = np.log(x) if (x > 0).all() and not linear else x
    y, spread = (value, se) if linear else (np.log(value), se / value)
    weights = (along - along.mean()) / ((along - along.mean()) ** 2).sum()
    return float(weights @ y), float(np.sqrt((weights**2) @ (spread**2)))


def _places(count: int) -> str:
    return "1 place" if count == 1 else f"{count} places"


def _within(curve: Curve, span: Span) -> list[int]:
    low, high = span or (-math.inf, math.inf)
    return [place for place, x in enumerate(curve.x) if low <= x <= high]


def _finite(curve: Curve, places: Sequence[int]) -> list[int]:
    return [place for place in places if math.isfinite(curve.value[place])]


def _together(errors: Sequence[float] | Floats) -> float:
    """The standard error of the average of independent numbers."""
    return float(np.sqrt(np.sum(np.square(errors))) / len(errors))
