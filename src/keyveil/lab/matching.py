"""Equal privacy: the request at which a mechanism or protocol spends a given epsilon, by its closed form."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

from keyveil.core.channels import Ratio
from keyveil.core.epsilon import decimal_text, keeps, log_ceiling
from keyveil.core.errors import KeyveilError, PrivacyError
from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import build
from keyveil.protocols.base import Protocol
from keyveil.protocols.certificate import protocol_ratio
from keyveil.protocols.registry import as_protocol
from keyveil.protocols.true_ratio import TrueRatio

Made = TypeVar("Made", bound=Mechanism | Protocol)

_STEPS = 4096  # of epsilon, in which requests are raised
_MOST_EXTRA = 31  # times what is wanted: one pair out of many padded ones hides much
_CLOSE = Decimal("0.999")  # whoever spends this share is at epsilon
_LEAST = Decimal("0.99")  # with less, squared errors (like 1/ε²) would look 2 % worse than they are


def ratio_of(made: Mechanism | Protocol) -> Ratio:
    """Closed form: what one person can lose in all, over the longest course of a protocol."""
    return protocol_ratio(as_protocol(made))


def true_ratio_of(made: Mechanism | Protocol) -> Ratio:
    """The same, or less for a protocol that knows what its rounds tell together."""
    return made.true_ratio() if isinstance(made, TrueRatio) else ratio_of(made)


def matched(name: str, schema: Schema, epsilon: Fraction, options: dict[str, Any]) -> Mechanism | Protocol:
    """The mechanism or protocol of this name whose exact epsilon is the given one."""
    return spending(lambda requested: build(name, schema, requested, options), epsilon)


def spending(
    made: Callable[[Fraction], Made], epsilon: Fraction, ratio: Callable[[Made], Ratio] = ratio_of, steps: int = _STEPS
) -> Made:
    """What ``made`` gives for the request at which a person spends ``epsilon`` in all, and never more.

    Some published budgets spend less than they say, and so do rounds whose later answers tell less than they might.
    Their request is raised by epsilon / ``steps`` again and again, as long as ``ratio`` keeps to epsilon.
    """
    best = made(epsilon)
    spent = log_ceiling(ratio(best))
    if not keeps(ratio(best), epsilon):
        raise _unmatched(best, epsilon, spent)
    if spent > Decimal(float(epsilon)) * _CLOSE:
        return best
    least, most = 0, _MOST_EXTRA * steps
    while least < most:
        middle = (least + most + 1) // 2
        try:
            candidate = made(epsilon * (1 + Fraction(middle, steps)))
            fits = keeps(ratio(candidate), epsilon)
        except KeyveilError:
            fits = False
        if fits:
            least, best = middle, candidate
        else:
            most = middle - 1
    spent = log_ceiling(ratio(best))
    if spent < Decimal(float(epsilon)) * _LEAST:
        raise _unmatched(best, epsilon, spent)
    return best


def _unmatched(made: Mechanism | Protocol, epsilon: Fraction, spent: Decimal) -> PrivacyError:
    return PrivacyError(
        "compare/epsilon",
        f"{made.name} cannot be compared at ε = {decimal_text(epsilon)}: a request of "
        f"{decimal_text(made.epsilon)} spends {spent:.6g}, and no other request comes closer.",
    )
