"""How mechanisms with a key and a value of their own share ε between the two: the options ``split`` and
``value_epsilon``.

A published split adds the budgets of key and value up, although together they spend less. A tight split gives the key
all that the value leaves of ε. The certificate shows what either of them really spends.
"""

from __future__ import annotations

from fractions import Fraction

from keyveil.core.epsilon import LEAST, decimal_text
from keyveil.core.errors import MechanismError

SPLITS = ("tight", "paper")


def value_budget(name: str, epsilon: Fraction, split: str, given: Fraction | None) -> Fraction:
    """The ε₂ of the value: as ``given``, otherwise all of ε (tight) or half of it (paper); refused if nothing is left.

    In the paper's split the key has the rest, ε - ε₂, so that both need a budget.
    """
    if given is None:
        return epsilon if split == "tight" else epsilon / 2
    most = epsilon if split == "tight" else epsilon - LEAST
    if not LEAST <= given <= most:
        raise MechanismError(
            "mechanism/option",
            f"With split={split}, {name} takes a value_epsilon from {decimal_text(LEAST)} to {decimal_text(most)}, "
            f"not {decimal_text(given)}.",
        )
    return given
