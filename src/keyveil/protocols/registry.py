"""Whatever a name or an object asks for, as a protocol: so that everybody drives one kind of thing."""

from __future__ import annotations

from typing import Any

from keyveil.core.epsilon import Number
from keyveil.core.errors import MechanismError
from keyveil.core.schema import Schema
from keyveil.mechanisms import registry
from keyveil.mechanisms.base import Mechanism
from keyveil.protocols.base import Protocol
from keyveil.protocols.one_round import one_round


def as_protocol(made: Mechanism | Protocol) -> Protocol:
    """A protocol as it is, a mechanism as its one round."""
    return one_round(made) if isinstance(made, Mechanism) else made


def create(name: str, schema: Schema, epsilon: Number, **options: Any) -> Protocol:
    """``make`` where only a protocol will do."""
    made = registry.make(name, schema, epsilon, **options)
    if isinstance(made, Mechanism):
        raise MechanismError(
            "mechanism/unknown",
            f"{name} is a mechanism (one round), and only a protocol (several rounds or groups) will do here.",
        )
    protocol: Protocol = made
    return protocol
