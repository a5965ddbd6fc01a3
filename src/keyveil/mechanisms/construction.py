"""How a class behind a name becomes a mechanism or a protocol, and what a class must have for that."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, get_args

from keyveil.core.epsilon import Number, parse_epsilon
from keyveil.core.errors import ContractError, KeyveilError
from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import Takes
from keyveil.mechanisms.options import fitted, spelled


def construct(name: str, kind: Any, schema: Schema, epsilon: Number, options: Mapping[str, Any]) -> Any:
    """The one place that calls a class behind a name, after options have chosen among its forms."""
    given = spelled(options)
    form = form_of(kind, given)
    if "overflow" not in given or not issubclass(kind, Mechanism):
        return form(schema, parse_epsilon(epsilon), **fitted(name, form, given))
    from keyveil.mechanisms.overflow.beside import made_beside  # only who asks for the group needs it

    return made_beside(name, form, schema, parse_epsilon(epsilon), given)


def form_of(kind: Any, options: Mapping[str, Any]) -> Any:
    """The class that these options choose among the forms of a class; protocols have one form."""
    return kind.class_for(options) if issubclass(kind, Mechanism) else kind


def check_members(cls: Any, name: str | None = None) -> None:
    """Refuse a class that is no mechanism or protocol (of this name), as far as that shows before one is made."""
    bases = (Mechanism, import_module("keyveil.protocols.base").Protocol)  # a room above this one
    if not isinstance(cls, type) or not issubclass(cls, bases):
        shown = cls.__qualname__ if isinstance(cls, type) else repr(cls)
        raise ContractError("contract/class", f"{shown} is no class derived from Mechanism or Protocol.")
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    if missing:
        raise ContractError(f"contract/{missing[0]}", f"{cls.__qualname__} lacks {', '.join(missing)}.")
    own_name = getattr(cls, "name", None)
    if not isinstance(own_name, str) or name not in (None, own_name):
        wanted = "a string" if name is None else repr(name)
        raise ContractError("contract/name", f"{cls.__qualname__}.name is {own_name!r}; it must be {wanted}.")
    declared = {} if "__dataclass_fields__" in vars(cls) else vars(cls).get("__annotations__", {})
    for option in (option for option, kind in declared.items() if "ClassVar" not in str(kind)):
        raise ContractError(
            f"contract/{option}",
            f"{cls.__qualname__} has the option {option}, but is no dataclass: write @dataclass(frozen=True) above it.",
        )
    if issubclass(cls, Mechanism) and (takes := getattr(cls, "takes", None)) not in get_args(Takes):
        wanted = ", ".join(get_args(Takes))
        raise ContractError("contract/takes", f"{cls.__qualname__}.takes is {takes!r}, not one of {wanted}.")
    if (
        not isinstance(cls.examples, tuple)
        or not all(isinstance(one, dict) for one in cls.examples)
        or not cls.examples
    ):
        told = f"{cls.__qualname__}.examples is {cls.examples!r}, not a tuple of at least one dictionary of options."
        raise ContractError("contract/examples", told)
    for example in cls.examples:  # lists of all names show them, and one that fails would spoil the list
        _check_example(cls, example)


def _check_example(cls: Any, options: dict[str, Any]) -> None:
    if issubclass(cls, Mechanism):
        try:
            form: Any = cls.class_for(options)
        except KeyveilError:
            form = cls  # options that make no sense are told below
        except Exception as reason:  # other people's code may fail in any way
            form = f"{type(reason).__name__}: {reason}"
        if not isinstance(form, type) or not issubclass(form, Mechanism):
            told = f"{cls.__qualname__}.class_for gives no class of mechanisms for {options} ({form!r})."
            raise ContractError("contract/class_for", told)
    try:
        construct(cls.name, cls, Schema(keys=3), 1, options)
    except KeyveilError as refused:
        told = f"{cls.__qualname__}.examples has {options}, which cannot be made: {refused.sentence}"
        raise ContractError("contract/examples", told) from refused
    except Exception as reason:  # other people's code may fail in any way
        told = f"{cls.__qualname__} cannot be made for three keys ({type(reason).__name__}: {reason})."
        raise ContractError("contract/__init__", told) from reason
