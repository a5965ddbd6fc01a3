"""What the key-value mechanisms share: a record is any set of pairs, the empty one included."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import ClassVar, Self

from keyveil.core.errors import MechanismError
from keyveil.core.schema import GRID, Schema
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.capabilities import Takes

REDUCED_KEYS = 3

FREQUENCIES_AND_MEANS, FREQUENCIES = frozenset({"frequency", "mean"}), frozenset({"frequency"})


class KeyValue(Mechanism):
    """A mechanism for sets of key-value pairs."""

    takes: ClassVar[Takes] = "every set"

    @property
    def estimated(self) -> frozenset[str]:
        return FREQUENCIES_AND_MEANS

    def check(self, pairs: Pairs) -> Pairs:
        return pairs

    def every_value(self, key: int = 0) -> Sequence[int]:
        """Values of a key of which all others are mixtures: the ends of the range, unless there are cells or points."""
        return (-GRID, GRID)

    def every_record(self) -> Iterable[Pairs]:
        """Every set of keys with every choice of values that matter, and one value between: others are mixtures."""
        for values in product(*((None, *self.every_value(key)) for key in range(self.schema.d))):
            yield [(key, value) for key, value in enumerate(values) if value is not None]
        yield [(0, GRID // 3)]

    def reduced(self) -> Self:
        return self if self.schema.d <= REDUCED_KEYS else replace(self, schema=Schema(keys=REDUCED_KEYS))


def refused(sentence: str) -> MechanismError:
    """One sentence about options that make no sense."""
    return MechanismError("mechanism/option", sentence)
