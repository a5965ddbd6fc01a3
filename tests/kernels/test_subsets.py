"""Subsets are uniform given how many held members they must have. Chi-square tests at 1e-8."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from keyveil.core.coins import Coins
from keyveil.kernels import subsets
from keyveil.kernels.subsets import count_symbols, draw_subsets

FixedCoins = Callable[[int], Coins]
Draw = Callable[..., NDArray[np.int32]]
PEOPLE = 30_000


@pytest.fixture(params=["compiled", "numpy"])
def draw(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Draw:
    monkeypatch.setattr(subsets, "native", lambda: request.param == "compiled")
    monkeypatch.setattr(subsets, "_draw_rows", subsets._draw_rows.compiled)
    return draw_subsets


def frequencies(rows: NDArray[np.int32], possible: Sequence[tuple[int, ...]]) -> NDArray[np.int64]:
    place = {members: index for index, members in enumerate(possible)}
    return np.bincount([place[tuple(row)] for row in rows.tolist()], minlength=len(possible))


@pytest.mark.parametrize(("size", "hits"), [(1, 0), (3, 0), (3, 1), (3, 2), (5, 1), (6, 2)])
def test_every_subset_with_the_right_hits_is_equally_likely(
    draw: Draw, size: int, hits: int, fixed: FixedCoins
) -> None:
    symbols, held = 7, (5, 2)
    rows = draw(np.tile(held, (PEOPLE, 1)), np.full(PEOPLE, hits), symbols, size, fixed(1))
    possible = [m for m in combinations(range(symbols), size) if len(set(m) & set(held)) == hits]
    assert chisquare(frequencies(rows, possible)).pvalue > 1e-8


def test_the_test_would_see_a_favoured_member(fixed: FixedCoins) -> None:
    rows = draw_subsets(np.tile([5, 2], (PEOPLE, 1)), np.full(PEOPLE, 1), 7, 3, fixed(1))
    possible = [m for m in combinations(range(7), 3) if len(set(m) & {2, 5}) == 1]
    counts = frequencies(rows, possible)
    counts[:3] = counts[:3] * 13 // 10
    assert chisquare(counts).pvalue < 1e-8


@pytest.mark.parametrize(("symbols", "size"), [(64, 20), (65, 60), (300, 7), (2005, 103)])
def test_rows_are_sorted_subsets_with_as_many_hits_as_asked(
    draw: Draw, symbols: int, size: int, fixed: FixedCoins
) -> None:
    generator = np.random.default_rng(1)
    held = np.array([generator.permutation(symbols)[:4] for _ in range(500)])
    hits = generator.integers(max(0, size - symbols + 4), 5, 500)
    rows = draw(held, hits, symbols, size, fixed(2))
    assert rows.dtype == np.int32 and rows.shape == (500, size)
    assert (np.diff(rows, axis=1) > 0).all() and rows.min() >= 0 and rows.max() < symbols
    assert ((rows[:, :, None] == held[:, None, :]).sum(axis=(1, 2)) == hits).all()


def first_different(draws: Iterator[int], bound: int, taken: set[int], count: int) -> set[int]:
    """The first so many different numbers below a bound that are not taken, from 32-bit draws without bias."""
    found: set[int] = set()
    while len(found) < count:
        number, rest = divmod(next(draws) * bound, 1 << 32)
        if rest >= (1 << 32) % bound and number not in taken:
            found.add(number)
    return found


@pytest.mark.parametrize(("symbols", "size"), [(10, 3), (65, 60), (300, 90), (1025, 275), (1027, 700)])
def test_others_are_the_first_different_draws_of_the_keystream(
    symbols: int, size: int, fixed: FixedCoins, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by one or many at once: the same numbers for a seed, whatever the loop does to be quick."""
    monkeypatch.setattr(subsets, "native", lambda: True)
    monkeypatch.setattr(subsets, "_draw_rows", subsets._draw_rows.compiled)
    hits = np.arange(30) % 2
    rows = draw_subsets(np.full((30, 1), 4), hits, symbols, size, fixed(4))
    draws = fixed(4).words(subsets._KEYSTREAM).view(np.uint32).tolist()
    at = 0
    for row, hit in zip(rows.tolist(), hits.tolist(), strict=True):
        mine = iter(draws[at:])
        own = first_different(mine, 1, set(), hit)  # which of one held symbol: it takes a draw
        wanted, rest = size - hit, set(range(symbols)) - {4}
        few = min(wanted, symbols - 1 - wanted)
        drawn = first_different(mine, symbols, {4}, few)
        others = drawn if 2 * wanted <= symbols - 1 else rest - drawn
        assert row == sorted(others | ({4} if own else set()))
        at = len(draws) - len(list(mine))
        at += at % 2


@pytest.mark.parametrize(("symbols", "size"), [(50, 20), (300, 120)])
def test_running_out_of_words_changes_nothing(
    symbols: int, size: int, fixed: FixedCoins, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subsets, "native", lambda: True)
    monkeypatch.setattr(subsets, "_draw_rows", subsets._draw_rows.compiled)
    held, hits = np.tile([0, 1, 2], (400, 1)), np.arange(400) % 4
    in_one_go = draw_subsets(held, hits, symbols, size, fixed(3))
    monkeypatch.setattr(subsets, "_KEYSTREAM", 1)  # two words for each symbol: a few people at a time
    assert np.array_equal(draw_subsets(held, hits, symbols, size, fixed(3)), in_one_go)


def test_members_are_counted() -> None:
    rows = np.random.default_rng(4).integers(0, 40, (300, 6)).astype(np.int32)
    for count in (count_symbols.compiled, count_symbols.twin):
        assert count(rows, 45).tolist() == np.bincount(rows.ravel(), minlength=45).tolist()
