"""Directions are near normal, and the compiled loop names the very rows that their inner products rank."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from keyveil.kernels import directions as kernels
from keyveil.kernels.directions import directions, ranked_row, sum_told
from keyveil.lab.coins import SeededCoins

ROWS = 16


def rows_of(words: NDArray[np.uint64], coordinates: int) -> NDArray[np.int64]:
    every = np.broadcast_to(np.arange(ROWS), (len(words), ROWS))
    return directions(words, every, coordinates).astype(np.int64)


def test_directions_have_mean_zero_and_variance_one() -> None:
    """Half of 64,000 numbers that are near normal: mean and variance within five standard errors and a half."""
    numbers = rows_of(SeededCoins(1).words(160), 25) / 2
    assert abs(numbers.mean()) < 5.5 / math.sqrt(numbers.size)
    assert abs(numbers.var() - 1) < 5.5 * math.sqrt(2 / numbers.size)


@pytest.mark.parametrize("run", [kernels._ranked_row.compiled, kernels._ranked_row.twin], ids=["loop", "twin"])
@pytest.mark.parametrize(("coordinates", "longest"), [(1, 1), (5, 2), (25, 900), (257, 1 << 14)])
def test_rows_are_ranked_by_their_inner_products(run: object, coordinates: int, longest: int) -> None:
    """Short vectors make many ties, which go to the first row; vectors of the largest length still rank exactly."""
    rng, words = np.random.default_rng(coordinates), SeededCoins(2).words(ROWS)
    vectors = rng.integers(-longest, longest + 1, (ROWS, coordinates))
    vectors = (vectors * min(1, longest / math.sqrt((vectors**2).sum(axis=1).max()))).astype(np.int16)
    along = (rows_of(words, coordinates) * vectors[:, None].astype(np.int64)).sum(axis=2)
    best_first = np.argsort(-along, axis=1, kind="stable")
    places = np.arange(ROWS)
    assert run(vectors, words, ROWS, places).tolist() == np.diag(best_first).tolist()  # type: ignore[operator]


def test_one_person_is_ranked_as_all_are() -> None:
    vectors = np.random.default_rng(3).integers(-99, 100, (50, 9)).astype(np.int16)
    words, places = SeededCoins(4).words(50), np.arange(50) % ROWS
    together = ranked_row(vectors, words, ROWS, places)
    alone = [ranked_row(vectors[i : i + 1], words[i : i + 1], ROWS, places[i : i + 1])[0] for i in range(50)]
    assert together.tolist() == alone


@pytest.mark.parametrize(("block", "d"), [(4, 4), (3, 7)])
def test_sums_are_those_of_the_rows_that_were_told(block: int, d: int) -> None:
    words, told = SeededCoins(5).words(40), np.arange(40) % ROWS
    first = np.arange(40) % d if block < d else np.zeros(40, dtype=np.int64)
    expected = np.zeros((3, d), dtype=np.int64)
    for row, begin in zip(rows_of(words, 2 * block + 1)[np.arange(40), told], first, strict=True):
        for k in range(block):
            expected[:, (begin + k) % d] += (1, row[k], row[block + k])
    assert (sum_told(words, told, first, block, d) == expected).all()
