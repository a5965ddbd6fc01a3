"""How far crafted reports move frequencies after post-processing: proved where a method is monotone.

A method is monotone if the value of a key never falls when its own estimate rises, and never rises when another one
does. Given limits of all estimates, the largest value of a key is then that of its own upper limit beside the lower
limits of all others (docs/robustness.md). Of other methods, such as empirical Bayes, nothing is proved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from keyveil.core.attacked import Attacked, Floats
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.learn.constraints import constraint_of
from keyveil.learn.methods import Cut, Noise, run
from keyveil.learn.processed import Processed
from keyveil.mechanisms.base import Mechanism

ALONE = ("base", "base-pos", "post-pos")  # each key by itself
SHARED = ("norm", "norm-sub")  # every key lowers the others; norm-mul and norm-cut are not monotone
MONOTONE = (*ALONE, *SHARED)
MOST_KEYS = 4096  # for which every key is moved by itself: the work grows with their square


def is_monotone(method: str) -> bool:
    """Whether limits after this method are proved."""
    return method in MONOTONE


def processed_limits(
    processed: Processed, limits: Attacked, total: float | None = None, mechanism: Mechanism | None = None
) -> Attacked:
    """The limits of processed estimates, from those of the unbiased ones; means are cut to [-1, 1] in both.

    They are proved unless what is known of the sum follows from the estimates themselves.
    """
    method, raw = processed.method, processed.raw
    if not is_monotone(method):
        raise MechanismError("attack/postprocess", f"Nothing is proved of what attackers can do after {method}.")
    if method in SHARED and raw.schema.d > MOST_KEYS:
        told = f"What attackers can do after {method} is computed for up to {MOST_KEYS:,} keys, not {raw.schema.d:,}."
        raise MechanismError("attack/postprocess", told)
    column = raw.frequency
    there = np.isfinite(column.values) & np.isfinite(column.se) & (column.se > 0)
    constraint, kind = processed.constraint, limits.frequency_kind
    if not there.all() and constraint.total is not None:
        constraint = replace(constraint, total=None)
    if _follows(raw, limits, total, mechanism) and kind == "bound":
        kind = "largest found"

    def after(values: Floats) -> Floats:
        whole: Floats = values.copy()
        whole[there] = run(method, values[there], constraint, Noise(sigma=column.se[there]), Cut())
        return whole

    low, high = limits.frequency_low, limits.frequency_high
    if method in ALONE:
        least, largest = after(low), after(high)
    else:
        least, largest = _one_by_one(after, low, high), _one_by_one(after, high, low)
    return replace(limits, frequency_low=least, frequency_high=largest, frequency_kind=kind)


def _one_by_one(after: Callable[[Floats], Floats], own: Floats, others: Floats) -> Floats:
    """The value of each key at its own limit, all others being at theirs."""
    found = np.empty_like(own)
    for at in range(len(own)):
        moved = others.copy()
        moved[at] = own[at]
        found[at] = after(moved)[at]
    return found


def _follows(raw: Estimates, limits: Attacked, total: float | None, mechanism: Mechanism | None) -> bool:
    """Whether what is known of the sum changes with the estimates."""
    moved = [
        constraint_of(replace(raw, frequency=replace(raw.frequency, values=values), scores=None), total, mechanism)
        for values in (limits.frequency_low, limits.frequency_high)
    ]
    return any(one != constraint_of(raw, total, mechanism) for one in moved)


def with_processed_limits(
    processed: Processed, limits: Attacked, total: float | None = None, mechanism: Mechanism | None = None
) -> Processed:
    """Processed estimates with the limits beside them."""
    return replace(processed, attacked=processed_limits(processed, limits, total, mechanism))
