"""Views: everybody answers about one level of a hierarchy of keys, or about one coordinate of values, with the whole ε.

A *view* is a group of keys. To answer about every view would cost the budget as many times (erratum A11); to answer
about one of r views costs r times the variance instead. The public word of a person chooses the view.
Derivation: docs/mechanisms/views.md.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import zip_longest
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.core.dimensions import coordinate, depth, some_keys
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import OPTIONAL, Column, Estimates, Header
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.core.undercount import UNKNOWN, Undercount
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.capabilities import CAPABILITIES, Announced, ReportEffects, TallyLaw, can, need
from keyveil.mechanisms.effects import Effects
from keyveil.mechanisms.merging import carried_flags, with_flags
from keyveil.mechanisms.options import assignments
from keyveil.mechanisms.overflow.beside import OPTION, BesideOverflow, options_of
from keyveil.mechanisms.overflow.undercount import among_everybody, stated
from keyveil.mechanisms.reach import Reachable, placed
from keyveil.mechanisms.registry import create, find_mechanism
from keyveil.mechanisms.side_by_side import SideBySide
from keyveil.mechanisms.tally_laws import declared_law

Options = Mapping[str, Any]

_REDUCED_VIEWS = 2


@dataclass(frozen=True)
class Views(SideBySide):
    """Equal parts of the people answer ``inner``, each about the keys of one view.

    ``group_options`` (or ``options``) are those of ``inner``: text such as "max_pairs=3; bins=4" or a mapping, for all
    views; or a mapping from views to mappings. ``max_pairs`` caps the pairs of a view, and ``overflow`` is the share of
    a view's people who tell how far they exceed the cap.
    """

    inner: str = "kvue"
    group_options: Options | str = field(default_factory=dict)
    max_pairs: int | None = None
    overflow: Fraction | None = None

    unsaid: ClassVar[frozenset[str]] = frozenset({"max_pairs", OPTION})
    cap = None  # type: ignore[assignment]  # the pairs of a view are capped, not those of a record

    @staticmethod
    @abstractmethod
    def view_of(key: str) -> str:
        """The name of the view that a key belongs to."""

    @staticmethod
    @abstractmethod
    def small_key(view: int, key: int) -> str:
        """The name of a key of a view, for what is enumerated."""

    @property
    def title(self) -> str:
        return self.name if self.inner == "kvue" else f"{self.name} with inner={self.inner}"

    def __hash__(self) -> int:  # options are mappings
        return hash(self.fingerprint)

    def validate(self) -> None:
        known = options_of(find_mechanism(self.inner))
        for option in {"max_pairs", OPTION} - set(known):
            object.__setattr__(self, option, None)  # what has no cap cuts nobody
        object.__setattr__(self, "group_options", self._read(self.group_options))
        super().validate()
        if not any(isinstance(part, BesideOverflow) for part in self.parts):
            object.__setattr__(self, OPTION, None)  # nobody can exceed a cap
        resolved = {name: part.options for name, part in zip(self.views, self.parts, strict=True)}
        object.__setattr__(self, "group_options", resolved)

    # -- the views ----------------------------------------------------------------------------------------------

    @cached_property
    def views(self) -> dict[str, NDArray[np.int64]]:
        """The places of the keys of every view, by the view's name."""
        places: dict[str, list[int]] = {}
        for place, key in enumerate(self.schema.keys):
            places.setdefault(self.view_of(key), []).append(place)
        return {name: np.array(own) for name, own in places.items()}

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """For every key the number of its view, and its place there, [2, d]."""
        found = np.empty((2, self.schema.d), dtype=np.int64)
        for number, places in enumerate(self.views.values()):
            found[0, places], found[1, places] = number, np.arange(len(places))
        return found

    @property
    def shares(self) -> tuple[Fraction, ...]:
        return (Fraction(1),) * len(self.views)

    @cached_property
    def parts(self) -> tuple[Mechanism, ...]:
        return tuple(self._made(name, places.tolist()) for name, places in self.views.items())

    def _made(self, view: str, places: list[int]) -> Mechanism:
        assert isinstance(self.group_options, Mapping)
        own = dict(self.group_options[view])
        if taken := {"name", "schema", "epsilon"} & set(own):
            raise _refused(f"{min(taken)!r} is no option of a view.")
        if self.max_pairs is not None:
            own.setdefault("max_pairs", min(self.max_pairs, len(places)))
        if self.overflow is not None:
            own.setdefault(OPTION, self.overflow)
        return create(self.inner, some_keys(self.schema, places), self.epsilon, **own)

    def _read(self, given: Options | str) -> dict[str, dict[str, Any]]:
        """The options of every view; those that are not given by view are for all of them."""
        options = assignments(given)
        if not any(isinstance(own, Mapping) for own in options.values()):
            return {name: dict(options) for name in self.views}
        if strangers := set(options) - set(self.views):
            raise _refused(f"{self.name} has no view {min(strangers)!r}; it has {', '.join(self.views)}.")
        if not all(isinstance(own, Mapping) for own in options.values()):
            raise _refused("Options of views are the same for all of them, or a mapping for each.")
        return {name: dict(options.get(name, {})) for name in self.views}

    # -- what a part is told ------------------------------------------------------------------------------------

    def check(self, pairs: Pairs) -> Pairs:
        return pairs  # parts take every set

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        number, own = self._at(word)
        view, place = self._places
        seen = [(int(place[key]), value) for key, value in pairs if view[key] == number]
        return self.parts[number].respond(seen, own, coins)

    def seen(self, number: int, records: Records) -> Records:
        view, place = self._places
        mine = view[records.keys] == number
        held = np.concatenate(([0], np.cumsum(mine)))
        keys = place[records.keys[mine]].astype(np.int32)
        return Records(held[records.offsets], keys, records.values[mine], self.parts[number].schema.d)

    # -- estimates ----------------------------------------------------------------------------------------------

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        told = [self._told(number, tally, confidence, population) for number in range(len(self.parts))]
        hidden = _most_hidden([one.header.undercount for one in told])
        return self._together(replace(self.header(tally.reports, confidence, population), undercount=hidden), told)

    def _told(self, number: int, tally: Tally, confidence: float, population: bool) -> Estimates:
        """What the people of a view say of everybody."""
        part, own = self.parts[number], self.part_tally(tally, number)
        if isinstance(part, BesideOverflow):
            return part.estimate_among(own, tally.reports, confidence, population)
        fixed, sampled = (part.estimate(own, confidence, whole) for whole in (False, True))
        unheard = 1.0 if population else 1 - own.reports / max(tally.reports, 1)
        if not unheard:
            return fixed
        found = stated(sampled.header, among_everybody(fixed, sampled, unheard), sampled)
        return with_flags(found, carried_flags(sampled))

    def _together(self, header: Header, told: Sequence[Estimates]) -> Estimates:
        """The keys of all views; which of them are told from absent is decided over all keys."""
        mean = [replace(one.mean, flag=np.asarray(one.alone)) for one in told]
        numbers = {name: [getattr(one, name) for one in told] for name in OPTIONAL}
        numbers["scores"] = [None if one.frequency.absent else one.distances for one in told]
        return Estimates(
            header=header,
            respondents=self._placed([one.respondents for one in told]),
            frequency=self._column([one.frequency for one in told]),
            mean=self._column(mean),
            **{name: None if any(one is None for one in row) else self._placed(row) for name, row in numbers.items()},
        )

    def _column(self, columns: Sequence[Column]) -> Column:
        first = columns[0]
        if first.absent:
            return Column.unknown(self.schema, first.absent, scaled=first.scaled)
        names = ("values", "se", "low", "high", "flag")
        numbers = {name: self._placed([getattr(one, name) for one in columns]) for name in names}
        return Column(self.schema, **numbers, scaled=first.scaled)

    def _placed(self, rows: Sequence[Any]) -> Any:
        """Numbers of the keys of every view, in the order of all keys."""
        return np.concatenate(rows)[np.argsort(np.concatenate(list(self.views.values())))]

    def report_effects(self, tally: Tally) -> list[Effects]:
        """Those of every view on its own keys."""
        return [
            effect.placed(places, self.schema.d)
            for number, (part, places) in enumerate(zip(self.parts, self.views.values(), strict=True))
            for effect in need(part, ReportEffects).report_effects(self.part_tally(tally, number))
        ]

    def reachable(self, tally: Tally, of: Callable[[Mechanism, Tally], Reachable]) -> Reachable:
        """Those of every view on its own keys."""
        own = [of(part, self.part_tally(tally, number)) for number, part in enumerate(self.parts)]
        return lambda leave, come: placed([one(leave, come) for one in own], list(self.views.values()))

    # -- capabilities and what is enumerated --------------------------------------------------------------------

    @cached_property
    def lacks(self) -> frozenset[type]:
        """All that needs to know of several views at once; a view's own mechanism can be asked about its own keys.

        Errors are predicted from the law of set sizes, which nobody has for a view.
        """
        has: set[type] = {Announced, TallyLaw} if all(map(declared_law, self.parts)) else {Announced}
        return CAPABILITIES - (has | {one for one in (ReportEffects,) if all(can(part, one) for part in self.parts)})

    @property
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "views": len(self.views)}

    def every_record(self) -> Iterator[Pairs]:
        """The records that a view is to be enumerated with, alone and together with those of the other views."""
        lifted = [
            [tuple((int(places[key]), value) for key, value in pairs) for pairs in part.every_record()]
            for part, places in zip(self.parts, self.views.values(), strict=True)
        ]
        whole = [
            tuple(sorted(pair for own in together for pair in own)) for together in zip_longest(*lifted, fillvalue=())
        ]
        yield from dict.fromkeys([record for own in (*lifted, whole) for record in own])

    def reduced(self) -> Self:
        small = max(self.parts, key=lambda part: part.schema.d).reduced()
        count, d = min(len(self.views), _REDUCED_VIEWS), small.schema.d
        keys = [self.small_key(view, key) for view in range(count) for key in range(d)]
        rows = None if small.schema.levels is None else [small.schema.levels_of(key) for key in range(d)] * count
        options = {self.view_of(self.small_key(view, 0)): small.options for view in range(count)}
        return replace(self, schema=Schema(keys, levels=rows), group_options=options, max_pairs=None, overflow=None)


