"""Many keys at once: which of them are told from absent, and intervals for keys that were chosen by their estimates.

Among thousands of keys that nobody holds, one in forty has a 95 % interval above zero by chance. A statement about
whichever keys look frequent must therefore be decided over all keys at once (docs/theory.md, many keys).
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Decision = Literal["bh", "by", "per-key"]
"""How keys are told from absent: by Benjamini and Hochberg, in Yekutieli's form, or each on its own."""

DECISIONS: tuple[Decision, ...] = ("bh", "by", "per-key")


def told_from_absent(scores: Floats, decision: Decision, confidence: float) -> NDArray[np.bool_]:
    """For every key, whether its frequency is told from 0. ``scores`` are estimates over standard errors, [key].

    ``bh`` keeps the expected share of absent keys among those told at 1 - ``confidence`` where errors are independent
    or positively dependent; ``by`` does so whatever the dependence. Both test f = 0 against f > 0 and count the keys
    whose score is known. ``per-key`` says for each key whether its own two-sided interval lies above 0.
    """
    known = ~np.isnan(scores)
    told = np.zeros(len(scores), dtype=np.bool_)
    keys, level = int(np.count_nonzero(known)), 1 - confidence
    if decision == "per-key":
        return known & (scores > _quantile((1 + confidence) / 2))
    if decision == "by" and keys:
        level /= float(np.sum(1 / np.arange(1, keys + 1)))
    with np.errstate(invalid="ignore"):
        far = np.flatnonzero(known & (scores > _quantile(1 - level)))  # no other can be told
    order = far[np.argsort(-scores[far], kind="stable")]
    chances = np.array([math.erfc(score / math.sqrt(2)) / 2 for score in scores[order].tolist()])
    below = np.flatnonzero(chances <= level * np.arange(1, len(order) + 1) / max(keys, 1))
    if len(below):
        told[order[: below[-1] + 1]] = True
    return told


def false_shares(scores: Floats) -> Floats:
    """For every key, the least share of absent keys that a list by Benjamini and Hochberg must admit to hold it, [key].

    Also called an adjusted p-value: at confidence c, ``bh`` tells just the keys that have at most 1 - c. It is 1 where
    a score is not known.
    """
    shares, known = np.ones(len(scores)), np.flatnonzero(~np.isnan(scores))
    order = known[np.argsort(-scores[known], kind="stable")]
    chances = np.array([math.erfc(score / math.sqrt(2)) / 2 for score in scores[order].tolist()])
    ratios = np.minimum(chances * len(order) / np.arange(1, len(order) + 1), 1)
    shares[order] = np.minimum.accumulate(ratios[::-1])[::-1]
    return shares


def widening(chosen: int, keys: int, confidence: float) -> float:
    """How many times as wide an interval is at level 1 - (1 - ``confidence``)·chosen/keys as at ``confidence``.

    Intervals so wide hold the truth of all but a share 1 - ``confidence`` of the chosen keys, on average, although the
    keys were chosen by their estimates (Benjamini and Yekutieli 2005).
    """
    share = min(max(chosen, 1), keys) / max(keys, 1)
    tail = (1 - confidence) * share / 2
    return _quantile(tail) / _quantile((1 - confidence) / 2)


def _quantile(chance: float) -> float:
    """The standard normal number that is exceeded with probability 1 - ``chance``."""
    from statistics import NormalDist  # brings in much that a device never needs

    return NormalDist().inv_cdf(chance)
