"""Collections of several rounds or several groups, as one pure function of the rounds that are finished.

A ``Protocol`` looks at the finished rounds and returns the next ``Round`` (a mechanism with what is announced to it,
who takes part, and what it costs each of them) or ``None`` when it is done. It keeps no state: a collection that was
stopped goes on from its history, and simulator, collector and tests all drive the same object.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from keyveil.core.channels import Ratio
from keyveil.core.epsilon import LEAST, decimal_text, log_ceiling, parse_epsilon
from keyveil.core.errors import ProtocolError
from keyveil.core.estimates import Estimates, Header
from keyveil.core.report import Report, Reports
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.core.work import spend
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.options import documented
from keyveil.mechanisms.parting import EVERYONE as EVERYONE  # a round says whom it asks
from keyveil.mechanisms.parting import Part as Part
from keyveil.mechanisms.parting import in_parts as in_parts
from keyveil.privacy.budget import across_groups, in_sequence
from keyveil.protocols.declarations import refuse_undeclared

MOST_ROUNDS = 1000  # a protocol with more of them is broken

if TYPE_CHECKING:
    from keyveil.privacy.certify import Certificate

Kind = TypeVar("Kind")

_PLANNED = 4  # units of work a key, to plan a round from those before it: 0.2 s for 65,536 keys
_HELD = 100  # units for each round before it, which it is held against: half a second for a hundred rounds
_PLACES = 10**12  # a share of epsilon is a decimal: what does not end is cut here, never rounded up


@dataclass(frozen=True)
class Round:
    """One round of a protocol: its number from 1, the mechanism, who answers, and the ε that each of them pays.

    ``cost`` is the ε at the worst announcement, where that is less than what the mechanism was made for.
    """

    number: int
    mechanism: Mechanism
    part: Part = EVERYONE
    cost: Fraction | None = None

    @property
    def epsilon(self) -> Fraction:
        """What a person pays who answers."""
        return self.mechanism.epsilon if self.cost is None else self.cost


@dataclass(frozen=True)
class Finished:
    """A round with the tally of its reports."""

    round: Round
    tally: Tally

    def estimates(self, confidence: float = 0.95, population: bool = False) -> Estimates:
        """What this round alone says, with intervals."""
        return self.round.mechanism.estimate(self.tally, confidence, population)

    def seen_as(self, kind: type[Kind]) -> Kind:
        """The round's mechanism as one that tells something; refused if it does not: the history is a foreign one."""
        mechanism = self.round.mechanism
        if not isinstance(mechanism, kind):
            raise ProtocolError(
                "protocol/foreign", f"Round {self.round.number} is {mechanism.name}, which this protocol does not ask."
            )
        return mechanism

    def answered(self) -> Finished:
        """The round itself; refused if nobody has answered it, so that nothing can be planned from it."""
        if not self.tally.reports:
            raise ProtocolError(
                "protocol/few",
                f"Nobody answered round {self.round.number}, on which the next one rests: ask more people, or give its "
                "group a larger share of them.",
            )
        return self


History = Sequence[Finished]


@dataclass(frozen=True)
class Protocol(ABC):
    """Several rounds for one schema, of which nobody answers more than epsilon allows."""

    schema: Schema
    epsilon: Fraction

    name: ClassVar[str]
    announces: ClassVar[bool] = True
    """Whether answers decide options of later rounds; if not, all rounds are fixed before the first answer."""
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({},)
    """Options at which the protocol tells different things; the first are the usual ones."""
    finds_out: ClassVar[frozenset[str]] = frozenset()
    """Options about people's sets (``max_pairs``, ``set_sizes``) that its rounds find out where nobody gives them."""
    unsaid: ClassVar[frozenset[str]] = frozenset()
    """Options that documents do not name where they are not given (``None``)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        self.validate()

    def validate(self) -> None:
        """Refuse options that make no sense together; nothing to refuse by default."""

    @abstractmethod
    def plan(self, finished: History) -> Round | None:
        """The round after these, or ``None`` when there is none."""

    @abstractmethod
    def estimate(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        """What all finished rounds together say."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters besides schema and epsilon, as they stand in documents."""
        return documented(self)

    @property
    def single(self) -> Mechanism | None:
        """The mechanism, if the whole protocol is one round of it that everybody answers."""
        return None

    def header(self, n: int, confidence: float = 0.95, population: bool = False) -> Header:
        """What estimates from the reports of ``n`` people are about."""
        return Header(self.schema, self.name, self.epsilon, n, confidence, population, self.parameters)

    def next_round(self, finished: History) -> Round | None:
        """``plan``, refused unless the history is one of this protocol, the round is declared, and the budget holds."""
        self.check(finished)
        following = self.plan(finished)
        if following is None:
            return None
        if finished:  # before the first round nothing can be announced
            refuse_undeclared(self, following)
        spent = most_spent([*(one.round for one in finished), following])
        if spent > self.epsilon:
            raise ProtocolError(
                "protocol/budget",
                f"With round {following.number} of {self.name} somebody would spend "
                f"{decimal_text(spent)}, more than {decimal_text(self.epsilon)}.",
            )
        return following

    def certificate(self) -> Certificate:
        """The exact epsilon of all rounds together, whatever is announced between them."""
        from keyveil.protocols.certificate import certificate  # devices do not need it, and it needs this module

        return certificate(self)

    def longest(self) -> list[Round]:
        """The rounds of the longest course, as they look while nobody has answered: what the protocol declares."""
        finished: list[Finished] = []
        while (current := self._priced_plan(finished)) is not None:
            if current.number > MOST_ROUNDS:
                raise ProtocolError("protocol/endless", f"{self.name} has more than {MOST_ROUNDS} rounds.")
            nothing = Tally.empty(current.mechanism.fingerprint, current.mechanism.tally_shape)
            finished.append(Finished(current, nothing))
        return [one.round for one in finished]

    def _priced_plan(self, finished: History) -> Round | None:
        """``plan``, priced by the keys and the rounds before it; the first round needs no looking back."""
        if finished:
            spend(_PLANNED * self.schema.d + _HELD * len(finished), f"Planning the rounds of {self.name}")
        return self.plan(finished)

    @cached_property
    def course(self) -> tuple[Round, ...]:
        """``longest``, computed once."""
        return tuple(self.longest())

    def kinds(self, number: int) -> Sequence[Mechanism]:
        """The mechanisms that a declared round may have; several where answers decide on its kind.

        Their announced options stand at the values of ``longest``: a real round has them as the answers want it.
        """
        return [self.course[number - 1].mechanism]

    def check(self, finished: History) -> None:
        """Refuse a history that this protocol could not have: rounds out of order, or of another making."""
        for number, one in enumerate(finished):
            if one.round.number != number + 1:
                raise ProtocolError("protocol/order", f"Round {one.round.number} is not round {number + 1}.")
            if one.round != self.plan(finished[:number]):
                raise _foreign_round(self, number + 1)
            if one.tally.fingerprint != one.round.mechanism.fingerprint:
                raise _foreign_tally(number + 1)


