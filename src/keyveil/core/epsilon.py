"""Exact arithmetic on the privacy parameter: what was requested, what was realised, and which of the two is larger.

Nothing here rounds in favour of the data collector: ``exp_floor`` rounds e^epsilon down before weights are built from
it, ``log_ceiling`` rounds a realised ratio's epsilon up before anybody is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from keyveil.core.canonical import decimal, exact
from keyveil.core.errors import EpsilonError, PrivacyError

Number = int | float | str | Decimal | Fraction

LARGEST = 32  # beyond this the promise is empty, and the weights are longer than anybody needs
LEAST = Fraction(1, 1000)
RESOLUTION = 1 << 32  # weight of an unmarked output, and denominator of the probabilities of single bits

_GUARD = 128  # bits that keep the rounding of the series' terms out of sight
_CONTEXT = Context(prec=60, rounding=ROUND_CEILING)


def parse_epsilon(value: Number) -> Fraction:
    """The exact number that was meant: a float means its shortest decimal, so 0.1 is 1/10."""
    try:
        epsilon = exact(value)
    except ValueError:
        raise EpsilonError("epsilon/invalid", f"Epsilon must be a finite decimal number, not {value!r}.") from None
    if epsilon <= 0:
        raise EpsilonError("epsilon/invalid", f"Epsilon must be greater than zero, not {value}.")
    if epsilon > LARGEST:
        raise EpsilonError("epsilon/too-large", f"Epsilon {value} protects nobody; the largest accepted is {LARGEST}.")
    if epsilon < LEAST:
        raise EpsilonError(
            "epsilon/too-small", f"Epsilon {value} leaves nothing to learn; the least accepted is 0.001."
        )
    return epsilon


def decimal_text(value: Fraction) -> str:
    """A fraction as a decimal string where it is one, as "a/b" otherwise; never a float."""
    try:
        return str(decimal(value))
    except ValueError:
        return str(value)


def read_fraction(value: Any) -> Fraction:
    """The fraction that ``decimal_text`` spells; also of a number, where a float means its shortest decimal."""
    return Fraction(value) if isinstance(value, Fraction) or "/" in str(value) else exact(value)


@lru_cache(maxsize=1024)
def exp_floor(epsilon: Fraction, bits: int = 64) -> Fraction:
    """e^epsilon rounded down to a multiple of 2^-bits (all terms of the series are positive: docs/theory.md)."""
    scale = 1 << (bits + _GUARD)
    term = total = Fraction(scale)
    order = 1
    while term >= 1 or order <= epsilon:
        term = Fraction(math.floor(term * epsilon), order)
        total += math.floor(term)
        order += 1
    return Fraction(math.floor(total) >> _GUARD, 1 << bits)


def keeps(ratio: Fraction | float, epsilon: Fraction) -> bool:
    """Whether a ratio of probabilities is certainly at most e^epsilon."""
    return ratio != math.inf and ratio <= exp_floor(epsilon, 256)


def log_ceiling(ratio: Fraction | float) -> Decimal:
    """The natural logarithm of a ratio ≥ 1, rounded up in the thirtieth digit."""
    if ratio == math.inf:
        return Decimal("Infinity")
    ratio = Fraction(ratio)
    if ratio < 1:
        raise PrivacyError("privacy/ratio", "The largest ratio of probabilities cannot be below one.")
    if ratio == 1:
        return Decimal(0)
    quotient = _CONTEXT.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
    logarithm = _CONTEXT.next_plus(_CONTEXT.ln(quotient))
    return Context(prec=30, rounding=ROUND_CEILING).plus(logarithm)


def realised(ratio: Fraction | float, requested: Fraction) -> Decimal:
    """The epsilon of a ratio, rounded up in the thirtieth digit; never above a requested one that the ratio keeps."""
    exact = log_ceiling(ratio)
    if exact.is_finite() and Fraction(exact) > requested and keeps(ratio, requested):
        return Decimal(decimal_text(requested))  # the logarithm lies so close below it that rounding passed it
    return exact


def exact_entries(epsilon: Decimal | Fraction) -> dict[str, Any]:
    """What a JSON document says of a realised epsilon: ``exact_epsilon``, the next float that is not below it, and
    ``exact_epsilon_decimal``, the number itself, which compares with a request. Both are ``None`` if it is infinite.
    """
    if isinstance(epsilon, Decimal) and not epsilon.is_finite():
        return {"exact_epsilon": None, "exact_epsilon_decimal": None}
    text = decimal_text(Fraction(epsilon))
    return {"exact_epsilon": float_ceiling(Decimal(text)), "exact_epsilon_decimal": text}


def float_ceiling(value: Decimal) -> float:
    """The smallest float that is not below a decimal number."""
    nearest = float(value)
    return nearest if Decimal(nearest) >= value else math.nextafter(nearest, math.inf)


def levels(epsilon: Fraction, low: int = RESOLUTION) -> tuple[int, int]:
    """Integer weights (high, low) with high / low at most e^epsilon."""
    return math.floor(exp_floor(epsilon) * low), low


def lie_threshold(epsilon: Fraction, resolution: int = RESOLUTION) -> int:
    """How many of ``resolution`` draws of a binary randomised response must lie: 1/(e^epsilon + 1), rounded up."""
    return math.ceil(resolution / (exp_floor(epsilon) + 1))


def tightest(spends: Callable[[int], Fraction | float], epsilon: Fraction, low: int, high: int) -> int:
    """The smallest whole number in [low, high] at which a channel keeps epsilon, where larger ones spend less.

    For channels whose threshold has no closed form: whatever float arithmetic suggested it, integers decide.
    """
    if not keeps(spends(high), epsilon):
        raise PrivacyError("privacy/no-threshold", f"No threshold up to {high} keeps epsilon {decimal_text(epsilon)}.")
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(spends(middle), epsilon) else (middle + 1, high)
    return low
