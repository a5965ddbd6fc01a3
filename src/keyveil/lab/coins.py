"""Seeded coins, for experiments that must be repeatable. Devices cannot reach this room."""

from __future__ import annotations

import hashlib

from keyveil.core.coins import Coins


class SeededCoins(Coins):
    """The keystream of ``Coins`` under a key made from a seed and the number of a stream.

    Streams are numbered by block of people, so results do not depend on how many threads share the work.
    """

    def __init__(self, seed: int, stream: int = 0) -> None:
        super().__init__()
        self.seed, self.stream = seed, stream

    def _key(self) -> bytes:
        return hashlib.sha256(f"keyveil {self.seed} {self.stream}".encode()).digest()
