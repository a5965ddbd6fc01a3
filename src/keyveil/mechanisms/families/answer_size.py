"""How large an answer of a set response should be: scans of the closed forms of its variance for rare keys.

Floats are welcome here: a size is public configuration, and whatever it is, the channel built from it is exact.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.core.work import spend

GOALS = ("both", "frequency", "mean")

Floats = NDArray[np.float64]


def subset_size(keys: int, labels: int, max_pairs: int, e: float, goal: str) -> int:
    """Members of an SSR subset, of least variance for the goal; where labels are cells, "mean" is the mass of one."""
    spend(labels * keys * max_pairs // 16, "Choosing the size of an answer")
    sizes = np.arange(1, labels * keys, dtype=np.float64)
    frequency, mean = subset_variances(sizes, keys, labels, max_pairs, e)
    score = {"frequency": frequency, "mean": mean, "both": np.sqrt(frequency * mean)}[goal]
    return int(sizes[np.argmin(score)])


def subset_variances(sizes: Floats, keys: int, labels: int, max_pairs: int, e: float) -> tuple[Floats, Floats]:
    """n · Var of the frequency and of the product f·m (or of a cell's mass) of a rare key, for SSR."""
    symbols = labels * keys + max_pairs

    def tilt(taken: int) -> Floats:
        """E-weighted share of all subsets with ``taken`` given symbols: 1 for those that miss what is held."""
        steps = np.arange(max_pairs)[:, None]
        missing = np.prod(np.maximum(symbols - sizes - steps, 0) / (symbols - taken - steps), axis=0)
        weighted: Floats = missing + e * (1 - missing)
        return weighted

    inclusion = sizes / symbols
    own = e * inclusion / tilt(0)
    other = inclusion * tilt(1) / tilt(0)
    two_others = inclusion * (sizes - 1) / (symbols - 1) * tilt(2) / tilt(0)
    together = two_others - other**2
    gain = np.maximum(own - other, 1e-60) ** 2  # nearly all symbols in every answer: nothing is learnt
    alone = other * (1 - other)
    frequency = labels * (alone + (labels - 1) * together) / gain
    return frequency, (2 * (alone - together) if labels == 2 else alone) / gain


def arc_variance(shares: Floats, max_pairs: int, e: float) -> Floats:
    """n · Var of the frequency, and of the product, of a rare key on a circle where an arc has these shares."""
    room = 1 - max_pairs * shares
    variance: Floats = 2 * (1 - shares) * (1 + max_pairs * shares * (e - 1)) ** 2 / (shares * ((e - 1) * room) ** 2)
    return variance
