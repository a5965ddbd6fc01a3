"""PrivKV: the presence of one key through randomised response, and a sign from all who claim it (Ye et al. 2019).

Somebody who lacks the key but claims it makes up a sign: fair, or of a public ``fake_mean``. Published with ε/2 for the
key and ε/2 for the value, which spends less than ε; the tight split uses all of it (errata A3). KVUE is more accurate
still. Derivation: docs/mechanisms/privkv.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from keyveil.core.channels import Table
from keyveil.core.epsilon import RESOLUTION, levels, lie_threshold
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.tally import Tally
from keyveil.mechanisms.budget_split import SPLITS, value_budget
from keyveil.mechanisms.capabilities import ReportEffects
from keyveil.mechanisms.families.one_key import OneKey, exact_table, one_of, sign_law
from keyveil.mechanisms.likeliest import likeliest
from keyveil.mechanisms.ratios import CLIPPED, SHRUNK, biased_means
from keyveil.mechanisms.responses import Floats, Spread
from keyveil.mechanisms.virtual import iterated_means

ESTIMATORS = ("unbiased", "published", "iterated", "em")


@dataclass(frozen=True)
class PrivKV(OneKey):
    """The presence of one key is told with probability p₁, and the sign of its value with probability p₂.

    ``estimator`` decides about means only: "unbiased" (PrivKV-A), "published" (pulled towards the fake mean) or
    "iterated" (the published one improved by so many virtual ``iterations``; infinitely many are PrivKV-A). With "em"
    frequencies and means are the likeliest ones that there can be (after emPrivKV).
    ``value_epsilon`` is ε₂, the budget of the sign; presence gets ε - ε₂ (``split="paper"``) or all that ε allows.
    """

    split: str = "tight"
    estimator: str = "unbiased"
    fake_mean: Fraction = Fraction(0)
    iterations: int = 6
    value_epsilon: Fraction | None = None

    name: ClassVar[str] = "privkv"
    readings: ClassVar[frozenset[str]] = frozenset({"estimator", "iterations"})
    unsaid: ClassVar[frozenset[str]] = frozenset({"value_epsilon"})

    def validate(self) -> None:
        one_of(self.name, "split", self.split, SPLITS)
        one_of(self.name, "estimator", self.estimator, ESTIMATORS)
        if abs(self.fake_mean) > 1:
            raise MechanismError("mechanism/option", f"privkv takes a fake mean from -1 to 1, not {self.fake_mean}.")
        if self.split == "tight" and abs(self.fake_mean) == 1 and self.sign_epsilon == self.epsilon:
            raise MechanismError(
                "mechanism/option",
                "With an extreme fake mean the tight split leaves nothing for keys; take split=paper, or a "
                "value_epsilon below epsilon.",
            )
        _ = self.sign_epsilon  # refuses a budget that leaves nothing
        if self.iterations < 1:
            raise MechanismError("mechanism/option", f"privkv takes at least one iteration, not {self.iterations}.")

    @property
    def sign_epsilon(self) -> Fraction:
        """ε₂, the budget of the sign."""
        return value_budget(self.name, self.epsilon, self.split, self.value_epsilon)

    @cached_property
    def truths(self) -> tuple[Fraction, Fraction]:
        """The probabilities p₁ and p₂ with which presence and sign are told truthfully.

        The worst report of the tight split is a sign: that of a holder's value, against the rarer sign of a person
        without the key who claims it. The sign takes ε₂ (ε unless told), and presence what is left:
        p₁/(1 - p₁) = e^ε · r/p₂ with r the share of the rarer made-up sign.
        """
        if self.split == "paper":
            budgets = self.epsilon - self.sign_epsilon, self.sign_epsilon
            presence, sign = (1 - Fraction(lie_threshold(budget), RESOLUTION) for budget in budgets)
            return presence, sign
        high, low = levels(self.sign_epsilon)
        sign = Fraction(high, high + low)
        odds = Fraction(*levels(self.epsilon)) * min(sign_law(sign, self.fake_mean)) / sign
        return odds / (1 + odds), sign

    @cached_property
    def channel(self) -> Table:
        presence, sign = self.truths
        fakes = sign_law(sign, self.fake_mean)
        absent = (presence, *((1 - presence) * share for share in fakes))
        holders = ((1 - presence, *(presence * share for share in sign_law(sign, Fraction(end)))) for end in (-1, 1))
        return exact_table((absent, *holders))

    @property
    def supports(self) -> Sequence[int]:
        return (0, 1, 1)

    @property
    def signs(self) -> Sequence[int]:
        return (0, -1, 1)

    @property
    def lacks(self) -> frozenset[type]:
        """Only unbiased estimates are averages."""
        return super().lacks | (frozenset() if self.estimator == "unbiased" else frozenset({ReportEffects}))

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        """As in every mechanism of one key; what is biased by design has errors without a law."""
        spread = super().predicted_spread(frequency, mean, sizes, n, population)
        if self.estimator == "em":
            unknown = np.full_like(spread.frequency, np.nan)
            return Spread(unknown, unknown, unknown)
        return spread if self.estimator == "unbiased" else spread.of_frequency()

    # -- means as published -------------------------------------------------------------------------------------

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        estimates = super().estimate(tally, confidence, population)
        if self.estimator == "unbiased":
            return estimates
        if self.estimator == "em":
            return self._likeliest(tally, estimates)
        mean = self._mixed_means(tally)
        if self.estimator == "iterated":
            presence, fake = float(self.truths[0]), float(self.fake_mean)
            seen, respondents = estimates.frequency, estimates.respondents
            return replace(estimates, mean=iterated_means(mean, fake, presence, seen, respondents, self.iterations))
        flag = np.where(np.abs(mean) > 1, CLIPPED, SHRUNK)
        return replace(estimates, mean=biased_means(self.schema, np.clip(mean, -1, 1), flag))

    def _likeliest(self, tally: Tally, estimates: Estimates) -> Estimates:
        """Frequencies in [0, 1] and means in [-1, 1], biased where that confines them."""
        absent, minus, plus = likeliest(self.channel.matrix(), self._own(tally))
        frequency, flag = 1 - absent, np.full(self.schema.d, SHRUNK)
        mean = np.where(frequency > 0, (plus - minus) / np.where(frequency > 0, frequency, 1), np.nan)
        shown = replace(biased_means(self.schema, frequency, flag), scaled=False)
        return replace(estimates, frequency=shown, mean=biased_means(self.schema, np.clip(mean, -1, 1), flag))

    def _mixed_means(self, tally: Tally) -> Floats:
        """Per key, the mean on [-1, 1] of all who claim the key, made-up signs included; NaN where nobody does."""
        _, minus, plus = self._own(tally)
        told, keep = minus + plus, float(2 * self.truths[1] - 1)
        mean: Floats = np.where(told > 0, (plus - minus) / (keep * np.maximum(told, 1)), np.nan)
        return mean
