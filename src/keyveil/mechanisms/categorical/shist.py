"""SHist: the sign of the key in a public random vector, through randomised response (Bassily and Smith 2015).

The original projects keys to few rows and samples one of them; with a fresh sign vector from each report's public
word, the law of a report is the same and no row is sent. A sign is a hash into two buckets, so this is local hashing
with g = 2: f = (1/n)·(e^ε + 1)/(e^ε - 1)·Σ b·Φ[v] is the same number as (c/n - q)/(p - q).
Derivation: docs/mechanisms/categorical.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from keyveil.mechanisms.categorical.olh import LocalHash


@dataclass(frozen=True)
class SHist(LocalHash):
    """One bit a person: the sign of the true key, told truthfully with probability e^ε/(e^ε + 1)."""

    name: ClassVar[str] = "shist"

    @property
    def g(self) -> int:
        return 2
