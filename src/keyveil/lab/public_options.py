"""Options about people that a collection must fix in public, filled in from the data of a simulation.

A mechanism or protocol that has the option ``max_pairs`` gets a cap, one that has ``set_sizes`` the law of set sizes,
one that has ``typical`` how large values are, unless they are given, or its rounds find them out
(``Protocol.finds_out``). A collection with a cap also gets the usual overflow group, as a campaign does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.epsilon import Number
from keyveil.core.schema import GRID, Schema
from keyveil.frames.population import Population
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import Capped, LearnsSizes
from keyveil.mechanisms.construction import form_of
from keyveil.mechanisms.options import option_names, spelled
from keyveil.mechanisms.overflow.beside import OPTION, USUAL_SHARE, with_usual_group
from keyveil.mechanisms.registry import build, find
from keyveil.mechanisms.size_law import SizeLaw
from keyveil.protocols.base import Protocol
from keyveil.protocols.registry import as_protocol

CAP_QUANTILE = 0.9  # of set sizes, when a cap is needed and none is given

_IN_PUBLIC = "a campaign would fix it in public."


def made_for(
    name: str, schema: Schema, epsilon: Number, sizes: NDArray[np.int64], options: Mapping[str, Any]
) -> tuple[Mechanism | Protocol, tuple[str, ...]]:
    """A mechanism or protocol by name for people who hold so many pairs each, and what was chosen for it."""
    filled, notes = with_public(name, sizes, schema.d, options)
    return build(name, schema, epsilon, filled), notes


def collected_for(
    name: str, schema: Schema, epsilon: Number, sizes: NDArray[np.int64], options: Mapping[str, Any]
) -> tuple[Mechanism | Protocol, tuple[str, ...]]:
    """The same as a campaign would collect it: with the usual overflow group, unless ``overflow`` is given."""
    filled, notes = with_public(name, sizes, schema.d, with_usual_group(name, options))
    made = build(name, schema, epsilon, filled)
    if OPTION in as_protocol(made).parameters and spelled(options).get(OPTION) is None:
        share = round(100 * USUAL_SHARE)
        told = f"{share} of 100 people are asked how far they exceed the cap instead; overflow=off asks nobody."
        notes += (told,)
    return made, notes


def with_typical(
    name: str, people: Population, schema: Schema, options: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The options of a mechanism or protocol with how large values typically are, and what to say about it."""
    given = spelled(options)
    if given.get("typical") is not None or "typical" not in option_names(find(name)):
        return given, ()
    values = people.records(schema).values / GRID
    square = float(np.mean(values**2)) if len(values) else 0.0
    given["typical"] = f"{max(math.sqrt(square), 0.01):.2f}"
    return given, (f"typical is {given['typical']}, the root mean square of values on [-1, 1]; {_IN_PUBLIC}",)


def with_public(
    name: str, sizes: NDArray[np.int64], d: int, options: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The options of a mechanism or protocol with what it must know of set sizes, and what to say about it.

    ``sizes`` has the number of pairs of every person, ``d`` is the number of keys.
    """
    given, notes = spelled(options), []
    kind = form_of(find(name), given)
    found_out: frozenset[str] = getattr(kind, "finds_out", frozenset())
    lacking = {option for option in option_names(kind) if given.get(option) is None} - found_out
    if "set_sizes" in lacking and _learns_sizes(kind, given, sizes, d):
        given["set_sizes"] = law_of(sizes)
        notes.append(f"set_sizes is the law of the data, to four decimals; {_IN_PUBLIC}")
    if "max_pairs" in lacking and (issubclass(kind, Capped) or not issubclass(kind, Mechanism)):
        given["max_pairs"] = cap = usual_cap(sizes, d)
        notes.append(f"max_pairs is {cap}, the {CAP_QUANTILE:.0%} quantile of the set sizes; {_IN_PUBLIC}")
    return given, tuple(notes)


def _learns_sizes(kind: type[Any], given: Mapping[str, Any], sizes: NDArray[np.int64], d: int) -> bool:
    """Whether these options leave it to people's set sizes what the others are."""
    if not issubclass(kind, LearnsSizes):
        return False
    learnt = kind.options_for_sizes(SizeLaw.read(law_of(sizes)), usual_cap(sizes, d), d)
    return all(str(given.get(option) or 0) == "0" for option in learnt)


def usual_cap(sizes: NDArray[np.int64], d: int) -> int:
    """The cap that set sizes suggest: the 90 % quantile, at least 1 and at most the number of keys."""
    return min(max(int(np.quantile(sizes, CAP_QUANTILE, method="inverted_cdf")), 1), d)


def law_of(sizes: NDArray[np.int64]) -> str:
    """The law of set sizes to four decimals, in the spelling of ``set_sizes``: 1:0.2,2:0.8."""
    shares = np.round(np.bincount(sizes) / max(len(sizes), 1), 4)
    return ",".join(f"{size}:{shares[size]:g}" for size in np.flatnonzero(shares))
