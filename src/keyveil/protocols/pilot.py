"""Pilot: a small disjoint group answers first, and what it says sets the parameters for everybody else.

Nobody answers twice, so both the pilot and the rest spend the whole ε: people are split, not the budget. The pilot
tells how many pairs people hold (the cap of the main round, or TopSel's law of set sizes) and, for fair errors, which
keys are rare (the weights of ``wsr``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from keyveil.core.errors import ProtocolError
from keyveil.core.estimates import Estimates
from keyveil.learn.sizes import SizeLaw
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.keyvalue.topsel import SPARSE
from keyveil.mechanisms.options import assignments
from keyveil.mechanisms.registry import create, find_mechanism
from keyveil.mechanisms.rounds.set_size import SizeQuestion
from keyveil.protocols.base import Finished, History, Part, Protocol, Round, in_parts
from keyveil.protocols.merged import merged
from keyveil.protocols.weights import rare_first

MOST_SIZES = 32  # pairs that the survey counts, unless told otherwise


@dataclass(frozen=True)
class Pilot(Protocol):
    """``share`` of the people tell the sizes of their sets (and which keys are rare); the rest answer ``then``.

    A share of 1/20 suits large collections, 1/10 those with few people. The cap is the ``quantile`` of set sizes,
    unless ``max_pairs`` is known. With ``theta`` above zero ``wsr`` gets weights ∝ f^(-2·theta). ``options`` go to
    ``then``: a mapping, or text such as "bins=4; goal=mean".
    """

    then: str = "ssr"
    share: Fraction = Fraction(1, 20)
    quantile: Fraction = Fraction(9, 10)
    max_pairs: int | None = None
    most: int | None = None
    theta: Fraction = Fraction(0)
    options: Mapping[str, Any] | str = field(default_factory=dict)

    name: ClassVar[str] = "pilot"
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"then": "kv-sw"})
    finds_out: ClassVar[frozenset[str]] = frozenset({"max_pairs"})

    def validate(self) -> None:
        object.__setattr__(self, "options", assignments(self.options))
        if not 0 < self.share < 1 or not 0 < self.quantile <= 1:
            raise _refused("pilot takes a share of the people and a quantile between 0 and 1.")
        if self.most is None:
            object.__setattr__(self, "most", min(self.schema.d, MOST_SIZES))
        if not 1 <= (self.most or 0) <= self.schema.d:
            raise _refused(f"pilot counts sets of up to 1 to {self.schema.d} pairs, not {self.most}.")
        if self.theta < 0 or (self.theta and self.then != "wsr"):
            raise _refused("Only wsr has weights for rare keys, with theta of at least 0.")
        if not self.questions:
            raise _refused(f"There is nothing to ask a pilot group for {self.then}.")
        self.main_round(self.max_pairs or 1, SizeLaw((0.0, 1.0)), (1,) * self.schema.d)

    @property
    def questions(self) -> tuple[str, ...]:
        """What the pilot is asked, each by a group of its own."""
        known = {option.name for option in fields(find_mechanism(self.then))}
        unknown_sizes = ("max_pairs" in known and self.max_pairs is None) or self.then == "topsel"
        asked = {"sizes": unknown_sizes, "frequencies": self.theta > 0}
        return tuple(question for question, needed in asked.items() if needed)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The groups of the pilot, and the rest."""
        each = self.share / len(self.questions)
        return in_parts(*[each] * len(self.questions), 1 - self.share)

    def plan(self, finished: History) -> Round | None:
        number = len(finished)
        if number > len(self.questions):
            return None
        if number == len(self.questions):
            mechanism = self.main_round(self.cap(finished), self.law(finished), self.weights(finished))
        elif self.questions[number] == "sizes":
            mechanism = SizeQuestion(self.schema, self.epsilon, self.most or 1)
        else:
            mechanism = create("ssr", self.schema, self.epsilon, max_pairs=self.cap(finished))
        return Round(number + 1, mechanism, self.parts[number])

    def longest(self) -> list[Round]:
        """As if everybody held as many pairs as may count, and all keys were equally rare."""
        cap, d = self.max_pairs or self.most or 1, self.schema.d
        asked: list[Mechanism] = [
            SizeQuestion(self.schema, self.epsilon, self.most or 1)
            if question == "sizes"
            else create("ssr", self.schema, self.epsilon, max_pairs=cap)
            for question in self.questions
        ]
        asked.append(self.main_round(cap, SizeLaw((0.0,) * cap + (1.0,)), (1,) * d))
        return [
            Round(at + 1, mechanism, part) for at, (mechanism, part) in enumerate(zip(asked, self.parts, strict=True))
        ]

    def main_round(self, cap: int, law: SizeLaw | None, weights: tuple[int, ...] | None) -> Mechanism:
        """What the rest of the people are asked, given what the pilot said."""
        learnt: dict[str, Any] = {}
        if self.then == "topsel":
            assert law is not None
            dense = law.mean > SPARSE * self.schema.d
            learnt = {"set_sizes": _spelled(law), "padding": cap if dense else 0}
        elif "max_pairs" in {option.name for option in fields(find_mechanism(self.then))}:
            learnt["max_pairs"] = cap
        if self.theta:
            learnt["weights"] = weights
        return create(self.then, self.schema, self.epsilon, **{**learnt, **assignments(self.options)})

    # -- what the pilot said ------------------------------------------------------------------------------------

    def law(self, finished: History) -> SizeLaw | None:
        """The law of set sizes, if it was asked for."""
        asked = self._answer(finished, "sizes")
        if asked is None:
            return None
        assert isinstance(asked.round.mechanism, SizeQuestion)
        return asked.round.mechanism.law(asked.tally)

    def cap(self, finished: History) -> int:
        """The most pairs that count in the main round."""
        law = self.law(finished)
        return self.max_pairs or (law.quantile(float(self.quantile)) if law else 1)

    def weights(self, finished: History) -> tuple[int, ...] | None:
        """Weights that favour rare keys, if there are to be any."""
        asked = self._answer(finished, "frequencies")
        return None if asked is None else rare_first(asked.estimates(), 2 * float(self.theta))

    def _answer(self, finished: History, question: str) -> Finished | None:
        at = self.questions.index(question) if question in self.questions else len(finished)
        return finished[at].heard() if at < len(finished) else None

    def estimate(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        return merged(finished, self, confidence, population)


def _spelled(law: SizeLaw) -> str:
    """A law of sizes as an option of TopSel, to four decimals; somebody must hold something."""
    shares = np.round(law.shares, 4)
    if not shares[1:].any():
        return "1"
    return ",".join(f"{size}:{shares[size]:g}" for size in np.flatnonzero(shares))


def _refused(sentence: str) -> ProtocolError:
    return ProtocolError("protocol/option", sentence)
