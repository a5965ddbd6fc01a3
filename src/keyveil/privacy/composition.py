"""What a key with the budget ε₁ and a value with ε₂ spend together, as formulas: a calculator for splitting a budget.

Papers add the two up; the exact totals are below. They are floats for people who plan. What a mechanism really spends
comes from its integers, by its certificate. Derivations: docs/theory.md and the pages of the mechanisms.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from keyveil.core.errors import PrivacyError


def square_wave_total(key: float, value: float) -> float:
    """KV-SW (Li et al. 2022): max{ε₂, ε₁ + ln((e^ε₂ - 1)/ε₂)}; attained for 2·max_pairs keys or more."""
    _refuse_negative(key, value)
    return max(value, key + math.log(math.expm1(value) / value if value else 1.0))


def sign_total(key: float, value: float) -> float:
    """PrivKV with fair fakes, and PCKV-UE: max{ε₂, ε₁ + ln 2P(ε₂)}, P(ε) = e^ε/(e^ε + 1)."""
    _refuse_negative(key, value)
    return max(value, key + math.log(2 / (1 + math.exp(-value))))


def sampled_symbol_total(key: float, value: float, max_pairs: int) -> float:
    """PCKV-GRR: sampling one of ``max_pairs`` places amplifies privacy, λ = (ℓ - 1)(e^ε₂ + 1)/2."""
    _refuse_negative(key, value)
    if max_pairs < 1:
        raise PrivacyError("privacy/budget", f"A record has at least one place, not {max_pairs}.")
    fair = (math.exp(value) + 1) / 2
    blanket = (max_pairs - 1) * fair
    return math.log((math.exp(key + value) + blanket) / (min(math.exp(key), fair) + blanket))


def square_wave_key_budget(epsilon: float, value: float) -> float:
    """The ε₁ that KV-SW has left for keys where ε is the total and the value has ε₂ ≤ ε."""
    _refuse_negative(epsilon, value)
    if value > epsilon:
        raise PrivacyError("privacy/budget", f"A value cannot have {value:g} of a total of {epsilon:g}.")
    return epsilon - math.log(math.expm1(value) / value if value else 1.0)


TOTALS: dict[str, Callable[[float, float, int], float]] = {
    "privkv": lambda key, value, max_pairs: sign_total(key, value),
    "pckv-ue": lambda key, value, max_pairs: sign_total(key, value),
    "pckv-grr": sampled_symbol_total,
    "kv-sw": lambda key, value, max_pairs: square_wave_total(key, value),
}
"""The total of a key's and a value's budget by the name of the mechanism; ``max_pairs`` matters for pckv-grr."""


def _refuse_negative(*budgets: float) -> None:
    if not all(math.isfinite(budget) and budget >= 0 for budget in budgets):
        raise PrivacyError("privacy/budget", "Budgets are numbers from 0 on.")
