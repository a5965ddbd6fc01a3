"""Pilot: a small disjoint group answers first, and its answers set options of the round for everybody else.

Nobody answers twice, so both the pilot and the rest spend the whole ε: people are split, not the budget. The pilot
tells how many pairs people hold (for the cap of the main round, or a law of set sizes) and, for fair errors, which keys
are rare (for the weights of ``wsr``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, ClassVar

from keyveil.core.errors import ProtocolError
from keyveil.core.estimates import Estimates
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import Capped, LearnsSizes, can
from keyveil.mechanisms.options import assignments
from keyveil.mechanisms.registry import create, find_mechanism
from keyveil.mechanisms.rounds.reading import TellsSizes
from keyveil.mechanisms.rounds.set_size import SizeQuestion
from keyveil.mechanisms.size_law import SizeLaw
from keyveil.protocols.base import Finished, History, Part, Protocol, Round, in_parts
from keyveil.protocols.declarations import announced_options
from keyveil.protocols.merged import judged_by, merged
from keyveil.protocols.weights import rare_first

MOST_SIZES = 32  # pairs that the pilot counts, unless told otherwise


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
        if self.theta < 0 or (self.theta and "weights" not in self.main_options):
            raise _refused("theta is at least 0, and needs a mechanism with weights for rare keys, such as wsr.")
        if not self.questions:
            raise _refused(f"There is nothing that a pilot group could find out for {self.then}.")
        self.main_round(self.max_pairs or 1, SizeLaw.read(1), (1,) * self.schema.d)

    @property
    def main_kind(self) -> type[Mechanism]:
        """The class of the main round's mechanism."""
        return find_mechanism(self.then).class_for(assignments(self.options))

    @property
    def main_options(self) -> frozenset[str]:
        """The names of the options of the main round's mechanism."""
        return frozenset(option.name for option in fields(self.main_kind))

    @property
    def questions(self) -> tuple[str, ...]:
        """What the pilot finds out, in this order, each from a group of its own: sizes, frequencies."""
        unknown_cap = "max_pairs" in self.main_options and self.max_pairs is None
        needed = {"sizes": unknown_cap or issubclass(self.main_kind, LearnsSizes), "frequencies": self.theta > 0}
        return tuple(question for question in needed if needed[question])

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
        mechanisms: list[Mechanism] = [
            SizeQuestion(self.schema, self.epsilon, self.most or 1)
            if question == "sizes"
            else create("ssr", self.schema, self.epsilon, max_pairs=cap)
            for question in self.questions
        ]
        mechanisms.append(self.main_round(cap, SizeLaw.read(cap), (1,) * d))
        both = zip(mechanisms, self.parts, strict=True)
        return [Round(number, mechanism, part) for number, (mechanism, part) in enumerate(both, start=1)]

    def main_round(self, cap: int, law: SizeLaw | None, weights: tuple[int, ...] | None) -> Mechanism:
        """The mechanism for the rest of the people, given what the pilot said."""
        learnt: dict[str, Any] = {}
        kind = self.main_kind
        if issubclass(kind, LearnsSizes):
            assert law is not None
            learnt = kind.options_for_sizes(law, cap, self.schema.d)
        if "max_pairs" in self.main_options:
            learnt["max_pairs"] = cap
        if self.theta:
            learnt["weights"] = weights
        given = assignments(self.options)
        made = create(self.then, self.schema, self.epsilon, **{**learnt, **given})
        undeclared = learnt.keys() - given.keys() - announced_options(made)
        if undeclared:
            raise ProtocolError(
                "protocol/undeclared",
                f"A pilot would announce {' and '.join(sorted(undeclared))} to {self.then}, which does not declare it.",
            )
        return made

    # -- what the pilot said ------------------------------------------------------------------------------------

    def law(self, finished: History) -> SizeLaw | None:
        """The law of set sizes, if the pilot finds it out."""
        group = self._group(finished, "sizes")
        if group is None:
            return None
        return group.seen_as(TellsSizes).law(group.tally)

    def cap(self, finished: History) -> int:
        """The most pairs that count in the main round; below what the pilot counts, so that it tells who exceeds it."""
        law, most = self.law(finished), self.most or 1
        told = most if most == self.schema.d else max(most - 1, 1)
        return self.max_pairs or (min(law.quantile(self.quantile), told) if law else 1)

    def weights(self, finished: History) -> tuple[int, ...] | None:
        """Weights that favour rare keys, if there are to be any."""
        group = self._group(finished, "frequencies")
        return None if group is None else rare_first(group.estimates(), 2 * float(self.theta))

    def _group(self, finished: History, question: str) -> Finished | None:
        """The finished round of the group that tells this; none if no group does, or not yet."""
        at = self.questions.index(question) if question in self.questions else len(finished)
        return finished[at].answered() if at < len(finished) else None

    def estimate(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        """What all groups say of keys, judged by what the pilot says of set sizes above the cap."""
        told = merged(finished, self, confidence, population)
        sizes, capped = self._group(finished, "sizes"), can(finished[-1].round.mechanism, Capped)
        if capped is None or capped.cap() >= self.schema.d:
            return told
        surplus = None if sizes is None else sizes.seen_as(TellsSizes).surplus(sizes.tally, capped.cap())
        return judged_by(surplus, told, finished[-1], population)


def _refused(sentence: str) -> ProtocolError:
    return ProtocolError("protocol/option", sentence)
