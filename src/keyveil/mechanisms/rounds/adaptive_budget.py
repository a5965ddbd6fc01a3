"""How Adaptive's second round shares its ε between the key and its value. Derivation: docs/protocols-groups.md."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from keyveil.core.channels import TwoLevel
from keyveil.core.epsilon import RESOLUTION, exp_floor, keeps, levels, tightest
from keyveil.core.errors import MechanismError
from keyveil.mechanisms.families.window import Window
from keyveil.mechanisms.numeric.piecewise import piecewise_window

SHARES = range(4, 25)  # of a budget, in 24ths: where the best one for values is looked for
TYPICAL_SQUARE = 0.2  # of a value, when the window is chosen


class PhaseBudget(NamedTuple):
    """The channel of the key and the window of its value."""

    keys: TwoLevel
    value: Window


def amplified(sharp: Fraction, value: Window, inclusion: Fraction) -> Fraction:
    """The largest ratio when a key is the input with at most ``inclusion`` and any other key gets a uniform value."""
    high, low = value.channel.hit * value.outputs, value.channel.miss * value.outputs
    return (1 + inclusion * (sharp * high - 1)) / (1 + inclusion * (min(sharp * low, Fraction(1)) - 1))


@lru_cache(maxsize=256)
def best_budget(epsilon: Fraction, inclusion: Fraction, d: int, max_pairs: int, steps: int) -> PhaseBudget:
    """The window and the sharpest key channel beside it that together spend ε, with the least variance of means.

    Floats only choose among windows; the integers of the key channel are certified for each.
    """
    most = math.log(1 + float((exp_floor(epsilon) - 1) / inclusion))  # what the pair alone may spend
    found: list[tuple[float, PhaseBudget]] = []
    for share in SHARES:
        value = piecewise_window(steps, Fraction(math.floor(10**6 * most * share / 12), 10**6))
        budget = PhaseBudget(_sharpest(epsilon, inclusion, d, value), value)
        if budget.keys.high > budget.keys.low:
            found.append((_variance(budget, float(inclusion), max_pairs / d), budget))
    return min(found, key=lambda one: one[0])[1]


@lru_cache(maxsize=256)
def shared_budget(epsilon: Fraction, inclusion: Fraction, d: int, steps: int, ratio: Fraction) -> PhaseBudget:
    """The window and the key channel whose budgets have this ratio, ε₂/ε₃, and together spend ε but for 10⁻⁶."""

    def spent(value: Fraction) -> Fraction:
        return amplified(exp_floor(ratio * value), piecewise_window(steps, value), inclusion)

    pair = math.log(1 + float((exp_floor(epsilon) - 1) / inclusion))  # what the pair alone may spend
    least, most = 1000, math.ceil(10**6 * pair / max(float(ratio), 0.25))  # millionths of ε₃
    while least + 1 < most:
        middle = (least + most) // 2
        least, most = (middle, most) if keeps(spent(Fraction(middle, 10**6)), epsilon) else (least, middle)
    value = Fraction(least, 10**6)
    if not keeps(spent(value), epsilon):
        raise MechanismError("mechanism/option", f"A key_to_value of {ratio} leaves nothing for values.")
    keys = TwoLevel(d + math.ceil(1 / inclusion), 1, *levels(ratio * value))
    return PhaseBudget(keys, piecewise_window(steps, value))


def _sharpest(epsilon: Fraction, inclusion: Fraction, d: int, value: Window) -> TwoLevel:
    high = RESOLUTION << 16
    flat = amplified(Fraction(1), value, inclusion) > exp_floor(epsilon)  # the window alone spends more
    low = high if flat else tightest(lambda low: amplified(Fraction(high, low), value, inclusion), epsilon, 1, high)
    return TwoLevel(d + math.ceil(1 / inclusion), 1, high, low)


def _variance(budget: PhaseBudget, inclusion: float, frequency: float) -> float:
    """n · Var of a typical key's mean (docs/protocols-groups.md)."""
    (keys, value), share = budget, inclusion * frequency
    gain, radius, hit, miss = (float(x) for x in (value.gain, value.radius, keys.hit, keys.miss))
    own = float(value.noise) + gain * TYPICAL_SQUARE * radius**2
    lie = (value.outputs**2 - 1) / 12
    return (share * hit * own + (1 - share) * miss * lie) / (share * hit * gain * radius) ** 2
