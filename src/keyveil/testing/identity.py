"""Who a mechanism is: its document makes it again, and its fingerprint tells it from every other one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

from keyveil.core.canonical import canonical
from keyveil.core.epsilon import Number, parse_epsilon
from keyveil.core.errors import KeyveilError
from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.options import fitted
from keyveil.mechanisms.registry import from_document
from keyveil.testing.verdict import about, hold


def documents_make_the_same_mechanism(mechanism: Mechanism) -> None:
    """``from_document(document())`` is the identity, and a document holds no floats."""
    kind = type(mechanism)

    def again(name: str, schema: Schema, epsilon: Number, **options: Any) -> Mechanism:
        hold(name == mechanism.name, mechanism, "document", f"names {name!r}")
        return kind(schema, parse_epsilon(epsilon), **fitted(name, kind, options))

    with about(mechanism, "document"):
        document = mechanism.document()
        canonical(document)
        made = from_document(document, again)
    hold(made == mechanism, mechanism, "document", "makes another mechanism when it is read again")
    hold(made.fingerprint == mechanism.fingerprint, mechanism, "fingerprint", "changes when the document is read again")


def fingerprints_tell_mechanisms_apart(mechanism: Mechanism) -> None:
    """Another epsilon, another schema or another option gives another fingerprint, but for options of reading.

    Options are changed to what is next to them, where the mechanism takes that and its own ``options`` differ then.
    """
    with about(mechanism, "fingerprint"):
        d = mechanism.schema.d
        others = {
            "epsilon": replace(mechanism, epsilon=mechanism.epsilon * Fraction(3, 4)),
            "the names of keys": replace(mechanism, schema=Schema(keys=[f"k{key}" for key in range(d)])),
            "the range of values": replace(mechanism, schema=Schema(keys=d, low=0, high=9)),
        }
    for changed, other in others.items():
        told = f"is the same whatever {changed} is"
        hold(other.fingerprint != mechanism.fingerprint, mechanism, "fingerprint", told)
    for option, other in _neighbours(mechanism):
        reading, same = option in mechanism.readings, other.fingerprint == mechanism.fingerprint
        told = "depends on" if reading else "does not depend on"
        hold(reading == same, mechanism, "fingerprint", f"{told} the option {option}")


def _neighbours(mechanism: Mechanism) -> Iterable[tuple[str, Mechanism]]:
    """The mechanism with one option changed, for every option that can be."""
    for field in fields(mechanism):
        if field.name in ("schema", "epsilon"):
            continue
        for value in _beside(getattr(mechanism, field.name)):
            try:
                other = replace(mechanism, **{field.name: value})
                differs = other.options != mechanism.options
            except (KeyveilError, TypeError, ValueError):  # not every number makes sense
                continue
            if differs:
                yield field.name, other


def _beside(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1]
    return [value / 2] if isinstance(value, Fraction) else []
