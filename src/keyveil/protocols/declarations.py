"""Holding a planned round to what its protocol declares: answers may set the announced options, and nothing else.

The certificate speaks about the declared rounds under every announcement. So what a protocol plans, and what a
collector serves, must be one of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from keyveil.core.errors import ProtocolError
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import Announced, can

if TYPE_CHECKING:
    from keyveil.protocols.base import Protocol, Round


def refuse_undeclared(protocol: Protocol, planned: Round) -> None:
    """Refuse a round that the protocol does not declare.

    It must have the number, the part of the people and the cost of a declared round, and the mechanism, the ε and all
    options of one of its kinds, but for those that this kind lets a collector announce.
    """
    number, course = planned.number, protocol.course
    if number > len(course):
        raise _undeclared(f"{protocol.name} declares {len(course)} rounds, and round {number} would be one more.")
    kinds = [kind for kind in protocol.kinds(number) if type(kind) is type(planned.mechanism)]
    if not kinds:
        raise _undeclared(f"{protocol.name} does not declare that round {number} may be {planned.mechanism.name}.")
    free = announced_options(kinds[0]) if protocol.announces else frozenset()
    changed = min((_changed(planned.mechanism, kind, free) for kind in kinds), key=len)
    if changed:
        allowed = f"only {' and '.join(sorted(free))}" if free else "nothing"
        raise _undeclared(
            f"Round {number} of {protocol.name} has another {' and '.join(changed)} than it declares; "
            f"{allowed} may be announced to {planned.mechanism.name}."
        )
    declared = course[number - 1]
    if (planned.part, planned.epsilon) != (declared.part, declared.epsilon):
        raise _undeclared(f"Round {number} of {protocol.name} is for other people, or has another cost, than declared.")


def announced_options(mechanism: Mechanism) -> frozenset[str]:
    """The options that a collector may set after it has seen answers; none where the mechanism does not say."""
    declared = can(mechanism, Announced)
    return frozenset() if declared is None else declared.announced()


def declared_announcements(mechanism: Mechanism) -> Announced:
    """What a mechanism declares about announcements; refused if it says nothing."""
    declared = can(mechanism, Announced)
    if declared is None:
        raise _undeclared(
            f"{mechanism.name} does not declare what may be announced to it, so there is no certificate for a round "
            "of it after the first."
        )
    return declared


def _changed(planned: Mechanism, kind: Mechanism, free: frozenset[str]) -> list[str]:
    """The names of what is fixed and nevertheless differs."""
    mine, theirs = planned.options, kind.options
    options = [name for name in mine if name not in free and mine[name] != theirs.get(name)]
    own = [name for name in ("schema", "epsilon") if getattr(planned, name) != getattr(kind, name)]
    return own + options


def _undeclared(sentence: str) -> ProtocolError:
    return ProtocolError("protocol/undeclared", sentence)
