"""Making estimates obey what is known of them: non-negative, with a given sum. Privacy is not touched by it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def norm_sub(estimates: ArrayLike, total: float = 1.0) -> NDArray[np.float64]:
    """The nearest vector (in the Euclidean sense) that is non-negative and has the given sum: mechanisms.md 5.1."""
    raw = np.asarray(estimates, dtype=np.float64)
    falling = np.sort(raw)[::-1]
    offsets = (total - np.cumsum(falling)) / np.arange(1, len(falling) + 1)
    last = np.flatnonzero(falling + offsets > 0)
    shift = offsets[last[-1]] if len(last) else offsets[0]
    return np.maximum(raw + shift, 0.0)
