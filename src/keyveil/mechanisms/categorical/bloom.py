"""Bloom filters of a dictionary, one for every cohort, and what noisy counts of their bits say about its keys.

In cohort j the person with key x has the bits X_j[:, x]. A report gives an unbiased, noisy copy s of them, and its
cohort is uniform, so (1/n)·Σ X_jᵀ s has mean M·f with M the average of X_jᵀ X_j. Where M can be inverted, least
squares is therefore unbiased for the people who reported; where it cannot, no unbiased estimate exists, and the
closest frequencies that are not negative are all that can be given. Derivation: docs/mechanisms/rappor.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from keyveil.core.extras import extra
from keyveil.kernels.hashing import hash_many, hash_one

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_SINGULAR = 1e-9  # a smallest eigenvalue below this share of the largest one is rounding, not information


@dataclass(frozen=True)
class Bloom:
    """``hashes`` bits out of ``bits`` for each of ``keys`` keys; two hashes may meet, and then one bit fewer is set."""

    keys: int
    bits: int
    hashes: int
    cohorts: int

    def of(self, cohort: int, key: int) -> set[int]:
        """The bits of one key, on a device."""
        return {hash_one(cohort * self.hashes + index, key, self.bits) for index in range(self.hashes)}

    @cached_property
    def indicator(self) -> NDArray[np.bool_]:
        """Which bits every key sets: [cohort, bit, key]."""
        seeds = np.arange(self.cohorts * self.hashes, dtype=np.uint64)[:, None]
        keys = np.arange(self.keys)[None, :]
        places = hash_many(seeds, keys, self.bits).reshape(self.cohorts, self.hashes, self.keys)
        indicator = np.zeros((self.cohorts, self.bits, self.keys), dtype=bool)
        cohorts = np.arange(self.cohorts)[:, None, None]
        indicator[cohorts, places, keys[None]] = True
        return indicator

    @cached_property
    def packed(self) -> NDArray[np.uint64]:
        """The filters as words: [cohort, key, word]."""
        words = -(-self.bits // 64)
        padded = np.zeros((self.cohorts, self.keys, 64 * words), dtype=bool)
        padded[:, :, : self.bits] = self.indicator.transpose(0, 2, 1)
        return np.packbits(padded, axis=2, bitorder="little").view("<u8").astype(np.uint64, copy=False)

    @cached_property
    def stacked(self) -> Floats:
        """The bits of all cohorts under one another: what the counts would be made of without noise."""
        return self.indicator.reshape(-1, self.keys).astype(np.float64)

    @cached_property
    def invertible(self) -> bool:
        """Whether M can be inverted, so that all frequencies can be told apart; much cheaper than its inverse.

        A Cholesky factorisation of M minus a multiple of the unit matrix exists if all eigenvalues of M are larger.
        """
        if self.keys > self.cohorts * self.bits:
            return False
        largest = self._moments.sum(axis=1).max()  # nothing in M is negative, so no eigenvalue is larger than this
        try:
            np.linalg.cholesky(self._moments - _SINGULAR * largest * np.eye(self.keys))
        except np.linalg.LinAlgError:
            return False
        return True

    @cached_property
    def inverse(self) -> Floats | None:
        """The inverse of M, or None if some frequencies cannot be told apart."""
        if not self.invertible:
            return None
        values, vectors = np.linalg.eigh(self._moments)
        inverted: Floats = (vectors / values) @ vectors.T
        return inverted

    @cached_property
    def _moments(self) -> Floats:
        """M, the average of X_jᵀ X_j: [key, key]."""
        moments: Floats = self.stacked.T @ self.stacked / self.cohorts
        return moments

    @cached_property
    def crosstalk(self) -> Floats:
        """[v, x]: variance that one noiseless report of a person with key x gives to the estimate of key v.

        It comes from drawing the cohort: E_j[(M⁻¹ X_jᵀ X_j)²] minus the square of the mean, which is the unit matrix.
        """
        assert self.inverse is not None
        squares = np.zeros((self.keys, self.keys))
        for own in self.indicator.astype(np.float64):
            squares += (self.inverse @ own.T @ own) ** 2
        return squares / self.cohorts - np.eye(self.keys)

    def least_squares(self, sums: Floats, n: int) -> Floats:
        """Unbiased frequencies from sums[cohort, bit] of n unbiased copies."""
        assert self.inverse is not None
        frequency: Floats = self.inverse @ (self.stacked.T @ sums.reshape(-1)) / n
        return frequency

    def weighted_least_squares(self, sums: Floats, people: Integers) -> Floats | None:
        """Frequencies where cohorts have so many people each; unbiased given these, and None if keys stay together."""
        moments = np.einsum("c,cbx,cby->xy", people.astype(np.float64), self.indicator, self.indicator)
        values, vectors = np.linalg.eigh(moments)
        if values[0] <= _SINGULAR * values[-1]:
            return None
        frequency: Floats = vectors @ ((vectors.T @ (self.stacked.T @ sums.reshape(-1))) / values)
        return frequency

    def variance(self, frequency: Floats, n: int, noise: float) -> Floats:
        """Variance of ``least_squares`` for fixed people, when a copied bit has variance ``noise``."""
        assert self.inverse is not None
        variance: Floats = (noise * np.diag(self.inverse) + self.crosstalk @ frequency) / n
        return variance

    def covariance(self, rows: Integers, columns: Integers, frequency: Floats, noise: float) -> Floats:
        """The same for one report and two keys each, [row, column]; ``variance`` is its diagonal."""
        assert self.inverse is not None
        luck = np.zeros((len(rows), len(columns)))
        for own in self.indicator.astype(np.float64):
            one, other = (self.inverse[some] @ own.T @ own for some in (rows, columns))
            luck += (one * frequency) @ other.T
        same = np.where(rows[:, None] == columns, frequency[columns], 0.0)
        covariance: Floats = noise * self.inverse[np.ix_(rows, columns)] + luck / self.cohorts - same
        return covariance

    def nonnegative(self, sums: Floats, n: int) -> Floats:
        """The closest frequencies that are not negative."""
        with extra("local", "Frequencies decoded with nnls"):
            from scipy.optimize import nnls
        frequency: Floats = nnls(self.stacked, sums.reshape(-1) * self.cohorts / n)[0]
        return frequency
