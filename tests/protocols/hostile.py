"""People over few keys, and what they lose to a collector who announces whatever tells most: exact, by enumeration."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import product

from keyveil.core.schema import GRID
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.protocols import certificate


def records(d: int, values: Sequence[int | None] = (None, -GRID, 0, GRID)) -> list[Pairs]:
    """Every set over d keys with values of both ends and one between."""
    return [[(key, v) for key, v in enumerate(chosen) if v is not None] for chosen in product(values, repeat=d)]


def worst_loss(rounds: Iterable[Sequence[Mechanism]], people: Sequence[Pairs]) -> Fraction:
    """The largest ratio over all rounds, each given by all the forms in which it may be asked."""
    return Fraction(certificate.worst_loss(rounds, people).ratio)


def epsilon(ratio: Fraction) -> float:
    return math.log(ratio)
