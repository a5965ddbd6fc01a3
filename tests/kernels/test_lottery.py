"""The smallest numbers of each row, against sorted rows."""

from __future__ import annotations

import numpy as np
import pytest

from keyveil.kernels.lottery import smallest


@pytest.mark.parametrize("d", [1, 2, 7, 300])
def test_loop_and_twin_choose_the_smallest(d: int) -> None:
    rng = np.random.default_rng(d)
    lottery = rng.integers(0, 1 << 64, size=(60, d), dtype=np.uint64)
    lottery[::2] >>= np.uint64(50)  # all in one part, and equal numbers among them
    counts = np.array([0, d, d // 2, d - 1, 1 % (d + 1)] * 12)
    chosen = smallest.compiled(lottery, counts)
    assert (chosen == smallest.twin(lottery, counts)).all() and (chosen == smallest(lottery, counts)).all()
    distinct = [len(set(row.tolist())) == d for row in lottery]
    assert any(distinct)
    for row, count, own, whole in zip(lottery, counts, chosen, distinct, strict=True):
        assert not whole or own.sum() == count
        assert not own.any() or own.all() or row[own].max() < row[~own].min()
