"""The names of all protocols. A module is loaded only when its name is asked for."""

from __future__ import annotations

from typing import Any

from keyveil.core.epsilon import Number, parse_epsilon
from keyveil.core.schema import Schema
from keyveil.mechanisms import registry as mechanisms
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.options import fitted, load
from keyveil.protocols.base import Protocol
from keyveil.protocols.one_round import one_round

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


# What only a round of a protocol asks; a round's document names it, people do not.
_ROUNDS = {
    "privkv-round": "mechanisms.keyvalue.privkv_round:PrivKVRound",
    "label-round": "mechanisms.keyvalue.labels:LabelRound",
    "presence": "mechanisms.keyvalue.filled:Presence",
    "filled-vector": "mechanisms.keyvalue.filled:FilledVector",
    "adaptive-key": "mechanisms.keyvalue.adaptive_phase:KeyPhase",
    "adaptive-value": "mechanisms.keyvalue.adaptive_phase:ValuePhase",
    "project": "mechanisms.keyvalue.project:Project",
    "set-size": "protocols.size_question:SizeQuestion",
}


def names() -> tuple[str, ...]:
    """Every name that ``create`` takes."""
    return tuple(_WHERE)


def find(name: str) -> type[Protocol]:
    """The class behind a name."""
    found: type[Protocol] = load("protocol", name, _WHERE, "keyveil.protocols", mechanisms.names())
    return found


def create(name: str, schema: Schema, epsilon: Number, **options: Any) -> Protocol:
    """A protocol by name. Options may be strings, as the command line has them."""
    kind = find(name)
    return kind(schema, parse_epsilon(epsilon), **fitted(name, kind, options))


def question(name: str, schema: Schema, epsilon: Number, **options: Any) -> Protocol:
    """What a collection asks: a protocol by name, or a mechanism's one round."""
    if name in _WHERE:
        return create(name, schema, epsilon, **options)
    return one_round(mechanisms.create(name, schema, epsilon, **options))


def round_mechanism(name: str, schema: Schema, epsilon: Number, **options: Any) -> Mechanism:
    """The mechanism of a round by the name in its document; also those that only protocols ask."""
    if name not in _ROUNDS:
        return mechanisms.create(name, schema, epsilon, **options)
    kind = load("mechanism", name, _ROUNDS, "keyveil")
    found: Mechanism = kind(schema, parse_epsilon(epsilon), **fitted(name, kind, options))
    return found
