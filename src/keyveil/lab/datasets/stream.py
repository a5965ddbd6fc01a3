"""People who are made in blocks when they are asked, and never all in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.lab.datasets.recipe import Recipe

STREAMED_PAIRS = 5 * 10**7  # more are made in blocks; the same on every machine, since it decides who they are
BLOCK = 1 << 16  # people of a block


@dataclass(frozen=True, eq=False)
class Stream:
    """n people of a recipe. The people of a block depend on the seed and the number of the block, on nothing else."""

    recipe: Recipe
    n: int
    seed: int
    schema: Schema

    def __len__(self) -> int:
        """How many blocks there are."""
        return -(-self.n // BLOCK)

    def block(self, place: int) -> Population:
        """The people of one block."""
        return self.recipe.draw_block(min(BLOCK, self.n - place * BLOCK), self.seed, place)

    @cached_property
    def sample(self) -> Population:
        """The people of the first block: options that depend on set sizes are chosen by them."""
        return self.block(0)