def part_of(epsilon: Fraction, share: Fraction | int) -> Fraction:
    """A share of epsilon as a decimal that does not exceed it."""
    return Fraction(int(epsilon * share * _PLACES), _PLACES)


def refuse_tiny_rounds(protocol: Protocol, share: Fraction) -> None:
    """Refuse a protocol whose rounds would have less epsilon each than any mechanism takes; when it is made."""
    each = part_of(protocol.epsilon, share)
    if each < LEAST:
        raise ProtocolError(
            "protocol/option",
            f"A round of {protocol.name} would have epsilon {float(each):.3g}, less than {decimal_text(LEAST)}: "
            "take fewer rounds or a larger epsilon.",
        )


def cost_of(ratio: Ratio) -> Fraction:
    """The epsilon that a ratio of probabilities costs, rounded up in the thirtieth digit."""
    exact = log_ceiling(ratio)
    if not exact.is_finite():
        raise ProtocolError("protocol/budget", "A round that can give somebody away has no price.")
    return Fraction(exact)


def collected(current: Round, reports: Iterable[Report] | Reports) -> Finished:
    """A round with all of its reports counted; nobody may answer it twice."""
    if not isinstance(reports, Reports):
        reports = current.mechanism.gather(reports)
    twice = len(reports) - len(np.unique(reports.publics, axis=0))
    if twice:
        raise ProtocolError("protocol/twice", f"{twice} reports of round {current.number} bear the id of another one.")
    return Finished(current, current.mechanism.tally(reports))


def _foreign_round(protocol: Protocol, number: int) -> ProtocolError:
    return ProtocolError("protocol/foreign", f"{protocol.name} would not have planned this round {number}.")


def _foreign_tally(number: int) -> ProtocolError:
    return ProtocolError("protocol/foreign", f"The tally of round {number} belongs to another mechanism.")


def most_spent(rounds: Sequence[Round]) -> Fraction:
    """What the person who pays most pays: rounds add up within a part of the people, parts do not."""
    edges = sorted({edge for one in rounds for edge in (one.part.start, one.part.stop)})
    return across_groups(
        in_sequence(one.epsilon for one in rounds if one.part.start <= edge < one.part.stop) for edge in edges
    )


def history_document(finished: History) -> list[dict[str, Any]]:
    """What is needed to go on later: round by round the mechanism's identity and the tally."""
    return [
        {
            "round": one.round.number,
            "mechanism": one.round.mechanism.name,
            "fingerprint": one.round.mechanism.fingerprint.hex(),
            "tally": one.tally.to_bytes().hex(),
        }
        for one in finished
    ]


def resume(protocol: Protocol, document: Any) -> list[Finished]:
    """The finished rounds of a document; the protocol plans each of them again."""
    finished: list[Finished] = []
    if not isinstance(document, Sequence) or isinstance(document, str | bytes):
        raise _no_history()
    for entry in document:
        number, name, fingerprint, data = _entry(entry)
        following = protocol.next_round(finished)
        if following is None or following.number != number:
            raise ProtocolError("protocol/order", f"Round {number} of the history does not follow.")
        if (name, fingerprint) != (following.mechanism.name, following.mechanism.fingerprint):
            raise _foreign_round(protocol, number)
        tally = Tally.from_bytes(data)
        if tally.fingerprint != following.mechanism.fingerprint:
            raise _foreign_tally(following.number)
        finished.append(Finished(following, tally))
    return finished


def _entry(entry: Any) -> tuple[int, str, bytes, bytes]:
    """Number, mechanism's name and fingerprint, and tally of a round of a history document."""
    try:
        number, name, fingerprint, tally = (entry[part] for part in ("round", "mechanism", "fingerprint", "tally"))
        if isinstance(number, int) and not isinstance(number, bool):
            return number, str(name), bytes.fromhex(fingerprint), bytes.fromhex(tally)
    except (KeyError, TypeError, ValueError):
        pass
    raise _no_history()


def _no_history() -> ProtocolError:
    return ProtocolError(
        "protocol/history",
        "A history lists rounds, each with its number, its mechanism, and fingerprint and tally in hex.",
    )
