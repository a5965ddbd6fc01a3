from __future__ import annotations

import numpy as np
import pytest

from keyveil.kernels.walsh import walsh


@pytest.mark.parametrize("size", [1, 2, 8, 256])
def test_it_multiplies_by_the_hadamard_matrix(size: int) -> None:
    index = np.arange(size)
    matrix = 1 - 2 * (np.bitwise_count(index[:, None] & index) % 2).astype(np.int64)
    vector = np.random.default_rng(size).integers(-1000, 1000, size)
    for transform in (walsh.compiled, walsh.twin):
        assert np.array_equal(transform(vector.copy()), matrix @ vector)


def test_it_works_in_place_and_is_its_own_inverse_up_to_the_size() -> None:
    vector = np.arange(64)
    assert walsh(vector) is vector
    assert np.array_equal(walsh(vector), 64 * np.arange(64))
