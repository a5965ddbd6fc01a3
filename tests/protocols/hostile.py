"""A collector who announces whatever tells most, and what a person loses to it over all rounds: exact, by enumeration.

Given what was announced, the answers of one person in different rounds are independent. So the worst that a strategy
can do to a pair of records is the product over rounds of the worst single round for that same pair: it may choose
every announcement after seeing all earlier answers, and the public keys may fall as unluckily as they can.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product

from keyveil.core.schema import GRID
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.keyvalue.privkv_round import PrivKVRound
from keyveil.privacy.enumerate import law


def records(d: int, values: Sequence[int | None] = (None, -GRID, 0, GRID)) -> list[Pairs]:
    """Every set over d keys with values of both ends and one between."""
    return [[(key, v) for key, v in enumerate(chosen) if v is not None] for chosen in product(values, repeat=d)]


def announcements(asked: PrivKVRound) -> list[Mechanism]:
    """The round under every broadcast of extremes and middles."""
    return [replace(asked, fake=fakes) for fakes in product((-GRID, 0, GRID), repeat=asked.schema.d)]


def worst_loss(rounds: Iterable[Sequence[Mechanism]], people: Sequence[Pairs]) -> Fraction:
    """The largest ratio of the probabilities of everything that a collector sees, for two people.

    Each round is given by all the forms in which it may be asked.
    """
    together: dict[tuple[int, int], Fraction] = {}
    for forms in rounds:
        for pair, ratio in _worst_by_pair(forms, people).items():
            together[pair] = together.get(pair, Fraction(1)) * ratio
    return max(together.values())


def epsilon(ratio: Fraction) -> float:
    return math.log(ratio)


def _worst_by_pair(forms: Sequence[Mechanism], people: Sequence[Pairs]) -> dict[tuple[int, int], Fraction]:
    worst: dict[tuple[int, int], Fraction] = {}
    for form in forms:
        for word in form.every_word():
            laws = [law(partial(form.respond, pairs, word)) for pairs in people]
            for i, one in enumerate(laws):
                for j, other in enumerate(laws):
                    ratio = max(share / other[report] for report, share in one.items())
                    worst[i, j] = max(worst.get((i, j), ratio), ratio)
    return worst
