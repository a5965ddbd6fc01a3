from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from keyveil.core.epsilon import levels
from keyveil.core.errors import MechanismError
from keyveil.core.schema import GRID
from keyveil.kernels.hashing import hash_one
from keyveil.privacy.enumerate import law
from tests.mechanisms.keyvalue.sets import PLANNER, make, same_size, scores, variances


def test_supports_of_five_pairs() -> None:
    mechanism = make("wheel", 100, max_pairs=5, arc=168)
    odds = mechanism.odds[0][1]
    assert float(odds.own) == pytest.approx(0.0824412236, abs=1e-9)
    assert odds.other == Fraction(168, 4096) == Fraction("0.0410156250")


@pytest.mark.parametrize("row", PLANNER)
def test_variance_of_rare_keys(row: Any) -> None:
    d, pairs, epsilon, *_, expected, _ = row
    mechanism = make("wheel", d, epsilon, max_pairs=pairs)
    assert variances(mechanism) == pytest.approx((expected, expected), rel=0.005)
    for arc in (mechanism.arc - 1, mechanism.arc + 1):
        worse = variances(make("wheel", d, epsilon, max_pairs=pairs, arc=arc))[0]
        assert variances(mechanism)[0] <= worse * (1 + 1e-9)


def test_cells_of_an_answer() -> None:
    """Covered cells weigh A each, all others alike, and never less than B: also where arcs overlap."""
    mechanism, pairs = make("wheel", 2, max_pairs=2, cells=16, arc=5), [(0, GRID), (1, -GRID)]
    high, low = levels(Fraction(1))
    sizes = set()
    for word in range(40):
        covered = {(hash_one(word, symbol, 16) + step) % 16 for symbol in (1, 2) for step in range(5)}
        answers = law(partial(mechanism.respond, pairs, word))
        inside = {answers[cell] for cell in covered}
        outside = {answers[cell] for cell in range(16) if cell not in covered}
        assert inside == {Fraction(high, mechanism.total)}
        assert len(outside) == 1 and min(outside) >= Fraction(low, mechanism.total)
        sizes.add(len(covered))
    assert {5, 10} <= sizes  # on top of each other, and apart


def test_errors_with_many_keys() -> None:
    """60 keys × 60 repeats: 14 % of the variance is six standard errors."""
    of_f, of_u = scores(make("wheel", 60, max_pairs=5), same_size(5000, 60, 5, seed=1), repeats=60, seed=3)
    assert (of_f**2).mean() == pytest.approx(1, abs=0.14)
    assert (of_u**2).mean() == pytest.approx(1, abs=0.14)
    assert abs(of_f.mean(axis=0) * np.sqrt(60)).max() < 6.2  # 60 keys: false alarm below 1e-7


def test_supports_are_counted_around_the_circle() -> None:
    mechanism, words = make("wheel", 10, max_pairs=2, cells=16, arc=5), np.arange(50, dtype=np.uint64)
    cells = np.arange(50) * 7 % 16
    expected = np.zeros((2, 10), dtype=int)
    for word, cell in zip(words.tolist(), cells.tolist(), strict=True):
        for symbol in range(20):
            expected[symbol % 2, symbol // 2] += (cell - hash_one(word, symbol, 16)) % 16 < 5
    assert (mechanism.fold(cells, words) == expected).all()


def test_twelve_bits_a_report() -> None:
    assert make("wheel", 100_000, max_pairs=20).bits_per_report == 12


@pytest.mark.parametrize("options", [{"cells": 1000}, {"cells": 2}, {"arc": 0}, {"arc": 900}, {"cells": 4}])
def test_options_are_refused(options: Any) -> None:
    with pytest.raises(MechanismError):
        make("wheel", 100, max_pairs=5, **options)
