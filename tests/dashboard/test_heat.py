"""The heat map shades what is told, and hatches what chance alone may have made."""

from __future__ import annotations

from typing import Any

import pytest

from keyveil.dashboard.heat import _cell


def numbers(low: float, high: float, flag: str = "ok") -> dict[str, Any]:
    return {"value": (low + high) / 2, "low": low, "high": high, "flag": flag}


@pytest.mark.parametrize(
    ("told", "usual", "shade"),
    [
        (numbers(0.5, 0.7), 0.3, "level3"),
        (numbers(0.1, 0.2), 0.3, "level0"),
        (numbers(0.2, 0.7), 0.3, "untold"),  # as many as among all people
        (numbers(0.5, 0.7, "wide"), 0.3, "untold"),
        (numbers(0.5, 0.7, "insufficient"), 0.3, "untold"),
    ],
)
def test_a_cell_is_shaded_if_it_tells_keys_from_independent_ones(
    told: dict[str, Any], usual: float, shade: str
) -> None:
    assert f'class="{shade}"' in str(_cell("coffee", "milk", told, usual))
