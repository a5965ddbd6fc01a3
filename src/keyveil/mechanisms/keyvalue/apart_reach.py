"""What crafted reports can make of the means of ``apart``: sums of values, over what cutting left, over frequencies."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.mechanisms.keyvalue.apart_forecast import GUESSED, LEAST_KEPT, MOST_KEPT
from keyveil.mechanisms.reach import Interval, Reach, Reachable
from keyveil.mechanisms.rounds.value_projection import BEFORE, CONTROL


class ValueSums(NamedTuple):
    """What the value group says of every coordinate of vectors."""

    along: NDArray[np.float64]  # averages over its people
    most: float  # what one of them can add, up or down
    people: int
    each: float  # what a pair adds to the control if nothing is cut


def with_values(keys: Reachable, said: ValueSums) -> Reachable:
    """The limits with f·m from the value group, where people may leave and come as in the other group."""

    def reach(leave: int, come: int) -> Reach:
        who = keys(leave, come)
        shift = min(max(leave, come) / said.people, 1.0) * 2 * said.most if said.people else np.inf
        sums = Interval(np.maximum(said.along - shift, -said.most), np.minimum(said.along + shift, said.most))
        expected = said.each * who.total[0], said.each * who.total[1]
        least, most = kept_between((float(sums.low[CONTROL]), float(sums.high[CONTROL])), expected)
        product = Interval(sums.low[BEFORE:], sums.high[BEFORE:]).times(1 / most, 1 / least)
        made = replace(who, product=product, means=lambda: made.quotient())
        return made

    return reach


def kept_between(control: tuple[float, float], expected: tuple[float, float]) -> tuple[float, float]:
    """The limits of what cutting left of vectors, if a control and what is expected of it lie between these ends."""
    if expected[0] <= 0:
        return LEAST_KEPT, MOST_KEPT
    measured = [one / other for one in control for other in expected]
    shares = [GUESSED, *(min(max(one, LEAST_KEPT), MOST_KEPT) for one in measured)]
    return min(shares), max(shares)
