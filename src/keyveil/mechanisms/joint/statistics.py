"""Questions about several keys at once, and what is needed to answer them with an error.

A question is put to rows of keys that all take the same places in it: place 0 of every row, place 1, and so on. It
asks for the share of people who hold or lack the keys at some places, or for the sum of one key's values over those
people (per person asked). Every conditional frequency and mean is a ratio of two such numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from keyveil.core.tally import Tally
from keyveil.mechanisms.joint.ranks import Ints
from keyveil.mechanisms.responses import Solution, Spread

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Statistic:
    """Who holds (or lacks) the keys at these places; with ``value``, the sum of that place's values among them."""

    held: tuple[tuple[int, bool], ...]
    value: int | None = None

    @property
    def condition(self) -> dict[int, bool]:
        """What the people in question hold and lack, the valued key included."""
        return dict(self.held) if self.value is None else {**dict(self.held), self.value: True}

    @property
    def places(self) -> tuple[int, ...]:
        return tuple(sorted(self.condition))

    @property
    def people(self) -> Statistic:
        """The share of people that this question is about."""
        return share(self.condition)


def share(condition: Mapping[int, bool]) -> Statistic:
    """How many people fulfil a condition."""
    return Statistic(tuple(sorted(condition.items())))


def total(place: int, condition: Mapping[int, bool]) -> Statistic:
    """The sum of a key's values over its holders who fulfil a condition, per person."""
    return Statistic(tuple(sorted((at, held) for at, held in condition.items() if at != place)), place)


def both(one: Statistic, other: Statistic) -> Statistic | None:
    """What the product of two answers of one person asks for; None if nobody fulfils both. Signs square to one."""
    condition = one.condition
    for place, held in other.condition.items():
        if condition.setdefault(place, held) != held:
            return None
    valued = [question.value for question in (one, other) if question.value is not None]
    return total(valued[0], condition) if len(valued) == 1 else share(condition)


@dataclass(frozen=True, eq=False)
class JointAnswers:
    """Unbiased answers to some questions for many rows of keys, and their errors."""

    values: Floats  # [rows, questions]
    covariance: Floats  # [rows, questions, questions]
    respondents: Ints  # [rows], reports about the question that is least asked


@runtime_checkable
class Joint(Protocol):
    """A mechanism whose reports tell how keys depend on each other."""

    def answer_jointly(
        self, tally: Tally, keys: Ints, questions: Sequence[Statistic], population: bool = False
    ) -> JointAnswers:
        """Answer questions about rows of keys [rows, places]."""


def products(questions: Sequence[Statistic], values: Floats) -> Floats:
    """E[t_i · t_j] over people [rows, i, j], where t is a person's own answer with values rounded to signs."""
    likely = np.clip(np.nan_to_num(values), [0.0 if one.value is None else -1.0 for one in questions], 1.0)
    known = {question: likely[:, at] for at, question in enumerate(questions)}
    nobody = np.zeros(len(values))
    rows = [[nobody if (joint := both(a, b)) is None else known[joint] for b in questions] for a in questions]
    return np.moveaxis(np.array(rows), -1, 0)


def of_these_people(questions: Sequence[Statistic], values: Floats, covariance: Floats, n: int) -> Floats:
    """The covariance of answers about the n people who reported, from that about the population they come from.

    Sampling people adds the covariance of their own answers, over n; for people held fixed it is taken off again.
    Values are taken as constant among the people of a question: their spread could only take more off.
    """
    second = products(questions, values)
    likely = np.clip(np.nan_to_num(values), [0.0 if one.value is None else -1.0 for one in questions], 1.0)
    for at, question in enumerate(questions):
        if question.value is not None:
            people = second[:, at, at]
            squares = np.divide(likely[:, at] ** 2, people, out=np.zeros_like(people), where=people > 0)
            second[:, at, at] = np.minimum(squares, people)
    between = second - likely[:, :, None] * likely[:, None, :]
    fixed: Floats = covariance - between / max(n, 1)
    places = np.arange(len(questions))
    fixed[:, places, places] = np.maximum(fixed[:, places, places], 0.0)
    return fixed


def solution(answers: JointAnswers) -> Solution:
    """Frequencies and products f·m of every row from the answers to the two questions; unknown if either is."""
    known = np.where(answers.respondents[:, None] > 0, answers.values, np.nan)
    if known.shape[1] == 1:
        nothing = np.full(len(known), np.nan)
        return Solution(known[:, 0], nothing, Spread(answers.covariance[:, 0, 0], nothing, nothing))
    cov = answers.covariance
    return Solution(known[:, 0], known[:, 1], Spread(cov[:, 0, 0], cov[:, 1, 1], cov[:, 0, 1]))
