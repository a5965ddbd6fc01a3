from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection

from keyveil.display.comparison import errors
from keyveil.lab import datasets
from keyveil.lab.compare import ALL_QUANTITIES, Comparison, compare

NAMES = [f"mse_{quantity}" for quantity in ALL_QUANTITIES]


@pytest.fixture(scope="module")
def measured() -> Comparison:
    return compare(datasets.load("linear-s", n=300, seed=1), [1, 2], ["kvue", "pckv-ue", "privkvm:rounds=2"], repeats=2)


def seen(measured: Comparison, **numbers: tuple[float, float]) -> Comparison:
    """The comparison as if contenders, by the first letters of their names, had these errors and standard errors."""
    entries = []
    for entry in measured.entries:
        error, spread = numbers[entry.mechanism.partition("-")[0].partition(":")[0]]
        entries.append(replace(entry, metrics=dict.fromkeys(NAMES, error), spread=dict.fromkeys(NAMES, spread)))
    return replace(measured, entries=tuple(entries))


def rings(ax: Axes) -> list[tuple[float, float, bool]]:
    """Epsilon, error and whether the ring is dashed, of every ring that marks a point."""
    found = []
    for marks in ax.collections:
        if isinstance(marks, PathCollection) and len(np.asarray(marks.get_offsets())):
            ((epsilon, error),) = np.asarray(marks.get_offsets())
            dashes = marks.get_linestyle()[0][1]  # type: ignore[index]
            found.append((float(epsilon), float(error), dashes is not None))
    return sorted(found)


def test_a_ring_marks_a_clear_winner(measured: Comparison) -> None:
    shares, means = errors([seen(measured, kvue=(1.0, 0.1), pckv=(2.0, 0.1), privkvm=(3.0, 0.1))]).axes
    assert rings(shares) == rings(means) == [(1, 1, False), (2, 1, False)]
    assert "best" in shares.get_legend_handles_labels()[1]
    assert not any("≈" in label for label in shares.get_legend_handles_labels()[1])


def test_dashed_rings_mark_all_who_share_the_first_place(measured: Comparison) -> None:
    shares, _ = errors([seen(measured, kvue=(1.0, 0.3), pckv=(1.1, 0.3), privkvm=(9.0, 0.1))]).axes
    assert rings(shares) == [(1, 1, True), (1, 1.1, True), (2, 1, True), (2, 1.1, True)]
    assert any("≈" in label for label in shares.get_legend_handles_labels()[1])


def test_bars_are_one_standard_error_and_end_above_zero(measured: Comparison) -> None:
    shares, _ = errors([seen(measured, kvue=(1.0, 0.25), pckv=(2.0, 5.0), privkvm=(3.0, 0.0))]).axes
    bars = [marks for marks in shares.collections if isinstance(marks, LineCollection)]
    ends = [[tuple(segment[:, 1]) for segment in marks.get_segments()] for marks in bars]
    assert ends == [[(0.75, 1.25)] * 2, [(pytest.approx(0.2), 7.0)] * 2]


def test_a_single_run_has_no_bars(measured: Comparison) -> None:
    alone = compare(measured.dataset, [1, 2], ["kvue"])
    assert not [marks for ax in alone.plot().axes for marks in ax.collections if isinstance(marks, LineCollection)]
