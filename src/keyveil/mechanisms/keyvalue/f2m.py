"""F2M: presence and sign of one key, each through randomised response of its own (Sun et al. 2019).

Somebody who lacks the key gives the sign of a ``default`` value; the mean of everybody's signs and the frequency then
give the mean of the holders. The published default 1 is the worst for privacy (errata B3); 0 leaves slack that the
tight split uses. KVUE is more accurate. Derivation: docs/mechanisms/f2m.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Table
from keyveil.core.epsilon import RESOLUTION, lie_threshold, tightest
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.tally import Tally
from keyveil.mechanisms.budget_split import SPLITS
from keyveil.mechanisms.capabilities import ReportEffects
from keyveil.mechanisms.families.one_key import OneKey, exact_table, one_of, sign_law
from keyveil.mechanisms.responses import FEWEST, Floats, Solution, Spread

ESTIMATORS = ("unbiased", "mle")
_STEPS = 30  # of scoring; each multiplies the distance to the maximum by the relative error of the counts


@dataclass(frozen=True)
class F2M(OneKey):
    """Symbol 2·presence + sign; both are told truthfully with the same probability, whatever the other says."""

    split: str = "tight"
    estimator: str = "unbiased"
    default: Fraction = Fraction(0)

    name: ClassVar[str] = "f2m"
    readings: ClassVar[frozenset[str]] = frozenset({"estimator"})

    def validate(self) -> None:
        one_of(self.name, "split", self.split, SPLITS)
        one_of(self.name, "estimator", self.estimator, ESTIMATORS)
        if abs(self.default) > 1:
            raise MechanismError("mechanism/option", f"f2m takes a default value from -1 to 1, not {self.default}.")

    @cached_property
    def channel(self) -> Table:
        if self.split == "paper":
            return self._lying(lie_threshold(self.epsilon / 2))
        return self._lying(tightest(lambda lie: self._lying(lie).ratio, self.epsilon, 1, RESOLUTION // 2))

    def _lying(self, lie: int) -> Table:
        """The channel in which presence and sign lie in so many of ``RESOLUTION`` draws each."""
        truth = 1 - Fraction(lie, RESOLUTION)
        rows = []
        for present, value in ((1 - truth, self.default), (truth, Fraction(-1)), (truth, Fraction(1))):
            signs = sign_law(truth, value)
            rows.append([share * sign for share in (1 - present, present) for sign in signs])
        return exact_table(rows)

    @property
    def supports(self) -> Sequence[int]:
        return (0, 0, 1, 1)

    @property
    def signs(self) -> Sequence[int]:
        return (-1, 1, -1, 1)

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        if self.estimator == "unbiased":
            return super().estimate(tally, confidence, population)
        counts = self._own(tally)
        respondents = counts.sum(axis=0)
        shares, covariance = self._likeliest((counts / np.maximum(respondents, 1)).T)
        minus, plus = np.where(respondents > 0, shares.T, np.nan)
        frequency, product = plus + minus, plus - minus
        known = 0.0 if population else respondents / max(tally.reports, 1)
        likely_f = np.clip(np.nan_to_num(frequency), 1 / np.maximum(respondents, 1), 1)
        likely_m = np.clip(np.nan_to_num(product / likely_f), -1, 1)
        people = np.maximum(respondents, 1)
        least_f, least_u = (FEWEST / (people * step) ** 2 for step in (self.response.gain, self._sign_gain))
        var_f, var_u, both = _spread(covariance, likely_f, likely_m, people, known)
        spread = Spread(np.maximum(var_f, least_f), np.maximum(var_u, least_u), both)
        return Solution(frequency, product, spread).estimates(
            self.header(tally.reports, confidence, population),
            respondents=respondents,
        )

    @property
    def lacks(self) -> frozenset[type]:
        """Only unbiased estimates are averages."""
        return super().lacks | (frozenset() if self.estimator == "unbiased" else frozenset({ReportEffects}))

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        """For ``estimator="mle"`` from the Fisher information of n/d reports, which is right for many of them."""
        if self.estimator == "unbiased":
            return super().predicted_spread(frequency, mean, sizes, n, population)
        product, reach = frequency * mean, 1 / self.schema.d
        shares = np.stack([frequency - product, frequency + product], axis=1) / 2
        base, steps = self._states
        _, covariance = _information(steps, base + shares @ steps.T)
        people = np.full_like(frequency, reach * n)
        return _spread(covariance, frequency, mean, people, 0.0 if population else reach)

    @property
    def _sign_gain(self) -> float:
        return float(self.response.holder.signed)

    def _likeliest(self, seen: Floats) -> tuple[Floats, Floats]:
        """Shares of minus and plus [d, 2] of the greatest likelihood, not confined to [0, 1], and their covariances.

        Fisher scoring: least squares weighted by the expected shares of the outputs, which surely lie between the
        least and the greatest probability that any state gives them. The covariance, for one report of a sample, is
        the inverse Fisher information. Confining the shares would bias rare keys.
        """
        base, steps = self._states
        matrix = self.channel.matrix()
        least, most = matrix.min(axis=1), matrix.max(axis=1)
        expected = np.clip(seen, least, most)
        for _ in range(_STEPS):
            weighted, covariance = _information(steps, expected)
            shares: Floats = np.einsum("dij,djo,do->di", covariance, weighted, seen - base)
            expected = np.clip(base + shares @ steps.T, least, most)
        return shares, covariance

    @property
    def _states(self) -> tuple[Floats, Floats]:
        """Probabilities of the outputs without the key, and what minus and plus add to them [output, 2]."""
        matrix = self.channel.matrix()  # [output, state]
        return matrix[:, 0], matrix[:, 1:] - matrix[:, :1]


def _information(steps: Floats, expected: Floats) -> tuple[Floats, Floats]:
    """Weights [d, 2, output] of the outputs, and the inverse Fisher information [d, 2, 2] of one report."""
    weighted: Floats = steps.T / expected[:, None, :]
    covariance: Floats = np.linalg.inv(weighted @ steps).astype(np.float64, copy=False)
    return weighted, covariance


def _spread(
    covariance: Floats, frequency: Floats, mean: Floats, people: Floats | NDArray[np.int64], known: Floats | float
) -> Spread:
    """Of f and f·m, from the covariances of the shares of minus and plus for one report of a sample.

    What lies between the people who answered is no error for them; their values are taken as constant.
    """
    low, high, crossed = covariance[:, 0, 0], covariance[:, 1, 1], covariance[:, 0, 1]
    between = known * frequency * (1 - frequency)
    return Spread(
        (low + high + 2 * crossed - between) / people,
        (low + high - 2 * crossed - between * mean**2) / people,
        (high - low - between * mean) / people,
    )
