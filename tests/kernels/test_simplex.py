from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from keyveil.kernels.simplex import nearest_with_sum


def test_the_nearest_vector_with_a_sum() -> None:
    assert nearest_with_sum(np.array([-0.3, 0.05, 0.5, 0.8])) == pytest.approx([0, 0, 0.35, 0.65])
    assert nearest_with_sum(np.array([1.4, 0.3, -1]), 1.5, upper=1.0) == pytest.approx([1, 0.5, 0])


@given(some.lists(some.floats(-2, 2), min_size=1, max_size=8), some.floats(0, 1), some.booleans())
def test_it_has_the_sum_lies_within_the_bounds_and_moves_what_is_inside_by_one_shift(
    raw: list[float], share: float, bounded: bool
) -> None:
    """These three together are the conditions under which it is the nearest."""
    vector, upper = np.array(raw), 1.0 if bounded else None
    near = nearest_with_sum(vector, share * len(raw), upper)
    assert near.sum() == pytest.approx(share * len(raw), abs=1e-9)
    assert near.min() >= 0 and (upper is None or near.max() <= upper)
    inside = (near > 1e-12) & (near < (upper or np.inf) - 1e-12)
    moved = (near - vector)[inside]
    assert moved == pytest.approx(np.full(len(moved), moved.mean() if len(moved) else 0), abs=1e-9)
    if len(moved):  # what lies at a bound would have gone beyond it
        assert (vector[near <= 1e-12] + moved[0] <= 1e-9).all()
        assert upper is None or (vector[near >= upper - 1e-12] + moved[0] >= upper - 1e-9).all()
