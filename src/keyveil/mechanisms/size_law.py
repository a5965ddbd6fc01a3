"""How many pairs people hold, as a law: the share of the people who hold 0, 1, 2, … pairs.

TopSel decodes with such a law, a pilot group finds one out, and its quantile is a good cap (docs/theory.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.canonical import exact
from keyveil.core.epsilon import decimal_text, read_fraction
from keyveil.core.errors import MechanismError
from keyveil.core.schema import MOST_KEYS

PLACES = 4  # decimals of a share that was estimated: its error is larger
ROUNDING = Fraction(1, 10**12)  # by how much a sum of shares that were floats may miss a quantile

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SizeLaw:
    """Sizes with the shares of the people who hold so many pairs: rising sizes, positive shares, of the sum 1."""

    shares: tuple[tuple[int, Fraction], ...]

    @classmethod
    def read(cls, given: Any) -> SizeLaw:
        """From "5", or "1:0.2,2:0.8", or a mapping; shares are brought to the sum 1."""
        try:
            if isinstance(given, Mapping):
                pairs = [(int(size), exact(share)) for size, share in given.items()]
            else:
                parts = [part.partition(":") for part in str(given).split(",")]
                pairs = [(int(size), read_fraction(share) if colon else Fraction(1)) for size, colon, share in parts]
        except (ValueError, TypeError, ZeroDivisionError):
            raise _refused(f"A law of set sizes looks like 5 or 1:0.2,2:0.8, not {given!r}.") from None
        return cls._of_pairs(pairs)

    @classmethod
    def of(cls, shares: Sequence[float]) -> SizeLaw:
        """From the shares of the people who hold 0, 1, 2, … pairs, brought to the sum 1."""
        return cls._of_pairs([(size, Fraction(share)) for size, share in enumerate(shares)])

    @classmethod
    def _of_pairs(cls, pairs: Sequence[tuple[int, Fraction]]) -> SizeLaw:
        sizes, shares = [size for size, _ in pairs], [share for _, share in pairs]
        total = sum(shares)
        if not pairs or len(set(sizes)) != len(sizes) or min(sizes) < 0 or min(shares) < 0 or not total:
            raise _refused("A law of set sizes gives each size once, with a share that is not negative.")
        if max(sizes) > MOST_KEYS:
            raise _refused(f"Nobody holds more than {MOST_KEYS:,} pairs: there are no more keys.")
        return cls(tuple(sorted((size, share / total) for size, share in pairs if share)))

    def __str__(self) -> str:
        """The law as an option of TopSel, exactly."""
        if len(self.shares) == 1:
            return str(self.shares[0][0])
        return ",".join(f"{size}:{decimal_text(share)}" for size, share in self.shares)

    @property
    def rounded(self) -> str:
        """The law as an option of TopSel, with shares to four decimals; "1" if nobody holds anything."""
        shares = dict(zip(self.sizes, np.round(self.of_people, PLACES), strict=True))
        if not any(share for size, share in shares.items() if size):
            return "1"
        return ",".join(f"{size}:{share:g}" for size, share in shares.items() if share)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        return np.array([size for size, _ in self.shares], dtype=np.int64)

    @cached_property
    def of_people(self) -> Floats:
        """The share of the people for every one of ``sizes``."""
        return np.array([float(share) for _, share in self.shares])

    @property
    def by_size(self) -> Floats:
        """The share of the people who hold 0, 1, 2, … pairs, up to the largest size."""
        shares: Floats = np.bincount(self.sizes, self.of_people).astype(np.float64)
        return shares

    @cached_property
    def of_holders(self) -> Floats:
        """The share of all pairs for every one of ``sizes``: large records hold more of them."""
        weights = self.of_people * self.sizes
        holders: Floats = weights / weights.sum()
        return holders

    @property
    def mean(self) -> float:
        """Pairs a person."""
        return float(self.of_people @ self.sizes)

    @property
    def largest(self) -> int:
        return self.shares[-1][0]

    def quantile(self, share: Fraction | float = Fraction(9, 10)) -> int:
        """The smallest size that at least this share of people do not exceed; as a cap never below one."""
        if not 0 < share <= 1:
            raise MechanismError("learn/quantile", f"A share of people lies between 0 and 1, not {share}.")
        reached = accumulate(part for _, part in self.shares)
        enough = Fraction(share) - ROUNDING
        found = next(size for (size, _), sum_so_far in zip(self.shares, reached, strict=True) if sum_so_far >= enough)
        return max(1, found)


def _refused(sentence: str) -> MechanismError:
    return MechanismError("mechanism/option", sentence)
