from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.core.records import Records
from keyveil.core.schema import GRID
from keyveil.kernels.held import values_of
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.encoders import (
    Cap,
    PadAndSample,
    UniformKey,
    are_positive,
    is_positive,
    round_many,
    round_to,
    value_of,
)
from keyveil.privacy.enumerate import law

values = st.integers(-GRID, GRID)


def people(*records: list[tuple[int, int]], d: int = 6) -> Records:
    offsets = np.cumsum([0, *map(len, records)]).astype(np.int64)
    pairs = [pair for record in records for pair in record]
    keys, grid = (np.array([pair[side] for pair in pairs], dtype=np.int32) for side in (0, 1))
    return Records(offsets, keys, grid, d)


@given(values)
def test_signs_are_unbiased(value: int) -> None:
    plus = law(lambda coins: is_positive(value, coins)).get(True, Fraction(0))
    assert 2 * plus - 1 == Fraction(value, GRID)


@given(values, st.integers(1, 2048))
def test_rounding_to_few_steps_is_unbiased(value: int, top: int) -> None:
    steps = law(lambda coins: round_to(value, top, coins))
    assert all(0 <= step <= top for step in steps)
    assert sum(step * share for step, share in steps.items()) == Fraction((GRID + value) * top, 2 * GRID)


def test_bulk_rounding_has_the_same_mean() -> None:
    many = np.full(100_000, GRID // 3, dtype=np.int32)
    plus, steps = are_positive(many, SeededCoins(1)), round_many(many, 10, SeededCoins(2))
    assert plus.mean() == pytest.approx(2 / 3, abs=0.009)  # 6 standard errors
    assert set(steps) == {6, 7}
    assert steps.mean() == pytest.approx(20 / 3, abs=0.009)
    ends = np.array([-GRID, GRID], dtype=np.int32)
    assert are_positive(ends, SeededCoins(3)).tolist() == [False, True]
    assert round_many(ends, 10, SeededCoins(3)).tolist() == [0, 10]


def test_values_are_found_person_by_person() -> None:
    records = people([(0, 5), (3, -7)], [], [(5, 9)])
    held, found = values_of(records, np.array([3, 0, 5]))
    assert held.tolist() == [True, False, True]
    assert found.tolist() == [-7, 0, 9]
    assert value_of([(0, 5), (3, -7)], 3) == -7
    assert value_of([(0, 5)], 3) is None
    nobody = values_of(people([], []), np.array([0, 1]))
    assert nobody[0].tolist() == [False, False]


def test_a_public_key_is_uniform_and_independent_of_the_record() -> None:
    encoder = UniformKey(7)
    assert [encoder.key(word) for word in encoder.every_word()] == list(range(7))
    words = SeededCoins(4).words(70_000)
    counts = np.bincount(encoder.keys(words), minlength=7)
    assert np.abs(counts - 10_000).max() < 600  # 6 standard errors
    assert [encoder.key(int(word)) for word in words[:100]] == encoder.keys(words[:100]).tolist()


@pytest.mark.parametrize("size", [0, 1, 3, 5])
def test_padding_and_sampling_includes_each_pair_alike(size: int) -> None:
    encoder, record = PadAndSample(3), [(key, key) for key in range(size)]
    shares = law(lambda coins: encoder.draw(record, coins))
    room = max(size, 3)
    assert {shares[pair] for pair in record} <= {Fraction(1, room)}
    assert shares.get(None, Fraction(0)) == Fraction(room - size, room)


def test_padding_and_sampling_in_bulk() -> None:
    n = 30_000
    records = people(*([[(1, 11), (4, 44)], [], [(0, 1), (1, 2), (2, 3), (3, 4)]] * n))
    keys, found = PadAndSample(3).draw_many(records, SeededCoins(5))
    pairs, empty, large = keys[0::3], keys[1::3], keys[2::3]
    assert set(empty) == {-1}
    assert [np.mean(pairs == key) for key in (1, 4, -1)] == pytest.approx([1 / 3] * 3, abs=0.018)
    assert [np.mean(large == key) for key in range(4)] == pytest.approx([0.25] * 4, abs=0.017)
    assert set(found[0::3][pairs == 4]) == {44}
    only_empty = PadAndSample(3).draw_many(people([], []), SeededCoins(5))
    assert only_empty[0].tolist() == [-1, -1]


def test_a_cap_keeps_a_uniform_choice() -> None:
    record = [(key, 10 * key) for key in range(4)]
    shares = law(lambda coins: tuple(Cap(2).draw(record, coins)))
    assert len(shares) == 6
    assert set(shares.values()) == {Fraction(1, 6)}
    assert Cap(4).draw(record, SeededCoins(1)) == record


def test_a_cap_in_bulk() -> None:
    n = 20_000
    record = [(key, 10 * key) for key in range(4)]
    capped = Cap(2).draw_many(people(*([record, [(5, 1)], []] * n)), SeededCoins(6))
    assert capped.sizes[0::3].tolist() == [2] * n
    assert set(capped.sizes[1::3]) == {1} and set(capped.sizes[2::3]) == {0}
    assert (capped.values == np.where(capped.keys == 5, 1, 10 * capped.keys)).all()
    first = capped.keys[np.repeat(np.arange(3 * n) % 3 == 0, capped.sizes)].reshape(n, 2)
    assert (first[:, 0] < first[:, 1]).all()
    codes = np.bincount(first[:, 0] * 4 + first[:, 1])
    assert codes[codes > 0] / n == pytest.approx([1 / 6] * 6, abs=0.016)
    untouched = people([(0, 1)], [(1, 2)])
    assert Cap(2).draw_many(untouched, SeededCoins(6)) is untouched
