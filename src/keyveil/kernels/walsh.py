"""The fast Walsh–Hadamard transform, exact in integers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.kernels.backend import kernel


def _walsh_numpy(vector: NDArray[np.int64]) -> NDArray[np.int64]:
    half = 1
    while half < len(vector):
        pairs = vector.reshape(-1, 2, half)
        pairs[:, 0], pairs[:, 1] = pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]
        half *= 2
    return vector


@kernel(twin=_walsh_numpy)
def walsh(vector: NDArray[np.int64]) -> NDArray[np.int64]:
    """Multiply by H[i, j] = (-1)**popcount(i & j), in place; the length is a power of two."""
    half = 1
    while half < len(vector):
        for start in range(0, len(vector), 2 * half):
            left, right = vector[start : start + half], vector[start + half : start + 2 * half]
            for i in range(half):
                left[i], right[i] = left[i] + right[i], left[i] - right[i]
        half *= 2
    return vector