@dataclass(frozen=True)
class Hierarchy(Views):
    """Keys of a hierarchy, such as food/fruit/apple: everybody answers about one level of it."""

    name: ClassVar[str] = "hierarchy"

    @staticmethod
    def view_of(key: str) -> str:
        return str(depth(key))

    @staticmethod
    def small_key(view: int, key: int) -> str:
        return "0/" * view + str(key)

    __hash__ = Views.__hash__


@dataclass(frozen=True)
class Coordinates(Views):
    """Values of several coordinates, which are keys such as pizza/price: everybody answers about one coordinate."""

    name: ClassVar[str] = "coordinates"

    @staticmethod
    def view_of(key: str) -> str:
        return coordinate(key)

    @staticmethod
    def small_key(view: int, key: int) -> str:
        return f"{key}/{view}"

    __hash__ = Views.__hash__


def _most_hidden(found: Sequence[Undercount | None]) -> Undercount | None:
    """What the caps of views hide at most; unknown if one of them does not tell."""
    known = [one for one in found if one is not None]
    unknown = [one for one in known if one.state == UNKNOWN]
    return unknown[0] if unknown else max(known, key=lambda one: one.limit or 0.0, default=None)


def _refused(sentence: str) -> MechanismError:
    return MechanismError("mechanism/option", sentence)
