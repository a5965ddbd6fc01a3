"""The names of all protocols. A module is loaded only when its name is asked for."""

from __future__ import annotations

from typing import Any

from keyveil.core.epsilon import Number, parse_epsilon
from keyveil.core.schema import Schema
from keyveil.mechanisms.options import fitted, load
from keyveil.protocols.base import Protocol

_WHERE = {
    "privkvm": "privkvm:PrivKVM",
    "privkvm-plus": "privkvm_plus:PrivKVMPlus",
    "privkvm-star": "privkvm_star:PrivKVMStar",
    "privkvm-harmony": "privkvm_baselines:PrivKVMHarmony",
    "privkvm-meanest": "privkvm_baselines:PrivKVMMeanEst",
    "pilot": "pilot:Pilot",
    "split": "split:Split",
    "adaptive": "adaptive:Adaptive",
    "topsel-project": "topsel_project:TopSelProject",
}


def names() -> tuple[str, ...]:
    """Every name that ``create`` takes."""
    return tuple(_WHERE)


def find(name: str) -> type[Protocol]:
    """The class behind a name."""
    found: type[Protocol] = load("protocol", name, _WHERE, "keyveil.protocols")
    return found


def create(name: str, schema: Schema, epsilon: Number, **options: Any) -> Protocol:
    """A protocol by name. Options may be strings, as the command line has them."""
    kind = find(name)
    return kind(schema, parse_epsilon(epsilon), **fitted(name, kind, options))
