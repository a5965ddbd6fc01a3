"""The arithmetic of TopSel's cover mode: how often a symbol is supported when H buckets of t are marked.

The symbols come into buckets by a partition, which is balanced, or by a hash that lets the two signs of a key share a
bucket more or less often. Floats are welcome here: these numbers choose public sizes and decode counts; the sampler
draws from integers alone. Derivation: docs/mechanisms/topsel.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.core.work import spend
from keyveil.kernels.buckets import Partition
from keyveil.kernels.sign_hash import SignHash
from keyveil.mechanisms.families.key_value import refused
from keyveil.mechanisms.families.set_response import Odds, Signs
from keyveil.mechanisms.size_law import SizeLaw

# All of them are explained in docs/mechanisms/topsel.md, parameters.
# So large may the bias be of a key whose holders have sets of unusual sizes, relative to its frequency; with padding
# hardly any set is unusual, so less costs nothing (test_the_choice_of_buckets_bounds_the_bias_by_set_sizes).
SPREAD, PADDED_SPREAD = 0.10, 0.05  # relative standard deviation of support between holders of different set sizes
OF_FREQUENCY, OF_PRODUCT = Fraction(2, 5), Fraction(3, 5)  # weights of the logarithms of variances in the score
HASHED = range(3, 25)  # numbers of buckets for which hashing is tried,
_CLOSE = 1e-9  # scores in floats that differ by less are compared exactly
_UNEVEN, _HOPELESS = 1e6, 1e9  # added to scores, which are logarithms: behind all others
_CANDIDATE = 200  # units of work (core.work) to score one choice of buckets and marks
SEARCHED = range(3, 33)  # and where the number is to be chosen as well: beyond, the score gains less than 0.6 %

Floats = NDArray[np.float64]
Scheme = Partition | SignHash  # how symbols come into buckets


class Supports(NamedTuple):
    """Probabilities that a report supports a symbol of its sender, and any other one."""

    own: float
    other: float


@dataclass(frozen=True)
class Cover:
    """Marking ``marked`` of ``buckets``, for people who pad their sets to ``padding`` symbols."""

    scheme: Scheme
    marked: int
    padding: int
    law: SizeLaw
    gain: float  # e^ε - 1

    @property
    def meeting(self) -> float:
        """The chance that two symbols of different keys share a bucket."""
        if isinstance(self.scheme, SignHash):
            return 1 / self.scheme.buckets
        return (self.scheme.each - 1) / max(self.scheme.symbols - 1, 1)

    @property
    def sharing(self) -> float:
        """The chance that the two signs of a key share a bucket."""
        return float(self.scheme.kappa) if isinstance(self.scheme, SignHash) else self.meeting

    @cached_property
    def kept(self) -> Floats:
        """By number of symbols, the chance that the bucket of one of them is marked for it: E[min(1, H / h)]."""
        each = None if isinstance(self.scheme, SignHash) else self.scheme.each
        laws = hit_laws(self.scheme.buckets, each, self._effective(self.law.sizes).max(initial=1))
        shares: Floats = laws @ np.minimum(1, self.marked / np.maximum(np.arange(laws.shape[1]), 1))
        return shares

    @cached_property
    def by_size(self) -> tuple[Floats, Floats]:
        """How often a report supports a symbol of its sender, and any other one, by number of symbols."""
        buckets = self.scheme.buckets
        own = (1 + self.kept * self.gain) / (buckets + self.marked * self.gain)
        if isinstance(self.scheme, SignHash):
            other = np.full(len(own), 1 / buckets)  # where a foreign key lies is up to the seed
        else:
            symbols, sizes = self.scheme.symbols, np.arange(len(own))
            other = (symbols / buckets - sizes * own) / np.maximum(symbols - sizes, 1)
        return own, other

    def supports(self, moved: int = 0) -> Supports:
        """Averages over the law of sizes, which may be moved down."""
        own, other = self.by_size
        mine = self._effective(np.maximum(self.law.sizes - moved, 1))
        theirs = self._effective(np.maximum(self.law.sizes - moved, 0))
        return Supports(float(self.law.of_holders @ own[mine]), float(self.law.of_people @ other[theirs]))

    @property
    def odds(self) -> Odds:
        own, other = map(Fraction, self.supports())
        if not isinstance(self.scheme, SignHash):
            meeting = Fraction(self.meeting)
            return Odds(own, other, meeting * own, meeting * other)
        kappa, buckets = self.scheme.kappa, self.scheme.buckets
        opposite = kappa * own + (1 - kappa) * (1 - own) / (buckets - 1)
        return Odds(own, other, own * other, other**2, Signs(opposite, kappa * own, kappa * other))

    @property
    def unevenness(self) -> float:
        """Relative standard deviation of ``kept`` seen from a holder: the bias of keys whose holders are unusual."""
        seen, weights = self.kept[self._effective(self.law.sizes)], self.law.of_holders
        mean = weights @ seen
        return float(np.sqrt(weights @ (seen - mean) ** 2) / mean)

    def _effective(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.maximum(sizes, self.padding)


@lru_cache(maxsize=256)
def hit_laws(buckets: int, each: int | None, most: int) -> Floats:
    """P[h different buckets are hit by s symbols], [s, h] for s up to ``most``; buckets without ``each`` never fill."""
    laws = np.zeros((most + 1, most + 1))
    laws[0, 0] = 1
    hits = np.arange(most + 1)
    for placed in range(most):
        share = 1 / buckets if each is None else each / (buckets * each - placed)
        fresh = np.clip((buckets - hits) * share, 0, 1)
        laws[placed + 1] = laws[placed] * (1 - fresh)
        laws[placed + 1, 1:] += (laws[placed] * fresh)[:-1]
    return laws


def best_cover(
    keys: int, padding: int, law: SizeLaw, gain: float, buckets: int | None, marked: int | None, given: Given
) -> Cover:
    """Scheme, buckets and marks of least variance, as far as they are not given: a grid over all."""
    symbols = 2 * keys + padding
    typical = float(law.of_holders @ np.maximum(law.sizes, padding))
    limit = PADDED_SPREAD if padding else SPREAD
    fewest, most = max(1, int(0.5 * typical)), max(1, round(1.5 * typical))
    numbers, hashed = (_bucket_grid(typical, gain, symbols), SEARCHED) if buckets is None else ([buckets], HASHED)
    marks = most - fewest + 1 if marked is None else 1
    spend(2 * len(numbers) * marks * (_CANDIDATE + 4 * law.largest), "Choosing the buckets of topsel")
    wanted = np.arange(fewest, most + 1) if marked is None else np.array([marked])
    schemes = [scheme for t in numbers for scheme in given.schemes(t, symbols, hashed)]
    ranks = [
        _quick_ranks(scheme, wanted[wanted < scheme.buckets], padding, law, gain, keys, limit) for scheme in schemes
    ]
    least = min((rank for some in ranks for rank in some), default=math.inf)
    best: tuple[tuple[bool, float], Cover] | None = None
    for scheme, some in zip(schemes, ranks, strict=True):
        for h in wanted[: len(some)][some <= least + _CLOSE].tolist():
            cover = Cover(scheme, h, padding, law, gain)
            rank = (cover.unevenness > limit, _score(cover, law.mean / keys))
            if best is None or rank < best[0]:
                best = rank, cover
    if best is None:
        raise refused(f"topsel cannot mark {marked} of {buckets} buckets.")
    return best[1]


class Given(NamedTuple):
    """What is known of the way into the buckets: nothing, "partition", or "hash", which may have its κ."""

    hashing: str | None = None
    kappa: Fraction | None = None

    def schemes(self, buckets: int, symbols: int, hashed: range = HASHED) -> list[Scheme]:
        """What may be tried with so many buckets."""
        schemes: list[Scheme] = []
        if self.hashing != "hash":
            schemes.append(Partition(buckets, -(-symbols // buckets)))
        if self.hashing != "partition" and (buckets in hashed or (self.hashing == "hash" and buckets >= hashed.stop)):
            schemes.append(SignHash.of(buckets, best_kappa(buckets) if self.kappa is None else self.kappa))
        return schemes


def best_kappa(buckets: int) -> Fraction:
    """The share of keys whose signs share a bucket that makes the score of rare keys least.

    Their variances are proportional to 1 / (1 + κ - 2/t) for frequencies and 1 / (1 - κ) for products.
    """
    return max(OF_FREQUENCY - OF_PRODUCT + 2 * OF_PRODUCT / buckets, Fraction(0))


def _bucket_grid(typical: float, gain: float, symbols: int) -> list[int]:
    largest = min(symbols, max(4, int(2.5 * typical * (gain + 3))))
    steps = np.geomspace(2, largest, 160)
    return sorted({*steps.round().astype(int).tolist(), symbols})


def _quick_ranks(
    scheme: Scheme, marks: NDArray[np.int64], padding: int, law: SizeLaw, gain: float, keys: int, limit: float
) -> Floats:
    """Scores of all numbers of marks in floats, for who is worth an exact look; ``_UNEVEN`` more if too uneven."""
    first = Cover(scheme, 1, padding, law, gain)
    t, sizes, seen_by = scheme.buckets, first._effective(law.sizes), law.of_holders
    laws = hit_laws(t, None if isinstance(scheme, SignHash) else scheme.each, sizes.max(initial=1))
    kept = laws @ np.minimum(1, marks / np.maximum(np.arange(laws.shape[1]), 1)[:, None])  # [size, marks]
    own = (1 + kept * gain) / (t + marks * gain)
    mine = seen_by @ own[first._effective(np.maximum(law.sizes, 1))]
    if isinstance(scheme, SignHash):
        other = np.full(len(marks), 1 / t)
        aside = first.sharing * mine + (1 - first.sharing) * (1 - mine) / (t - 1)
    else:
        number = np.arange(len(own))[:, None]
        foreign = (scheme.symbols / t - number * own) / np.maximum(scheme.symbols - number, 1)
        other = aside = law.of_people @ foreign[sizes]
    share = min(law.mean / keys, 1.0)
    support, nobody, pair, either = mine + aside, 2 * other, first.sharing * mine, 2 * first.sharing * other
    seen = kept[sizes]
    mean = seen_by @ seen
    uneven = np.sqrt(seen_by @ (seen - mean) ** 2) / mean
    with np.errstate(divide="ignore", invalid="ignore"):
        var_f = share * (support + 2 * pair - support**2) + (1 - share) * (nobody + either - nobody**2)
        var_u = share * (support - 2 * pair) + (1 - share) * (nobody - either)
        var_f, var_u = var_f / (support - nobody) ** 2, var_u / (mine - aside) ** 2
        score = float(OF_FREQUENCY) * np.log(np.maximum(var_f, 1e-300))
        score += float(OF_PRODUCT) * np.log(np.maximum(var_u, 1e-300))
    ranks: Floats = np.where(mine > other, score, _HOPELESS) + _UNEVEN * (uneven > limit * (1 + 1e-9))
    return ranks


def _score(cover: Cover, frequency: float) -> float:
    own, other = cover.supports()
    if own <= other:
        return math.inf
    spread = cover.odds.of_key(2).spread(np.array([min(frequency, 1.0)]), np.zeros(1), np.ones(1), 1.0)
    frequency, product = (max(float(part[0]), 1e-300) for part in spread[:2])  # everybody may hold every key
    return float(OF_FREQUENCY) * math.log(frequency) + float(OF_PRODUCT) * math.log(product)
