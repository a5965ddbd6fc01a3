"""How the estimates of two keys depend on each other: needed for sums of keys and for comparing them.

Two keys i ≠ j of one collection have

    Cov(f̂_i, f̂_j) = base + slope·(f_i + f_j) + both·f_ij + product·f_i·f_j

with f_ij the share of people who hold both, which frequencies do not tell. The constants follow from how often one
report supports both keys, for people who hold none, one or both of them (docs/queries.md has the derivation):

* unary encodings, local hashing: supports are independent, all zero;
* one symbol a report (grr, pckv-grr, wsr) and subsets (ss, ssr): supports exclude each other, base and slope are
  negative;
* one pair or key sampled, or arcs on a circle: only who holds both matters.

``both`` is never positive, so f_ij is taken as 0 where that makes a variance larger, and as min(f_i, f_j) elsewhere.

Where the covariance differs from pair to pair there are no such constants, but ``PairTerms`` for given keys.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.mechanisms.responses import Response

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Dependence:
    """The constants of the covariance for one report; those of n reports are n times smaller."""

    base: float = 0.0
    slope: float = 0.0
    both: float = 0.0
    product: float = 0.0
    extra: float = 0.0  # a variance per key that bounds whatever else there is
    n: int = 1

    def of_single_keys(self, population: bool) -> Dependence:
        """The same where nobody holds two keys; people who are a sample add the covariance of holding, -f_i·f_j."""
        return replace(self, both=0.0, product=-1.0 if population else 0.0)

    def of_sets(self, population: bool) -> Dependence:
        """The same for sets of keys; people who are a sample add the covariance of holding, f_ij - f_i·f_j."""
        if not population:
            return self
        return replace(self, both=min(self.both + 1.0, 0.0), product=self.product - 1.0)

    def of_corrected(self, scale: float, common: float) -> Dependence:
        """The same for frequencies that were divided by ``scale``, with a relative variance that all have in common."""
        return replace(
            self,
            base=self.base / scale**2,
            slope=self.slope / scale,
            both=self.both / scale,
            product=self.product + common * self.n,
            extra=self.extra / scale**2,
        )

    def variance(self, weights: Floats, frequency: Floats, se: Floats) -> float:
        """An upper bound, close where few people hold two of the keys, of the variance of a weighted sum."""
        f = np.clip(frequency, 0.0, 1.0)
        squares, each = weights**2, float(weights.sum())
        held = float(weights @ f)
        shared = (
            self.base * (each**2 - squares.sum())
            + self.slope * 2 * (each * held - squares @ f)
            + self.product * (held**2 - squares @ f**2)
            + self.extra * squares.sum()
        )
        plus, minus = weights > 0, weights < 0
        if self.both and plus.any() and minus.any():
            most = np.minimum.outer(f[plus], f[minus])
            shared += 2 * self.both * float(weights[plus] @ most @ weights[minus])
        return max(float(squares @ se**2) + float(shared) / self.n, 0.0)

    def covariance(self, first: float, second: float, together: float) -> float:
        """Of two keys of these frequencies, which the share ``together`` of the people both hold."""
        known = self.base + self.slope * (first + second) + self.product * first * second
        return (known + self.both * together) / self.n

    def at_most(self, first: float, second: float) -> float:
        """The largest absolute covariance of two keys of these frequencies."""
        common = self.base + self.slope * (first + second) + self.product * first * second
        return (abs(common) + abs(self.both) * min(first, second) + self.extra) / self.n


class PairTerms(NamedTuple):
    """Cov(f̂_i, f̂_j) = known + held·f_ij of one report, [row, column]; those of n reports are n times smaller."""

    known: Floats
    held: Floats | float

    def of_sets(self, rows: Floats, columns: Floats, population: bool) -> PairTerms:
        """The same; people who are a sample add the covariance of holding, f_ij - f_i·f_j, at these frequencies."""
        return PairTerms(self.known - np.outer(rows, columns), self.held + 1.0) if population else self


def from_supports(response: Response, none: float, one: float, two: float) -> Dependence:
    """From the mean of Q_i·Q_j for people who hold none, one or both of two keys, before people are sampled.

    Q counts a report's support of a key; ``response`` has its first moments.
    """
    holder, stranger = float(response.holder.support), float(response.stranger.support)
    with_none, with_one, with_both = none - stranger**2, one - holder * stranger, two - holder**2
    scale = (holder - stranger) ** 2
    curve = (with_both - 2 * with_one + with_none) / scale
    return Dependence(with_none / scale, (with_one - with_none) / scale, min(curve, 0.0))


def one_symbol(response: Response) -> Dependence:
    """Where a report supports one key or none, so never two."""
    return from_supports(response, 0.0, 0.0, 0.0)


ONE_KEY = Dependence(both=-1.0, product=1.0)
"""Reports about one key each: who tells of one key does not tell of another, as in draws without replacement."""

ONE_PAIR = Dependence(both=-1.0)
"""Every key answers on its own, given the one pair of a person that was sampled."""
