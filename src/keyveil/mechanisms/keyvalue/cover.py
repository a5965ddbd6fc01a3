"""The arithmetic of TopSel's cover mode: how often a symbol is supported when H buckets of t are marked.

Floats are welcome here: these numbers choose public sizes and decode counts; the sampler draws from integers alone.
Derivation: docs/mechanisms/topsel.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.core.canonical import exact
from keyveil.core.epsilon import decimal_text
from keyveil.kernels.buckets import Partition
from keyveil.mechanisms.keyvalue.set_response import Odds, refused

SPREAD, PADDED_SPREAD = 0.10, 0.05  # how much holders of different sizes may differ in their support

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SizeLaw:
    """How many pairs people hold: shares of the sizes, public configuration."""

    shares: tuple[tuple[int, Fraction], ...]

    @classmethod
    def read(cls, given: Any) -> SizeLaw:
        """From "5", or "1:0.2,2:0.8", or a mapping; shares are brought to the sum 1."""
        try:
            if isinstance(given, Mapping):
                pairs = [(int(size), exact(share)) for size, share in given.items()]
            else:
                parts = [part.split(":") for part in str(given).split(",")]
                pairs = [(int(size), Fraction(*share) if share else Fraction(1)) for size, *share in parts]
        except (ValueError, TypeError, ZeroDivisionError):
            raise refused(f"A law of set sizes looks like 5 or 1:0.2,2:0.8, not {given!r}.") from None
        sizes = [size for size, _ in pairs]
        total = sum(share for _, share in pairs)
        if len(set(sizes)) != len(sizes) or min(sizes) < 0 or min(share for _, share in pairs) < 0 or not total:
            raise refused("A law of set sizes gives each size once, with a share that is not negative.")
        return cls(tuple(sorted((size, share / total) for size, share in pairs if share)))

    def __str__(self) -> str:
        if len(self.shares) == 1:
            return str(self.shares[0][0])
        return ",".join(f"{size}:{decimal_text(share)}" for size, share in self.shares)

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.array([size for size, _ in self.shares], dtype=np.int64)

    @property
    def of_people(self) -> Floats:
        return np.array([float(share) for _, share in self.shares])

    @property
    def of_holders(self) -> Floats:
        """The same seen from a pair: large records hold more of them."""
        weights = self.of_people * self.sizes
        holders: Floats = weights / weights.sum()
        return holders

    @property
    def mean(self) -> float:
        return float(self.of_people @ self.sizes)

    @property
    def largest(self) -> int:
        return self.shares[-1][0]


class Supports(NamedTuple):
    """Probabilities that a report supports a symbol of its sender, and any other one."""

    own: float
    other: float


@dataclass(frozen=True)
class Cover:
    """Marking ``marked`` of ``buckets``, for people who pad their sets to ``padding`` symbols."""

    partition: Partition
    marked: int
    padding: int
    law: SizeLaw
    gain: float  # e^ε - 1

    @property
    def shared(self) -> float:
        """The chance that two symbols share a bucket."""
        return (self.partition.each - 1) / max(self.partition.symbols - 1, 1)

    @cached_property
    def kept(self) -> Floats:
        """By number of symbols, the chance that the bucket of one of them is marked for it: E[min(1, H / h)]."""
        laws = hit_laws(self.partition, self._effective(self.law.sizes).max(initial=1))
        shares: Floats = laws @ np.minimum(1, self.marked / np.maximum(np.arange(laws.shape[1]), 1))
        return shares

    def supports(self, moved: int = 0) -> Supports:
        """Averages over the law of sizes, which may be moved down."""
        buckets, symbols = self.partition.buckets, self.partition.symbols
        total = buckets + self.marked * self.gain
        own = (1 + self.kept * self.gain) / total
        sizes = np.arange(len(own))
        other = (symbols / buckets - sizes * own) / np.maximum(symbols - sizes, 1)
        mine = self._effective(np.maximum(self.law.sizes - moved, 1))
        theirs = self._effective(np.maximum(self.law.sizes - moved, 0))
        return Supports(float(self.law.of_holders @ own[mine]), float(self.law.of_people @ other[theirs]))

    @property
    def odds(self) -> Odds:
        own, other = self.supports()
        return Odds(*map(Fraction, (own, other, self.shared * own, self.shared * other)))

    @property
    def unevenness(self) -> float:
        """Relative standard deviation of ``kept`` seen from a holder: the bias of keys whose holders are unusual."""
        seen, weights = self.kept[self._effective(self.law.sizes)], self.law.of_holders
        mean = weights @ seen
        return float(np.sqrt(weights @ (seen - mean) ** 2) / mean)

    def _effective(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.maximum(sizes, self.padding)


@lru_cache(maxsize=256)
def hit_laws(partition: Partition, most: int) -> Floats:
    """P[h different buckets are hit by s symbols], [s, h] for s up to ``most``."""
    buckets, each = partition
    laws = np.zeros((most + 1, most + 1))
    laws[0, 0] = 1
    hits = np.arange(most + 1)
    for placed in range(most):
        fresh = np.clip((buckets - hits) * each / (partition.symbols - placed), 0, 1)
        laws[placed + 1] = laws[placed] * (1 - fresh)
        laws[placed + 1, 1:] += (laws[placed] * fresh)[:-1]
    return laws


def best_cover(keys: int, padding: int, law: SizeLaw, gain: float, buckets: int | None, marked: int | None) -> Cover:
    """Buckets and marks of least variance, as far as they are not given: a grid over both."""
    symbols = 2 * keys + padding
    typical = float(law.of_holders @ np.maximum(law.sizes, padding))
    limit = PADDED_SPREAD if padding else SPREAD
    best: tuple[tuple[bool, float], Cover] | None = None
    for t in _bucket_grid(typical, gain, symbols) if buckets is None else [buckets]:
        partition = Partition(t, -(-symbols // t))
        fewest, most = max(1, int(0.5 * typical)), max(1, round(1.5 * typical))
        for h in range(fewest, most + 1) if marked is None else [marked]:
            if h >= t:
                break
            cover = Cover(partition, h, padding, law, gain)
            rank = (cover.unevenness > limit, _score(cover, law.mean / keys))
            if best is None or rank < best[0]:
                best = rank, cover
    if best is None:
        raise refused(f"topsel cannot mark {marked} of {buckets} buckets.")
    return best[1]


def _bucket_grid(typical: float, gain: float, symbols: int) -> list[int]:
    largest = min(symbols, max(4, int(2.5 * typical * (gain + 3))))
    steps = np.geomspace(2, largest, 160)
    return sorted({*np.unique(steps.round().astype(int)).tolist(), symbols})


def _score(cover: Cover, frequency: float) -> float:
    own, other = cover.supports()
    if own <= other:
        return math.inf
    spread = cover.odds.of_key(2).spread(np.array([min(frequency, 1.0)]), np.zeros(1), np.ones(1), 1.0)
    frequency, product = (max(float(part[0]), 1e-300) for part in spread[:2])  # everybody may hold every key
    return 0.4 * math.log(frequency) + 0.6 * math.log(product)
