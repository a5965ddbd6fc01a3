"""Coins with a fixed key, so that a loop and its twin can be given the same randomness."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from keyveil.core.coins import Coins


class FixedCoins(Coins):
    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def _key(self) -> bytes:
        return self._number.to_bytes(32, "little")


@pytest.fixture
def fixed() -> Callable[[int], Coins]:
    return FixedCoins
