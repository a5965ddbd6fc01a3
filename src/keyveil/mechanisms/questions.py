"""What can be asked of reports, as data: one row a question, and the capabilities that answer it.

Light enough for devices: they say what a collection will be able to answer before anything is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import Cells, JointStatistics, Windows, can, keys_together


@dataclass(frozen=True)
class Askable:
    """A kind of question in words, and whether the reports of a mechanism can answer it."""

    meaning: str
    answered: Callable[[Mechanism], bool]


def _gives(*quantities: str) -> Callable[[Mechanism], bool]:
    return lambda mechanism: mechanism.estimated.issuperset(quantities)


def _several(*quantities: str) -> Callable[[Mechanism], bool]:
    """Questions about several keys at once need to know how their estimates depend on each other."""
    return lambda mechanism: mechanism.estimated.issuperset(quantities) and keys_together(mechanism)


ASKABLE = {
    "frequency": Askable("how many people have each key", _gives("frequency")),
    "mean": Askable("the mean value of each key", _gives("mean")),
    "top": Askable("which keys are most frequent, and how sure their ranks are", _gives("frequency")),
    "subset": Askable("how many of some keys a person has on average", _several("frequency")),
    "compare": Askable("whether one key is more frequent than another", _several("frequency")),
    "compare-means": Askable(
        "whether the mean of one key is higher than that of another", _several("frequency", "mean")
    ),
    "quantiles": Askable("how the values of a key are distributed", lambda one: has_any(one, Cells, Windows)),
    "conditional": Askable(
        "of the people who have one key, how many have another", lambda one: has_any(one, JointStatistics)
    ),
}


def has_any(mechanism: Mechanism, *capabilities: type) -> bool:
    """Whether a mechanism has one of these capabilities."""
    return any(can(mechanism, one) is not None for one in capabilities)


def answerable(mechanism: Mechanism) -> tuple[str, ...]:
    """The kinds of questions that the reports of a mechanism answer."""
    return tuple(kind for kind, row in ASKABLE.items() if row.answered(mechanism))


def who_is_asked(rounds: Sequence[Mechanism], kind: str) -> int:
    """The number, from 1, of the round that a question is put to: the last that can answer it, or the last of all."""
    able = [number for number, one in enumerate(rounds, start=1) if ASKABLE[kind].answered(one)]
    return able[-1] if able else len(rounds)


def who_answers(kind: str) -> tuple[str, ...]:
    """The names of mechanisms for devices whose reports answer a kind of question, with the options that bring it."""
    from keyveil.mechanisms.registry import forms  # loads every mechanism, which devices must not

    suitable = ((label, mechanism) for label, mechanism in forms() if mechanism.takes == "every set")
    return tuple(label for label, mechanism in suitable if ASKABLE[kind].answered(mechanism))
