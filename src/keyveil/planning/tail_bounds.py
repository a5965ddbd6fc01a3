"""How far estimates can be off with a given probability, whatever the data: the tail bounds of the papers, corrected.

They hold for every population, and are therefore wider than the intervals that come with estimates. All rest on
Hoeffding's inequality, for reports that are independent given what people hold.
"""

from __future__ import annotations

import math

from keyveil.core.errors import MechanismError


def kvue_count_bound(reports: float, epsilon: float, delta: float) -> float:
    """KVUE: the estimated number of people in a state is this close with probability 1 - δ (Sun et al., Theorem 5).

    ``reports`` speak about the key; the states are absent, minus and plus.
    """
    _check(reports, delta, epsilon)
    return (math.exp(epsilon) + 2) / math.expm1(epsilon) * math.sqrt(reports / 2 * math.log(2 / delta))


def kvoh_count_bound(reports: float, epsilon: float, delta: float) -> float:
    """KVOH, the same; printed with the inverse factor and the logarithm outside of the root (erratum B6)."""
    _check(reports, delta, epsilon)
    half = epsilon / 2
    return (math.exp(half) + 1) / math.expm1(half) * math.sqrt(reports / 2 * math.log(2 / delta))


def privkv_mean_bound(
    reports: float, frequency: float, key_epsilon: float, value_epsilon: float, keys: int, beta: float
) -> float:
    """PrivKV, unbiased: with probability 1 - β the means of all keys are this close, on [-1, 1] (Ye et al., Thm 5.4).

    The published rate √(d·ln(d/β))/(ε√n) hides the frequency (erratum A13). ``reports`` speak about each key, n/d on
    average, and ``frequency`` is that of the rarest key in question. With a and b the radii of f·m and f, m̂ is within
    (a + b)/(f - b); where f ≤ b nothing is told, and the bound is 2.
    """
    _check(reports, beta, key_epsilon, value_epsilon)
    if keys < 1 or not 0 <= frequency <= 1:
        raise MechanismError("plan/bound", "A bound needs at least one key and a frequency from 0 to 1.")
    presence, sign = (1 / (1 + math.exp(-budget)) for budget in (key_epsilon, value_epsilon))
    exponent = math.log(4 * keys / beta)  # two statements a key, each two-sided
    product = math.sqrt(2 * exponent / reports) / (presence * (2 * sign - 1))
    held = math.sqrt(exponent / (2 * reports)) / (2 * presence - 1)
    return min((product + held) / (frequency - held), 2.0) if frequency > held else 2.0


def _check(reports: float, failure: float, *budgets: float) -> None:
    if reports < 1 or not 0 < failure < 1 or not all(0 < budget < math.inf for budget in budgets):
        raise MechanismError(
            "plan/bound", "A bound needs at least one report, a probability between 0 and 1, and positive budgets."
        )
