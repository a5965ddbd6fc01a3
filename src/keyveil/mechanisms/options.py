"""Options as people write them: strings in the types that a mechanism or protocol declares."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, fields
from fractions import Fraction
from typing import Any

from keyveil.core.canonical import SAFE
from keyveil.core.epsilon import decimal_text, read_fraction
from keyveil.core.errors import MechanismError
from keyveil.core.hints import did_you_mean

_SPELLED = {"sizes": "set_sizes", "levels": "bins"}
"""Options whose name means something else on a mechanism or a schema: the number of points that values are rounded to
is ``bins``, and the levels of a schema are the values that there are."""
_OWN = ("schema", "epsilon")


def fitted(name: str, cls: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a class in the types that it declares; refused if one is unknown, missing or of no use."""
    own: dict[str, Field[Any]] = {field.name: field for field in fields(cls) if field.name not in _OWN}
    given = spelled(options)
    if "group_options" in own and "options" in given:  # a mechanism's own ``options`` are all of them
        if "group_options" in given:
            raise MechanismError("mechanism/option", "The option group_options is given twice.")
        given["group_options"] = given.pop("options")
    for option in given:
        if option not in own:
            raise unknown_option(name, option, own)
    for option, field in own.items():
        if field.default is MISSING and field.default_factory is MISSING and option not in given:
            raise MechanismError("mechanism/option", f"{name} needs the option {option!r}.")
    return {option: _converted(name, option, value, str(own[option].type)) for option, value in given.items()}


def unknown_option(name: str, option: str, known: Collection[str]) -> MechanismError:
    """One sentence for an option that a mechanism does not have, with the one that was meant or all that there are."""
    there = f"its options are {', '.join(known)}" if known else "it has no options"
    hint = did_you_mean(option, known) or f"; {there}"
    return MechanismError("mechanism/option", f"{name} has no option {option!r}{hint}.")


def spelled(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options under the names that classes have for them, such as ``bins`` for ``levels``; - means _."""
    given: dict[str, Any] = {}
    for option, value in options.items():
        plain = option.replace("-", "_")
        known = _SPELLED.get(plain, plain)
        if known in given:
            raise MechanismError("mechanism/option", f"The option {known} is given twice.")
        given[known] = value
    return given


def option_names(cls: Any) -> tuple[str, ...]:
    """The names of the options of a mechanism's or protocol's class."""
    return tuple(field.name for field in fields(cls) if field.name not in _OWN)


def documented(made: Any) -> dict[str, Any]:
    """The options of a mechanism or protocol as JSON has them: fractions as decimals or "a/b", tuples as lists.

    Options of ``unsaid`` are left out where they are not given: documents and fingerprints are those of the time before
    there was such an option.
    """
    values = {name: getattr(made, name) for name in option_names(type(made))}
    return {name: _plain(value) for name, value in values.items() if value is not None or name not in made.unsaid}


def assignments(given: Mapping[str, Any] | str) -> dict[str, Any]:
    """Options of a part, also as the command line writes them ("max_pairs=3; bins=4"); a mapping stays what it is."""
    if not isinstance(given, str):
        return dict(given)
    read: dict[str, Any] = {}
    for entry in filter(None, (part.strip() for part in given.split(";"))):
        name, equals, value = (part.strip() for part in entry.partition("="))
        if not (name and equals):
            raise MechanismError("mechanism/option", f"Options are written like max_pairs=3; bins=4, not {entry!r}.")
        read[name] = value
    return read


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction):
        return decimal_text(value)
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _converted(name: str, option: str, value: Any, kind: str) -> Any:
    """An option's value in the type that the class declares for it."""
    if value is None and "None" in kind:
        return None
    try:
        if kind.startswith("int"):
            return _whole(value)
        if kind.startswith("Fraction"):
            return read_fraction(value)
        if kind.startswith("bool") and not isinstance(value, bool):
            return {"true": True, "false": False}[str(value).lower()]
        if kind.startswith("tuple[int") and not isinstance(value, str):
            return tuple(_whole(one) for one in value)  # JSON spells it as a list
    except (ValueError, TypeError, KeyError, OverflowError, ZeroDivisionError):
        raise MechanismError("mechanism/option", f"{name} cannot take {value!r} for {option!r}.") from None
    return value


def _whole(value: Any) -> int:
    """Larger numbers than a document can hold would only wrap in somebody's arithmetic."""
    if isinstance(value, bool) or int(value) != float(value) or abs(int(value)) > SAFE:
        raise ValueError
    return int(value)
