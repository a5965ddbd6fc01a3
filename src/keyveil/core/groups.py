"""Groups of people, such as versions or countries: keys that are products of a group and a key, as in "de/fries".

``Schema(keys=["fries", "pepsi"], groups=["de", "fr"])`` has four keys. Whoever belongs to a group holds keys of that
group only (``in_group``), so that a report tells both at once. To everything else they are keys like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keyveil.core.dimensions import SEPARATOR, product_keys
from keyveil.core.errors import SchemaError
from keyveil.core.hints import did_you_mean

if TYPE_CHECKING:
    from keyveil.core.schema import Schema

MOST_GROUPED = 1 << 18  # keys of all groups together: a short document must not make a device write down millions


def in_group(record: Mapping[Any, Any], group: str) -> dict[str, Any]:
    """The record of somebody who belongs to a group: every key as one of that group.

    Keys that name the group already stay as they are. Keys of other groups become keys that no schema has.
    """
    if not group or SEPARATOR in group:
        raise SchemaError("schema/group", f"A group is a name without {SEPARATOR!r}, not {group!r}.")
    start = group + SEPARATOR
    return {key if (key := str(name)).startswith(start) else start + key: value for name, value in record.items()}


def read_groups(given: Any) -> tuple[str, ...] | None:
    """The groups of a schema, refused if they are not two or more different names."""
    if given is None:
        return None
    names = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else ()
    if len(names) < 2 or not all(isinstance(name, str) and name and SEPARATOR not in name for name in names):
        raise SchemaError("schema/groups", f"Groups are two or more names without {SEPARATOR!r}, not {given!r}.")
    if len(set(names)) < len(names):
        raise SchemaError("schema/groups", "A group is listed more than once.")
    return names


def keys_of_groups(groups: Sequence[str], keys: tuple[str, ...] | int) -> tuple[str, ...]:
    """All products of a group and a key, the keys of the first group first."""
    count = len(groups) * (keys if isinstance(keys, int) else len(keys))
    if count > MOST_GROUPED:
        raise SchemaError("schema/too-many", f"A schema with groups has at most {MOST_GROUPED:,} keys, not {count:,}.")
    return tuple(product_keys(groups, [str(one) for one in range(keys)] if isinstance(keys, int) else keys))


def for_every_group(given: Any, groups: Sequence[str] | None, keys: tuple[str, ...] | int | None) -> Any:
    """Entries by key of a group, as a mapping or a sequence, as entries of all products; anything else stays."""
    if groups is None or keys is None or isinstance(given, str):
        return given
    count = keys if isinstance(keys, int) else len(keys)
    if isinstance(given, Mapping):
        own = {str(number) for number in range(count)} if isinstance(keys, int) else set(keys)
        if given and {str(name) for name in given} <= own:
            return {SEPARATOR.join((group, str(name))): entry for group in groups for name, entry in given.items()}
    elif isinstance(given, Sequence | np.ndarray) and len(given) == count:
        return list(given) * len(groups)
    return given


def levels_for_every_group(given: Any, groups: Sequence[str] | None, keys: tuple[str, ...] | int | None) -> Any:
    """The same for levels, where a list of numbers holds for all keys and a list of lists has one for each."""
    alike = isinstance(given, Sequence | np.ndarray) and all(isinstance(one, str) or np.isscalar(one) for one in given)
    return given if alike else for_every_group(given, groups, keys)


def keys_within(names: Iterable[str], groups: Sequence[str]) -> list[str]:
    """The keys of the groups, from names such as "de/fries"; refused if one belongs to no group."""
    known, found = set(groups), set()
    for name in names:
        group, _, key = name.partition(SEPARATOR)
        if group not in known or not key:
            raise SchemaError("schema/groups", f"The key {name!r} belongs to none of the groups {', '.join(groups)}.")
        found.add(key)
    return sorted(found)


def groups_of_keys(schema: Schema) -> list[str]:
    """Per key of a schema with groups, the group that it belongs to."""
    return [key.partition(SEPARATOR)[0] for key in schema.keys]


def matching(schema: Schema, names: Iterable[str]) -> list[str]:
    """Names of keys in which "*" stands for every group or every key: "de/*" and "*/fries"."""
    found: list[str] = []
    for name in names:
        if schema.groups is None or "*" not in name or name in schema.keys:
            found.append(name)
            continue
        group, _, key = name.partition(SEPARATOR)
        several = [
            one
            for one, own in zip(schema.keys, groups_of_keys(schema), strict=True)
            if group in ("*", own) and key in ("*", one.partition(SEPARATOR)[2])
        ]
        if not several:
            hint = did_you_mean(group, schema.groups)
            raise SchemaError("schema/unknown-key", f"No key of the schema's groups is like {name!r}{hint}.")
        found += several
    return list(dict.fromkeys(found))
