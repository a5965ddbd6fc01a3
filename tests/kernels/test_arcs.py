"""Cells by rank, inside and outside of everybody's arcs, against sets of cells."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keyveil.core.coins import Coins
from keyveil.kernels.arcs import Arcs, below_each

CIRCLE = 12


@given(
    people=st.lists(st.lists(st.integers(0, CIRCLE - 1), max_size=4), min_size=1, max_size=5),
    width=st.integers(1, 3),
)
def test_ranks_list_every_cell_once(people: list[list[int]], width: int) -> None:
    offsets = np.cumsum([0, *map(len, people)])
    starts = np.array([start for person in people for start in person], dtype=np.int64)
    arcs = Arcs.of(starts, offsets, CIRCLE, width)
    for i, person in enumerate(people):
        covered = {(start + step) % CIRCLE for start in person for step in range(width)}
        assert arcs.taken[i] == len(covered)
        for inside, cells in ((True, covered), (False, set(range(CIRCLE)) - covered)):
            seen = set()
            for rank in range(len(cells)):
                ranks = np.zeros(len(people), dtype=np.int64)
                ranks[i] = rank
                flags = np.zeros(len(people), dtype=np.bool_)
                flags[i] = inside
                seen.add(int(arcs.cells(flags, ranks)[i]))
            assert seen == cells


def test_numbers_below_their_own_bounds() -> None:
    bounds = np.tile([1, 2, 7], 3000)
    drawn = below_each(bounds, Coins())
    assert [set(drawn[bounds == bound].tolist()) for bound in (1, 2, 7)] == [{0}, {0, 1}, set(range(7))]
    sevens = np.bincount(drawn[bounds == 7])
    assert ((sevens - 3000 / 7) ** 2).sum() / (3000 / 7) < 40  # above with probability 5e-7
    for large in ((1 << 53) + 1, (1 << 63) - 1):  # where floats are rounded
        shares = below_each(np.full(4000, large), Coins()) / large
        assert shares.max() < 1 and abs(shares.mean() - 0.5) < 0.025
