from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import pytest

from keyveil.core.epsilon import levels
from keyveil.core.errors import MechanismError
from keyveil.core.schema import GRID
from keyveil.kernels.hashing import hash_one
from keyveil.privacy.enumerate import law
from tests.mechanisms.keyvalue.sets import make, same_size, scores, variances


@pytest.mark.parametrize(
    ("d", "pairs", "epsilon", "cells", "variance"),
    [
        (1024, 1, "0.5", 3, 31.63),
        (1024, 1, "1", 4, 7.383),
        (1024, 1, "2", 8, 1.449),
        (1024, 1, "4", 56, 0.152),
        (20000, 5, "0.5", 18, 215.7),
        (20000, 5, "1", 24, 45.84),
        (20000, 5, "2", 49, 7.959),
        (20000, 5, "4", 286, 0.7712),
        (1000, 20, "1", 100, 189.2),
        (1000, 20, "4", 1149, 3.093),
    ],
)
def test_cells_and_variance(d: int, pairs: int, epsilon: str, cells: int, variance: float) -> None:
    """As stated for the noise of people who do not hold the key; the product of f and m has the same."""
    mechanism = make("collision", d, epsilon, max_pairs=pairs)
    assert mechanism.cells == pytest.approx(cells, abs=1)
    given = make("collision", d, epsilon, max_pairs=pairs, cells=cells)
    assert variances(given) == pytest.approx((variance, variance), rel=0.002)


def test_collisions_keep_the_total() -> None:
    """Two symbols in one cell: what it does not need is spread evenly over the other cells, and ε holds."""
    mechanism, pairs = make("collision", 2, max_pairs=2, cells=4), [(0, GRID), (1, GRID)]
    high, low = levels(Fraction(1))
    word = next(word for word in range(99) if hash_one(word, 1, 4) == hash_one(word, 3, 4))
    answers = law(partial(mechanism.respond, pairs, word))
    cell = hash_one(word, 1, 4)
    assert mechanism.total == 2 * high + 2 * low
    assert answers.pop(cell) == Fraction(high, mechanism.total)
    assert set(answers.values()) == {Fraction(high + 2 * low, 3 * mechanism.total)}


def test_errors_with_many_keys() -> None:
    """60 keys × 60 repeats: 14 % of the variance is six standard errors."""
    of_f, of_u = scores(make("collision", 60, max_pairs=5), same_size(5000, 60, 5, seed=1), repeats=60, seed=4)
    assert (of_f**2).mean() == pytest.approx(1, abs=0.14)
    assert (of_u**2).mean() == pytest.approx(1, abs=0.14)


@pytest.mark.parametrize("options", [{"cells": 5}, {"cells": 1 << 20}, {"cells": 0}])
def test_options_are_refused(options: Any) -> None:
    with pytest.raises(MechanismError):
        make("collision", 100, max_pairs=5, **options)
