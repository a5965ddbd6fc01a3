"""Synthetic populations by name, deterministic from a seed (docs/theory.md, synthetic people)."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable

from keyveil.core.errors import PopulationError
from keyveil.core.hints import did_you_mean
from keyveil.core.schema import Schema
from keyveil.lab.datasets.dataset import Dataset
from keyveil.lab.datasets.lifelike import LIFELIKE
from keyveil.lab.datasets.published import PUBLISHED
from keyveil.lab.datasets.recipe import Recipe
from keyveil.lab.datasets.stream import STREAMED_PAIRS, Stream

_RECIPES: dict[str, Callable[..., Recipe]] = PUBLISHED | LIFELIKE

_BYTES_A_PAIR = 40  # at the peak, measured


def names() -> tuple[str, ...]:
    """Every name that ``load`` takes."""
    return tuple(_RECIPES)


def recipe(name: str, **options: float) -> Recipe:
    """A recipe by name; ``grid`` and ``linear-s`` have options."""
    if name not in _RECIPES:
        hint = did_you_mean(name, _RECIPES) or f"; there are {', '.join(_RECIPES)}"
        raise PopulationError("population/unknown-recipe", f"There is no synthetic population {name!r}{hint}.")
    known = inspect.signature(_RECIPES[name]).parameters
    for option in options:
        if option not in known:
            there = f"its options are {', '.join(known)}" if known else "it has no options"
            hint = did_you_mean(option, known) or f"; {there}"
            raise PopulationError("population/option", f"The population {name} has no option {option!r}{hint}.")
    return _RECIPES[name](**options)


def recipe_of(source: str) -> Recipe | None:
    """The recipe behind the source of a data set, such as ``synthetic:grid:1000:keys=50``; None for files."""
    kind, _, rest = source.partition(":")
    name, _, options = (*rest.split(":", 2), "", "")[:3]
    if kind != "synthetic" or name not in _RECIPES:
        return None
    told = (item.partition("=") for item in options.split(",") if item)
    return recipe(name, **{option: float(number) for option, _, number in told})


def load(
    name: str,
    *,
    n: int | None = None,
    seed: int = 0,
    stream: bool = False,
    stream_beyond: float = STREAMED_PAIRS,
    **options: float,
) -> Dataset:
    """n people (by default as many as the recipe says) on the scale [-1, 1].

    With ``stream``, people with more than 5·10⁷ pairs (or ``stream_beyond``) are made in blocks when they are asked;
    otherwise they are refused if this machine cannot hold them.
    """
    law = recipe(name, **options)
    people = law.people if n is None else n
    if people < 1:
        raise PopulationError("population/size", f"A population has at least 1 person, not {people}.")
    chosen = ",".join(f"{option}={value:g}" for option, value in options.items())
    source = f"synthetic:{name}:{people}" + (f":{chosen}" if chosen else "")
    frequencies, _ = law.profile(seed)
    schema, title = Schema(keys=len(frequencies), levels=law.levels), f"{name} ({chosen})" if chosen else name
    pairs = people * float(frequencies.sum())
    if stream and pairs > stream_beyond:
        made = Stream(law, people, seed, schema)
        return Dataset(title, made.sample, schema, law.about, source, made)
    _refuse_crowds(name, people, pairs)
    return Dataset(title, law.draw(people, seed), schema, law.about, source)


def _refuse_crowds(name: str, people: int, pairs: float) -> None:
    """People whom this machine cannot hold are refused now, not after it has run out of memory."""
    needed, there = pairs * _BYTES_A_PAIR, _memory()
    if there is not None and needed > there:
        raise PopulationError(
            "population/size",
            f"{people:,} people of {name} hold about {pairs:.2g} pairs, which take {needed / 1e9:,.0f} GB; "
            f"this machine has {there / 1e9:,.0f} GB, so take fewer people.",
        )


def _memory() -> int | None:
    """Bytes of memory, where the system says."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
