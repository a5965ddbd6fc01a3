"""A population together with the public agreement about its keys and values."""

from __future__ import annotations

from dataclasses import dataclass

from keyveil.core.schema import Schema
from keyveil.frames.population import Population


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """People, the schema under which they report, and where they come from."""

    name: str
    population: Population
    schema: Schema
    about: str
    source: str  # the name of the file, or what ``synthetic:`` is followed by

    def __repr__(self) -> str:
        return f"Dataset({self.name}: {self.population.n:,} people, {self.schema.d:,} keys)"
