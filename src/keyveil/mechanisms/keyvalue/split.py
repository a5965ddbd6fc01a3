"""Split: people go to disjoint groups, and each group spends the whole ε on the mechanism that answers its question.

No single report answers everything: ``ssr`` gives frequencies and means, ``kv-sw`` distributions, ``moments``
conditionals. What several groups estimate is merged; a question that one group can answer is answered by the whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

from keyveil.core.epsilon import read_fraction
from keyveil.core.errors import KeyveilError, MechanismError
from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.keyvalue.views import Views
from keyveil.mechanisms.options import assignments
from keyveil.mechanisms.registry import create, find_mechanism
from keyveil.mechanisms.side_by_side import SideBySide

Options = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Split(SideBySide):
    """``groups`` are mechanisms with shares of the people, such as "ssr:0.5,kv-sw:0.5".

    ``group_options`` (or ``options``) belong to single groups: a mapping of mappings, or text such as
    "ssr.max_pairs=3;kv-sw.cells=64". ``max_pairs`` is the cap of every group that needs one and has none of its own.
    """

    groups: str = "ssr:1,kv-sw:1"
    group_options: Options | str = field(default_factory=dict)
    max_pairs: int | None = None

    name: ClassVar[str] = "split"
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({"max_pairs": 2}, {"groups": "ssr:1,moments:1", "max_pairs": 2})

    @property
    def title(self) -> str:
        usual = next(one.default for one in fields(Split) if one.name == "groups")
        return self.name if self.groups == usual else f"{self.name} with groups={self.groups}"

    def __hash__(self) -> int:  # options are mappings
        return hash(self.fingerprint)

    def validate(self) -> None:
        object.__setattr__(self, "group_options", _read_options(self.group_options))
        strangers = set(self.group_options) - set(self._named)
        if strangers:
            raise _refused(f"split has no group {min(strangers)!r} to give options to.")
        for part in self.parts:
            if isinstance(part, Views):
                raise _refused(f"Groups of split answer about the same keys, and {part.name} parts them into views.")
        super().validate()
        self._resolve()

    def _resolve(self) -> None:
        """The one spelling of these parts: whole shares, every option of every group, and a cap that all share."""
        unit = math.lcm(*(share.denominator for share in self.shares))
        whole = [int(share * unit) for share in self.shares]
        texts = (f"{part.name}:{share // math.gcd(*whole)}" for part, share in zip(self.parts, whole, strict=True))
        named = {part.name: part.options for part in self.parts}
        caps = {options.get("max_pairs") for options in named.values()} - {None}
        common = caps.pop() if len(caps) == 1 else None
        if common is not None:
            named = {
                name: {option: value for option, value in options.items() if option != "max_pairs"}
                for name, options in named.items()
            }
        for option, value in {"groups": ",".join(texts), "group_options": named, "max_pairs": common}.items():
            object.__setattr__(self, option, value)

    @cached_property
    def _named(self) -> dict[str, Fraction]:
        return _read_shares(self.groups)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        return tuple(self._named.values())

    @cached_property
    def parts(self) -> tuple[Mechanism, ...]:
        return tuple(self._made(name) for name in self._named)

    def _made(self, name: str) -> Mechanism:
        assert isinstance(self.group_options, Mapping)
        own = dict(self.group_options.get(name, {}))
        if taken := {"name", "schema", "epsilon"} & set(own):
            raise _refused(f"{min(taken)!r} is no option of a group.")
        if self.max_pairs is not None and "max_pairs" in {option.name for option in fields(find_mechanism(name))}:
            own.setdefault("max_pairs", self.max_pairs)
        return create(name, self.schema, self.epsilon, **own)

    def group(self, name: str) -> int:
        """The number of the part that answers with a mechanism."""
        names = list(self._named)
        if name not in names:
            raise MechanismError("mechanism/group", f"split has no group {name!r}; it has {', '.join(names)}.")
        return names.index(name)

    def part(self, name: str) -> Mechanism:
        """What the people of a group answer."""
        return self.parts[self.group(name)]

    def reduced(self) -> Self:
        parts = _for_the_same_keys([part.reduced() for part in self.parts])
        options = {part.name: part.options for part in parts}
        return replace(self, schema=parts[0].schema, group_options=options, max_pairs=None)


def _for_the_same_keys(parts: list[Mechanism]) -> list[Mechanism]:
    """Reduced parts with as many keys as the smallest has; or, where one cannot be made smaller, as the largest."""
    counts = [part.schema.d for part in parts]
    if len(set(counts)) == 1:
        return parts
    fewer = [_with_fewer_keys(part, min(counts)) for part in parts]
    if None not in fewer:
        return [part for part in fewer if part is not None]
    return [replace(part, schema=Schema(keys=max(counts))) for part in parts]


def _with_fewer_keys(part: Mechanism, keys: int) -> Mechanism | None:
    """A reduced part for fewer keys: options with a number for each key are cut, others chosen anew if need be."""
    d = part.schema.d
    if d == keys:
        return part
    options = [option for option in fields(part) if option.name not in ("schema", "epsilon")]
    own = {option.name: getattr(part, option.name) for option in options}
    cut = {name: value[:keys] if isinstance(value, tuple) and len(value) == d else value for name, value in own.items()}
    anew = {**cut, **{option.name: None for option in options if option.default is None}}
    small = {name: min(value, keys) if type(value) is int else value for name, value in anew.items()}
    for given in (cut, anew, small):
        try:
            return replace(part, schema=Schema(keys=keys), **given).reduced()
        except KeyveilError:
            continue
    return None


def _read_shares(text: str) -> dict[str, Fraction]:
    shares: dict[str, Fraction] = {}
    for entry in str(text).split(","):
        name, _, share = (part.strip() for part in entry.partition(":"))
        if not name:
            raise _refused("The groups of split are written like ssr:0.5,kv-sw:0.5.")
        if name in shares:
            raise _refused(f"split takes every mechanism once, and {name} comes twice.")
        try:
            shares[name] = read_fraction(share or "1")
        except (ValueError, ZeroDivisionError):
            raise _refused(f"{share!r} is not a share of the people for {name}.") from None
        if shares[name] <= 0:
            raise _refused(f"The share of {name} must be positive, not {share}.")
    return shares


def _read_options(options: Options | str) -> Options:
    """Options of groups, also from the text that the command line gives."""
    if isinstance(options, Mapping) and all(isinstance(own, Mapping) for own in options.values()):
        return {name: dict(own) for name, own in options.items()}
    if not isinstance(options, str):
        raise _refused("Options of groups are a mapping of mappings, or a text such as ssr.max_pairs=3.")
    read: dict[str, dict[str, Any]] = {}
    for place, value in assignments(options).items():
        group, dot, option = place.partition(".")
        if not dot:
            raise _refused(f"Options of groups are written like ssr.max_pairs=3, not {place!r}.")
        read.setdefault(group, {})[option] = value
    return read


def _refused(sentence: str) -> MechanismError:
    return MechanismError("mechanism/option", sentence)
