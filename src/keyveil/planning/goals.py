"""What a collection is for, as data: what its reports must be able to tell, and which error counts.

goals("both")                     one goal
goals("frequency,distribution")   several: a mechanism that serves all of them, or a split of the people
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from keyveil.core.errors import PlanError
from keyveil.core.hints import did_you_mean
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.questions import ASKABLE
from keyveil.planning.people import People, Places
from keyveil.planning.predict import Prediction, root_mean_square
from keyveil.planning.shrunk import shrunk

TOP = 20  # keys that "the most frequent" means, unless a number is given
ORDER = 2  # keys that a conditional is about, unless a number is given
MOST_ORDER = 5


@dataclass(frozen=True)
class Goal:
    """``needs`` are kinds of questions (``mechanisms.questions``) that reports must answer; ``error`` is what counts.

    Where ``error`` is ``None`` there is no closed form, and the error comes from a simulation. ``size`` is the number
    of keys that the goal is about, where it has one; ``tuned`` is what mechanisms call it that are tuned for a goal.
    """

    name: str
    meaning: str
    needs: tuple[str, ...]
    error: Callable[[Prediction], float] | None
    tuned: str = "both"
    size: int = 0
    guessed: Callable[[People], float] | None = None  # the same error of the best guess that hears nobody
    shrunk: bool = False  # whether errors count after empirical Bayes

    def served(self, mechanism: Mechanism) -> bool:
        """Whether the reports of a mechanism can tell what is wanted."""
        return all(ASKABLE[kind].answered(mechanism) for kind in self.needs)


def goals(given: object) -> tuple[Goal, ...]:
    """The goals in a text with commas, or in several texts; each once."""
    text = ",".join(map(str, given)) if isinstance(given, Sequence) and not isinstance(given, str) else str(given)
    found = {goal.name: goal for goal in (_read(part.strip()) for part in text.split(",") if part.strip())}
    if not found:
        raise PlanError("plan/goal", f"A plan has a goal: {', '.join(NAMES)}.")
    return tuple(found.values())


def _read(text: str) -> Goal:
    name, colon, number = text.partition(":")
    if name not in NAMES:
        raise PlanError("plan/goal", f"There is no goal {text!r}{did_you_mean(name, NAMES)}; there are {_LISTED}.")
    if not colon:
        return NAMES[name](None)
    written = number.isascii() and number.isdigit() and len(number) < 10
    if name not in SIZED or not (written and 1 <= int(number) <= SIZED[name]):
        raise PlanError("plan/goal", f"A goal with a number looks like top:10, mean:20 or conditional:3, not {text!r}.")
    return NAMES[name](int(number))


def _frequencies(one: Prediction) -> float:
    return root_mean_square(one.frequency_error)


def _guessed_frequencies(people: People, count: int | None = None) -> float:
    """The error of guessing that every key is held by nobody, or by the average share."""
    f = people.frequency[people.by_frequency[:count]]
    return min(root_mean_square(f), root_mean_square(f - float(people.frequency.mean())))


def _guessed_means(people: People, count: int | None = None) -> float:
    """The error of guessing that every mean is 0, or the mean of all values."""
    places = people.by_frequency[:count]
    m = people.mean[places[people.frequency[places] > 0]]
    average = float(people.frequency @ people.mean) / max(people.pairs, 1e-12)
    return min(root_mean_square(m), root_mean_square(m - average)) if len(m) else math.inf


def _means(one: Prediction, count: int | None = None) -> float:
    """Of all keys that somebody holds, or of the most frequent ones."""
    known = one.shown_mean_errors(one.people.typical_keys if count is None else _most_frequent(one, count))
    return root_mean_square(known) if len(known) else math.inf


def _most_frequent(one: Prediction, count: int) -> Places:
    return one.people.by_frequency[:count]


def _both(one: Prediction) -> float:
    return math.sqrt(_frequencies(one) * _means(one))


def _fairness(one: Prediction) -> float:
    """The fourth root of the mean fourth power: the error of means over the fourth root of Jain's fairness of it."""
    known = one.shown_mean_errors(one.people.typical_keys)
    return float(np.mean(known**4) ** 0.25) if len(known) else math.inf


