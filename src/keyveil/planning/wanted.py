"""Accuracy first: what must be seen is given, and solved for the number of people and for epsilon.

A wish is a limit on an error, on the smallest frequency that is told from absence, or on the smallest change between
two collections that is seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from keyveil.core.errors import PlanError
from keyveil.planning.people import MOST_PEOPLE
from keyveil.planning.plan import Plan
from keyveil.planning.predict import SEEN, Prediction

LEAST_EPSILON, MOST_EPSILON = Fraction(1, 20), Fraction(8)  # between which an epsilon is looked for
STEPS = 8  # of bisection: epsilon to 2 %
ROUNDS = 6  # of the search for people, of which each is right up to changes of the best form
CLOSE = 1.005
TIMES = (0.1, 0.3, 1.0, 3.0, 10.0)  # people of a curve, around those that meet a wish
EPSILONS = tuple(Fraction(*one) for one in ((1, 4), (1, 2), (1, 1), (2, 1), (4, 1), (8, 1)))

WISHES = {
    "error": "a root mean squared error",
    "smallest": "the smallest frequency told from absence",
    "change": "the smallest change that is seen",
}

SERVING = {"smallest": "rare", "change": "change"}
"""The goal of a plan that has a wish and no goal."""

Again = Callable[..., Plan]
"""``again(n=…, epsilon=…)`` plans the same for other people or another epsilon."""


@dataclass(frozen=True)
class Wish:
    """``kind`` is a key of ``WISHES``, ``value`` its limit; ``at`` the frequency of the key that is to change."""

    kind: str
    value: float
    at: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.value < 1:
            raise PlanError(
                "plan/wish", f"{WISHES[self.kind].capitalize()} lies between 0 and 1, not at {self.value:g}."
            )
        if self.at is not None and not 0 <= self.at <= 1:
            raise PlanError("plan/wish", f"The share of the people who hold a key lies in [0, 1], not at {self.at:g}.")

    @property
    def words(self) -> str:
        where = "" if self.at is None else f" in a key that {self.at:.3g} of the people hold"
        return f"{WISHES[self.kind]} of {self.value:g}{where}"

    def reached(self, found: Plan) -> float:
        """What the best line of a plan reaches; within the wish if it is at most ``value``."""
        return float(min(self._of(line.prediction, line.error) for line in found.lines[:1]))

    def _of(self, one: Prediction, error: float) -> float:
        if self.kind == "error":
            return error
        if self.kind == "smallest":
            return SEEN * one.absent_se
        if self.at is None:
            return SEEN * math.sqrt(2) * float(np.median(one.changing_se))
        rising = one.people.by_frequency[::-1]  # between two keys the variance is nearly linear in the frequency
        variance = np.interp(self.at, one.people.frequency[rising], one.changing_se[rising] ** 2)
        return SEEN * math.sqrt(2 * float(variance))


@dataclass(frozen=True)
class WishCurve:
    """What is reached over people or epsilon (``axis``), the rest as planned; ``solved`` is where the wish is met."""

    axis: str
    places: tuple[float, ...]
    reached: tuple[float, ...]
    solved: float | None

    def document(self) -> dict[str, Any]:
        return {"axis": self.axis, "places": self.places, "reached": self.reached, "solved": self.solved}


@dataclass(frozen=True)
class Solved:
    """A wish, what the plan as given reaches, and the people and the epsilon at which it would be met.

    Either is ``None`` if nothing within reach meets the wish; then ``least_people`` or ``least_epsilon`` says the best
    that is possible with as many people, or as large an epsilon, as there can be.
    """

    wish: Wish
    reached: float
    people: int | None
    epsilon: Fraction | None
    most_people_reach: float | None = None
    most_epsilon_reach: float | None = None
    curves: tuple[WishCurve, ...] = ()

    @property
    def met(self) -> bool:
        return self.reached <= self.wish.value * CLOSE

    def document(self) -> dict[str, Any]:
        return {
            "wish": self.wish.kind,
            "value": self.wish.value,
            "at": self.wish.at,
            "met": self.met,
            "reached": self.reached,
            "people": self.people,
            "epsilon": None if self.epsilon is None else float(self.epsilon),
            "curves": [one.document() for one in self.curves],
        }

    def sentences(self, n: int, epsilon: Fraction) -> list[str]:
        """The answer in words: as it is planned, with other people, with another epsilon."""
        now = "is met" if self.met else "is not met"
        reached = "nothing less than 1 is seen" if self.reached >= 1 else f"{self.reached:.3g}"
        told = [f"The wish for {self.wish.words} {now} by {n:,} people at epsilon {float(epsilon):g}: {reached}."]
        if self.people is not None:
            told.append(f"At epsilon {float(epsilon):g} it takes {self.people:,} people.")
        elif self.most_people_reach is not None:
            told.append(
                f"At epsilon {float(epsilon):g} no number of people is enough; "
                f"{self.most_people_reach:.3g} is possible."
            )
        if self.epsilon is not None:
            told.append(f"With {n:,} people it takes an epsilon of {float(self.epsilon):g}.")
        elif self.most_epsilon_reach is not None:
            told.append(
                f"With {n:,} people no epsilon up to {float(MOST_EPSILON):g} is enough; at {float(MOST_EPSILON):g} "
                f"{self.most_epsilon_reach:.3g} is possible."
            )
        return told


def solve(wish: Wish, found: Plan, again: Again) -> Solved:
    """People at the plan's epsilon, and epsilon at the plan's people, that meet a wish."""
    people, limit = _people(wish, found, again)
    epsilon, least = _epsilon(wish, found, again)
    return Solved(
        wish, wish.reached(found), people, epsilon, limit, least, _curves(wish, found, again, people, epsilon)
    )


def _curves(
    wish: Wish, found: Plan, again: Again, people: int | None, epsilon: Fraction | None
) -> tuple[WishCurve, WishCurve]:
    """What is reached with more or fewer people, and with other epsilons; the solution is one of the places."""
    names = [line.name for line in found.lines[:3]]
    middle = people or found.people.n
    crowds = sorted({min(max(round(middle * times), 1), MOST_PEOPLE) for times in TIMES})
    spent = sorted({*EPSILONS, *([] if epsilon is None else [epsilon])})
    by_people = tuple(wish.reached(again(n=n, mechanisms=names)) for n in crowds)
    by_epsilon = tuple(wish.reached(again(epsilon=one, mechanisms=names)) for one in spent)
    return (
        WishCurve("people", tuple(crowds), by_people, people),
        WishCurve("epsilon", tuple(map(float, spent)), by_epsilon, None if epsilon is None else float(epsilon)),
    )


def _people(wish: Wish, found: Plan, again: Again) -> tuple[int | None, float | None]:
    """The least number of people, to two digits; or what a great many reach."""
    n, reached = found.people.n, wish.reached(found)
    names = [line.name for line in found.lines[:3]]
    for _ in range(ROUNDS):
        n = min(max(math.ceil(n * (reached / wish.value) ** 2), 1), MOST_PEOPLE)
        reached = wish.reached(again(n=n, mechanisms=names))
        if n == MOST_PEOPLE or abs(reached / wish.value - 1) < CLOSE - 1:
            break
    if n == MOST_PEOPLE and reached > wish.value * CLOSE:
        return None, reached
    whole = _two_digits(n)
    while wish.reached(again(n=whole, mechanisms=names)) > wish.value * CLOSE:
        whole = _two_digits(whole + math.ceil(whole / 50))
        if whole > MOST_PEOPLE:
            return None, reached
    return whole, None


def _epsilon(wish: Wish, found: Plan, again: Again) -> tuple[Fraction | None, float | None]:
    """The least epsilon of two decimals; or what the largest reaches."""
    low, high = LEAST_EPSILON, MOST_EPSILON
    most = wish.reached(again(epsilon=high))
    if most > wish.value * CLOSE:
        return None, most
    if wish.reached(again(epsilon=low)) <= wish.value * CLOSE:
        return low, None
    for _ in range(STEPS):
        middle = Fraction(round(100 * math.sqrt(low * high)), 100)
        if wish.reached(again(epsilon=middle)) <= wish.value * CLOSE:
            high = middle
        else:
            low = middle
    return high, None


def _two_digits(n: int) -> int:
    """The next whole number that has two digits and zeros."""
    unit = int(10 ** max(len(str(n)) - 2, 0))
    return -(-n // unit) * unit
