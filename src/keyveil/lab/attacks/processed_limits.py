"""Processed estimates and what attackers could have done: proved where a method is monotone, else by a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from keyveil.core.attacked import Attacked
from keyveil.core.estimates import Estimates
from keyveil.core.tally import Tally
from keyveil.lab.attacks.found import found_limits
from keyveil.lab.coins import SeededCoins
from keyveil.learn.postprocess import estimates as processed
from keyveil.learn.processed import Processed
from keyveil.mechanisms.base import Mechanism
from keyveil.robustness.processed import is_monotone, with_processed_limits


def processed_with_limits(
    estimates: Estimates,
    method: str,
    mechanism: Mechanism,
    tally: Tally,
    limits: Attacked | None,
    total: float | None = None,
    **cut: Any,
) -> Processed:
    """Estimates after post-processing, with limits beside them where ``limits`` of the unbiased ones are given.

    They are proved for methods that are monotone; of others they are the largest that a search found, and named so.
    """
    after = processed(method, estimates, total, mechanism=mechanism, **cut)
    if limits is None:
        return after
    computed = with_processed_limits(after, limits, total, mechanism) if is_monotone(method) else None
    if computed is not None and (computed.attacked is None or computed.attacked.frequency_kind != "largest found"):
        return computed

    def judge(tallies: Sequence[Tally]) -> Estimates:
        return processed(method, mechanism.estimate(tallies[0]), total, mechanism=mechanism, **cut)

    found = found_limits([(mechanism, tally)], judge, limits.attackers, SeededCoins(0))
    if computed is not None and computed.attacked is not None:  # beside what was computed, since neither is proved
        known = computed.attacked
        low = np.fmin(known.frequency_low, found.frequency_low)
        high = np.fmax(known.frequency_high, found.frequency_high)
        return replace(computed, attacked=replace(known, frequency_low=low, frequency_high=high))
    return replace(after, attacked=found)
