"""The heat map shades what is told, and hatches what chance alone may have made."""

from __future__ import annotations

from typing import Any

import pytest

from keyveil.dashboard.heat import _cell


def numbers(low: float, high: float, flag: str = "ok") -> dict[str, Any]:
    return {"value": (low + high) / 2, "low": low, "high": high, "flag": flag}


@pytest.mark.parametrize(
    ("found", "dependent", "shade"),
    [
        (numbers(0.5, 0.7), True, "level3"),
        (numbers(0.1, 0.2), True, "level0"),
        (numbers(0.5, 0.7), False, "untold"),  # all pairs together say that it may be chance
        (numbers(0.5, 0.7, "wide"), True, "untold"),
        (numbers(0.5, 0.7, "insufficient"), True, "untold"),
    ],
)
def test_a_cell_is_shaded_if_its_pair_is_told_from_independent_ones(
    found: dict[str, Any], dependent: bool, shade: str
) -> None:
    assert f'class="{shade}"' in str(_cell("coffee", "milk", found, 0.3, dependent))
