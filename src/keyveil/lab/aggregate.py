"""Tallies drawn from their law, without writing a single report: exact, and far cheaper where reports are long.

A mechanism says the law itself (``capabilities.TallyLaw``). The tally has the same law as
``tally(perturb_many(...))``; the tests hold it to that.
"""

from __future__ import annotations

import numpy as np

from keyveil.core.coins import Coins
from keyveil.core.records import Records
from keyveil.core.tally import Tally
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.tally_laws import declared_law


def has_aggregate(mechanism: Mechanism) -> bool:
    """Whether the tally of this mechanism can be drawn as a whole."""
    return declared_law(mechanism) is not None


def aggregate(mechanism: Mechanism, records: Records, coins: Coins) -> Tally:
    """The tally of a block of people, in the law of counting everybody's report."""
    law = declared_law(mechanism)
    if law is None:
        return mechanism.tally(mechanism.perturb_many(records, coins))
    draws = np.random.default_rng(int.from_bytes(coins.bytes(16), "little"))
    return Tally(mechanism.fingerprint, records.n, law.draw_tally(records, coins, draws))
