"""Numbers of a paper that come from a formula, by name: budgets that a key and a value spend together."""

from __future__ import annotations

from collections.abc import Callable

from keyveil.privacy.composition import sampled_symbol_total, sign_total, square_wave_total

FORMULAS: dict[str, Callable[[float], float]] = {
    "sequential": lambda half: 2 * half,
    "kv-sw": lambda half: square_wave_total(half, half),
    "pckv-ue": lambda half: sign_total(half, half),
    "pckv-grr-1": lambda half: sampled_symbol_total(half, half, 1),
    "pckv-grr-5": lambda half: sampled_symbol_total(half, half, 5),
}
"""The total for a key's and a value's budget that are equal."""
