from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyveil.kernels.bits import count_bits


def test_bit_b_of_word_j_is_column_64_j_plus_b() -> None:
    words = np.array([[1, 1 << 63], [1, 4]], dtype=np.uint64)
    counts = count_bits(words)
    assert counts[0] == 2 and counts[64 + 63] == 1 and counts[64 + 2] == 1 and counts.sum() == 4


@given(n=st.integers(0, 700), width=st.integers(1, 5), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_loop_and_twin_count_alike(n: int, width: int, seed: int) -> None:
    words = np.random.default_rng(seed).integers(0, 1 << 64, (n, width), dtype=np.uint64)
    assert np.array_equal(count_bits.compiled(words), count_bits.twin(words))


@pytest.mark.parametrize("n", [8191, 8192, 8193, 20_000])
def test_full_columns_survive_every_block_boundary(n: int) -> None:
    words = np.full((n, 2), (1 << 64) - 1, dtype=np.uint64)
    assert (count_bits.compiled(words) == n).all() and (count_bits.twin(words) == n).all()
