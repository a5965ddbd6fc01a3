"""Laws of a simple shape, by their mean and spread, from one point to laws that cover everything: for empirical Bayes.

Where estimates tell little, what all keys have in common is all that there is to learn, and that is a mean and whether
keys differ at all. A law that is learnt without a shape (``learn.laws``) finds a point only after thousands of rounds.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SPREADS = (0.0, 1.0, 2.0)  # of the normal law of the log odds of a frequency, or of the share of high signs
POINTS = 24  # equally likely ones that stand for a law
_NORMAL = np.array([NormalDist().inv_cdf((place + 0.5) / POINTS) for place in range(POINTS)])
_ENDS, _HALVINGS = 40.0, 30  # of log odds, between which their centre is looked for


def shapes(means: Floats, size: int, last: float) -> Floats:
    """Laws [means × spreads, size] of these means in [0, 1], on a grid from 0 in ``size`` cells; 1 lies at ``last``."""
    wide, middle = np.meshgrid(np.asarray(SPREADS), means, indexing="ij")
    wide, middle = wide.reshape(-1, 1), middle.reshape(-1, 1)
    low, high = np.full(middle.shape, -_ENDS), np.full(middle.shape, _ENDS)
    for _ in range(_HALVINGS):
        centre = (low + high) / 2
        above = _shares(centre + wide * _NORMAL).mean(axis=1, keepdims=True) > middle
        low, high = np.where(above, low, centre), np.where(above, centre, high)
    at = _shares((low + high) / 2 + wide * _NORMAL) * last
    cell = np.minimum(at.astype(np.int64), size - 2)
    beyond, rows = at - cell, np.arange(len(at))[:, None] * size
    laws = np.bincount((rows + cell).ravel(), (1 - beyond).ravel(), minlength=len(at) * size)
    laws += np.bincount((rows + cell + 1).ravel(), beyond.ravel(), minlength=len(at) * size)
    found: Floats = laws.reshape(len(at), size) / POINTS
    return found


def _shares(odds: Floats) -> Floats:
    shares: Floats = 1 / (1 + np.exp(-odds))
    return shares
