from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from keyveil.core.errors import ReportError
from keyveil.core.public import public_index, public_word
from keyveil.kernels.public_cells import PublicCells, _add_cells, _add_public, add_cells
from keyveil.kernels.siphash import as_pairs, sip_state

KEY = bytes(range(16))


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_loop_twin_and_single_reports_count_alike(kind: type) -> None:
    generator = np.random.default_rng(2)
    publics = generator.integers(0, 256, (700, 16), dtype=np.uint8)
    answers: np.ndarray[Any, Any] = generator.integers(0, 3, 700).astype(kind)
    cells = PublicCells(answers=3, bound=11, by_answer=11, by_index=1)
    wanted = np.zeros((3, 11), dtype=np.int64)
    for public, answer in zip(publics, answers, strict=True):
        wanted[int(answer), public_index(public_word(public.tobytes(), KEY), 11)] += 1
    for count in (_add_public.compiled, _add_public.twin):
        counts = np.zeros(33, dtype=np.int64)
        assert count(counts, sip_state(KEY), as_pairs(publics), answers, tuple(cells))
        assert np.array_equal(counts.reshape(3, 11), wanted)
    added = wanted.copy()
    cells.add(added, KEY, publics, answers)
    assert np.array_equal(added, 2 * wanted)


@pytest.mark.parametrize("cells", [5, 1 << 12])  # counted by all, and one by one
def test_plain_cells_have_a_twin(cells: int) -> None:
    places = np.random.default_rng(3).integers(0, cells, 500)
    loop, twin = np.zeros(cells, dtype=np.int64), np.zeros(cells, dtype=np.int64)
    assert _add_cells.compiled(loop, places, cells) and _add_cells.twin(twin, places, cells)
    assert np.array_equal(loop, twin) and np.array_equal(loop, np.bincount(places, minlength=cells))


@pytest.mark.parametrize("odd", [-1, 3, 1 << 40])
def test_an_answer_that_there_is_not_is_refused_and_not_looked_up(odd: int) -> None:
    """An index is not checked again, so that counting it would write out of bounds."""
    publics, answers = np.zeros((2, 16), dtype=np.uint8), np.array([0, odd])
    for bound in (1, 7):
        counts = np.zeros(3 * bound, dtype=np.int64)
        with pytest.raises(ReportError, match="below 3"):
            PublicCells(3, bound, by_answer=bound, by_index=1).add(counts, KEY, publics, answers)
        assert not counts.any()  # of its block of ids
    assert not _add_cells.twin(np.zeros(3, dtype=np.int64), answers, 3)
    with pytest.raises(ReportError):
        add_cells(np.zeros(3, dtype=np.int64), answers, 3)
