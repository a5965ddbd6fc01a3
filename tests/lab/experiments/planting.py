"""Results in which a claim is right: the curves are changed until its rule holds, whatever the rule is."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from keyveil.lab.experiments.results import Curve, View
from keyveil.lab.experiments.rules import Alike, Both, Bounded, Dips, Flat, Less, Lower, Rule, Trend, Unbiased

Floats = NDArray[np.float64]
SLACK = 0.2  # by how much a rule is made to hold, in logarithms
PASSES = 60  # until rules that pull at the same curve agree


def made_right(rule: Rule, view: View) -> bool:
    """Change the values in place until the rule holds; False if that is not found."""
    for _ in range(PASSES):
        if rule.judge(view).holds:
            return True
        _mend(rule, view)
    return rule.judge(view).holds


def _mend(rule: Rule, view: View) -> None:
    match rule:
        case Both():
            for one in rule.rules:
                if not one.judge(view).holds:
                    _mend(one, view)
        case Lower():
            for people in rule.people or view.people:
                for rival in rule.than:
                    low, high = (view.curve(people, name, rule.measure) for name in (rule.one, rival))
                    _apart(*((high, low) if rule.higher else (low, high)), math.log(rule.by), rule.between)
        case Less():
            for people in [rule.low.people] if rule.low.people else view.people:
                low = view.curve(people, rule.low.series, rule.low.measure)
                high = view.curve(rule.high.people or people, rule.high.series, rule.high.measure)
                _apart(low, high, math.log(rule.by), rule.between)
        case Alike():
            for people in rule.people or view.people:
                first, second = (view.curve(people, name, rule.measure) for name in (rule.one, rule.other))
                if first is not None and second is not None:
                    at = _within(first, rule.between)
                    first.value[at] = second.value[at] = np.sqrt(np.abs(first.value[at] * second.value[at]))
        case Trend() | Dips() | Bounded() | Flat() | Unbiased():
            for curve, other in _curves(rule, view):
                _shaped(rule, curve, other)
        case _:
            raise TypeError(f"Nothing is known of {type(rule).__name__}.")


def _curves(rule: Trend | Dips | Bounded | Flat | Unbiased, view: View) -> Iterator[tuple[Curve, Curve | None]]:
    for people in rule.people or view.people:
        for name in rule.series:
            curve = view.curve(people, name, rule.measure)
            if curve is not None:
                yield curve, view.curve(people, getattr(rule, "against", ""), rule.measure)


def _shaped(rule: Trend | Dips | Bounded | Flat | Unbiased, curve: Curve, other: Curve | None) -> None:
    at = _within(curve, rule.between)
    if not at:
        return
    x, value = curve.x[at], curve.value[at]
    if isinstance(rule, Trend):
        along = np.log(x) if (x > 0).all() and not rule.linear else x
        along = along - along.mean()
        steep = max(rule.by, 0) + SLACK if rule.by >= 0 else 0.0
        steep = steep if rule.rising else -steep
        if rule.linear:
            curve.value[at] = steep * along
            return
        level = np.log(np.abs(value)) - (0 if other is None else np.log(np.abs(other.value[at])))
        tilt = np.exp((steep - float(along @ level / (along @ along))) * along)
        curve.value[at] = np.abs(value) * (tilt if other is None else np.sqrt(tilt))
        if other is not None:
            other.value[at] /= np.sqrt(tilt)
    elif isinstance(rule, Dips):
        middle = float(np.abs(value).mean())
        curve.value[at] = middle
        curve.value[[at[0], at[-1]]] = middle * math.exp(-SLACK if rule.peaks else SLACK)
    elif isinstance(rule, Bounded):
        low = rule.least if math.isfinite(rule.least) else rule.most - max(abs(rule.most), 0.1)
        high = rule.most if math.isfinite(rule.most) else rule.least + max(abs(rule.least), 0.1)
        outside = (value < low + (high - low) / 8) | (value > high - (high - low) / 8)
        curve.value[at] = np.where(outside, (low + high) / 2, value)
    elif isinstance(rule, Flat):
        curve.value[at] = np.exp(np.log(np.abs(value)).mean())
    else:
        curve.value[at] = 0


def _apart(low: Curve | None, high: Curve | None, least: float, span: tuple[float, float] | None) -> None:
    """Move two curves apart, half each, where they are not far enough from each other."""
    if low is None or high is None:
        return
    for at in _within(low, span):
        short = least + SLACK - math.log(abs(high.value[at] / low.value[at]))
        if short > 0:
            low.value[at] *= math.exp(-short / 2)
            high.value[at] *= math.exp(short / 2)


def _within(curve: Curve, span: tuple[float, float] | None) -> list[int]:
    low, high = span or (-math.inf, math.inf)
    return [place for place, x in enumerate(curve.x) if low <= x <= high]
