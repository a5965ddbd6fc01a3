"""A plan in words: why a mechanism stands where it stands."""

from __future__ import annotations

from keyveil.mechanisms.capabilities import Capped, Parted, can
from keyveil.planning.goals import Goal
from keyveil.planning.people import People
from keyveil.planning.predict import Prediction, root_mean_square

DENSE = 0.3  # share of all keys that people hold on average from which on most reports about one key find it held
HIDDEN = 0.5  # share of all pairs that a cap must hide to be named first
BIASED = 0.5  # share of the squared error that bias must have to be named first


def reason(one: Prediction, error: float, best: float, wanted: tuple[Goal, ...]) -> str:
    """Why a mechanism is as good or as bad as it is for the goals, in one sentence."""
    cause = "tried by simulation, several rounds" if one.sent is not None else _cause(one, wanted)
    return f"{_place(error, best)}: {cause}."


def nothing_learnt(goal: Goal, people: People, error: float) -> str:
    """What to do where the best mechanism errs by as much as a guess does."""
    assert goal.guessed is not None
    guess = f"{goal.guessed(people):.2g}"
    return (
        f"Nothing is learnt about single keys: who hears nobody and guesses errs by {guess}, the best mechanism by "
        f"{error:.2g}. A plan for --error {guess} says how many people or which epsilon that takes; or ask for "
        "fewer keys."
    )


def _place(error: float, best: float) -> str:
    if error <= best:
        return "least error"
    if not best:
        return "more error than none"
    ratio = error / best
    return f"{(ratio - 1):.0%} more error" if ratio < 2 else f"{ratio:.1f} times the error"


def _cause(one: Prediction, wanted: tuple[Goal, ...]) -> str:
    people, square = one.people, root_mean_square(one.frequency_error) ** 2
    if len(wanted) > 1 and can(one.mechanism, Parted) is not None:
        return "its groups each answer the question that they answer best"
    capped = can(one.mechanism, Capped)
    if capped is not None:
        hidden = 1 - float(people.kept(capped.cap()).share @ people.frequency) / people.pairs
        if hidden > HIDDEN or root_mean_square(one.frequency_bias) ** 2 > BIASED * square:
            return f"a cap of {capped.cap()} hides {hidden:.0%} of all pairs"
    dense = people.pairs > DENSE * people.d
    if one.heard <= 8.5 / people.d and one.heard < 0.5:
        about = "one key" if one.heard <= 1.5 / people.d else f"{round(one.heard * people.d)} keys"
        held = "most people hold most keys" if people.pairs > people.d / 2 else "people hold many of them"
        if dense:
            return f"a report is about {about} of {people.d:,}, and {held}"
        return f"a report is about {about} of {people.d:,}, of which people hold {people.pairs:.2g}"
    if one.tells_means and any(goal.tuned != "frequency" for goal in wanted) and people.typical < 0.6:
        told = f"values are {people.typical:.2g} of their range in size"
    else:
        told = f"people hold {people.pairs:.2g} of {people.d:,} keys"
    if capped is None:
        return f"all pairs of a person count, and {told}"
    counted = "one pair of a person counts" if capped.cap() == 1 else f"up to {capped.cap()} pairs of a person count"
    return f"{counted}, and {told}"
