"""A population together with the public agreement about its keys and values."""

from __future__ import annotations

from dataclasses import dataclass

from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.lab.datasets.stream import Stream


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """People, the schema under which they report, and where they come from."""

    name: str
    population: Population
    schema: Schema
    about: str
    source: str  # the name of the file, or what ``synthetic:`` is followed by
    stream: Stream | None = None  # where people are made in blocks; ``population`` is then the first block

    @property
    def n(self) -> int:
        """How many people there are."""
        return self.population.n if self.stream is None else self.stream.n

    def __repr__(self) -> str:
        return f"Dataset({self.name}: {self.n:,} people, {self.schema.d:,} keys)"
