"""Data sets as people name them on a command line: a file of user, key and value, or a synthetic population.

The latter are called ``synthetic:NAME[:PEOPLE[:OPTION=NUMBER,…]]``. ``movielens:FOLDER`` and its like are the data of
the papers in the files in which they are given out (``papers``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keyveil.core.errors import PopulationError
from keyveil.core.schema import Number
from keyveil.lab.datasets.dataset import Dataset
from keyveil.lab.datasets.papers import is_source, of_source
from keyveil.lab.datasets.real import real
from keyveil.lab.datasets.recipes import load
from keyveil.lab.datasets.stream import STREAMED_PAIRS

SYNTHETIC = "synthetic"

_MOST_DIGITS = 18  # of a number of people


def named(
    data: str,
    *,
    user: str = "user",
    key: str = "key",
    value: str = "value",
    low: Number | None = None,
    high: Number | None = None,
    levels: Sequence[Number] | None = None,
    hierarchy: bool = False,
    groups: Sequence[str] | None = None,
    seed: int = 0,
    stream: bool = False,
    stream_beyond: float = STREAMED_PAIRS,
) -> Dataset:
    """The people that a text names, with the schema that was given or that the data suggest.

    ``stream`` allows more synthetic people than memory holds; beyond ``stream_beyond`` pairs they are made in blocks.
    """
    kind, _, rest = data.partition(":")
    if is_source(data):
        return of_source(data)
    if kind != SYNTHETIC:
        bounds: dict[str, Any] = {"low": low, "high": high, "levels": levels}
        return real(data, user=user, key=key, value=value, **bounds, hierarchy=hierarchy, groups=groups)
    if groups is not None:
        raise PopulationError("population/groups", "Keys of synthetic people have no groups; those of files may.")
    if hierarchy:
        raise PopulationError("population/hierarchy", "Keys of synthetic people form no hierarchy; files may have one.")
    if low is not None or high is not None or levels is not None:
        raise PopulationError(
            "population/range", "Synthetic values lie between -1 and 1; --low, --high and --levels are for files."
        )
    name, people, options = (*rest.split(":", 2), "", "")[:3]
    if people and not (people.isascii() and people.isdigit() and len(people) <= _MOST_DIGITS):
        raise PopulationError("population/size", f"The number of people must be a whole number, not {people[:40]!r}.")
    n = int(people) if people else None
    return load(name, n=n, seed=seed, stream=stream, stream_beyond=stream_beyond, **_numbers(options))


def _numbers(options: str) -> dict[str, float]:
    """``slope=2,size=3`` as numbers."""
    numbers: dict[str, float] = {}
    for item in filter(None, options.split(",")):
        name, _, number = item.partition("=")
        try:
            numbers[name] = float(number)
        except ValueError:
            raise PopulationError("population/option", f"Options look like slope=2,size=3, not {item!r}.") from None
    return numbers