def processed(wanted: tuple[Goal, ...], method: str) -> tuple[Goal, ...]:
    """The same goals, where the errors that count are those after a method of ``learn.postprocess``."""
    if method not in FORESEEN:
        raise PlanError(
            "plan/postprocess", f"Errors are foreseen after {' and '.join(FORESEEN)}, not after {method!r}."
        )
    for goal in wanted:
        if goal.name not in _SHRUNK:
            raise PlanError(
                "plan/postprocess",
                f"After {method} the goals {', '.join(_SHRUNK)} can be planned for; {goal.name} is about estimates as "
                "they are.",
            )
    return tuple(replace(goal, error=_SHRUNK[goal.name](goal.size), shrunk=True) for goal in wanted)


def _shrunk_frequencies(size: int) -> Callable[[Prediction], float]:
    """Of all keys, or of so many of the most frequent ones."""
    return lambda one: root_mean_square(shrunk(one).frequency[one.people.by_frequency[: size or None]])


def _shrunk_means(size: int) -> Callable[[Prediction], float]:
    def error(one: Prediction) -> float:
        found = shrunk(one).means(_most_frequent(one, size) if size else one.people.typical_keys)
        return root_mean_square(found) if len(found) else math.inf

    return error


def _shrunk_both(size: int) -> Callable[[Prediction], float]:
    frequencies, means = _shrunk_frequencies(size), _shrunk_means(size)
    return lambda one: math.sqrt(frequencies(one) * means(one))


FORESEEN = ("bayes",)
_SHRUNK = {
    "frequency": _shrunk_frequencies,
    "mean": _shrunk_means,
    "both": _shrunk_both,
    "top": _shrunk_frequencies,
}
"""By goals that are squared errors: the same errors after shrinkage."""


def _top(size: int | None) -> Goal:
    count = size or TOP
    meaning = f"which {count} keys are most frequent, and how many people have them"

    def error(one: Prediction) -> float:
        return root_mean_square(one.frequency_error[_most_frequent(one, count)])

    return Goal("top", meaning, ("top",), error, "frequency", count, lambda people: _guessed_frequencies(people, count))


def _mean(size: int | None) -> Goal:
    meaning = "the mean value of each key" if size is None else f"the mean values of the {size} most frequent keys"
    return Goal(
        "mean",
        meaning,
        ("mean",),
        lambda one: _means(one, size),
        "mean",
        size or 0,
        lambda people: _guessed_means(people, size),
    )


def _conditional(size: int | None) -> Goal:
    order = size or ORDER
    meaning = f"how {order} keys depend on each other"
    return Goal("conditional", meaning, ("conditional",), None, size=order)


def _fixed(
    name: str,
    meaning: str,
    needs: tuple[str, ...],
    error: Callable[[Prediction], float] | None,
    tuned: str = "both",
    guessed: Callable[[People], float] | None = None,
) -> Callable[[int | None], Goal]:
    return lambda _: Goal(name, meaning, needs, error, tuned, guessed=guessed)


NAMES: dict[str, Callable[[int | None], Goal]] = {
    "frequency": _fixed(
        "frequency", "how many people have each key", ("frequency",), _frequencies, "frequency", _guessed_frequencies
    ),
    "mean": _mean,
    "both": _fixed("both", "how many people have each key, and its mean", ("frequency", "mean"), _both),
    "top": _top,
    "rare": _fixed(
        "rare", "which rare keys anybody has at all", ("frequency",), lambda one: one.absent_se, "frequency"
    ),
    "distribution": _fixed("distribution", "how the values of a key are distributed", ("quantiles",), None),
    "conditional": _conditional,
    "fairness": _fixed("fairness", "the mean of every key, rare ones too", ("frequency", "mean"), _fairness, "mean"),
    "change": _fixed(
        "change",
        "how frequencies change from one collection to the next",
        ("frequency",),
        lambda one: root_mean_square(one.changing_se),
        "frequency",
    ),
}
"""Every goal by name; the number is that of a sized goal, or ``None``."""

SIZED = {"top": 10_000, "mean": 10_000, "conditional": MOST_ORDER}
_LISTED = ", ".join(NAMES)
