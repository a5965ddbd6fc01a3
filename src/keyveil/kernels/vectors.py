"""Vectors over {silence, minus, plus} as two planes of bits, and vectors of small labels as bytes.

Signs: ``planes[i, 0]`` has the keys that person i says minus about, ``planes[i, 1]`` those with plus. Labels:
``rows[i, k]`` is 0 for silence, else 1 + label. In both, most keys speak by chance, with a uniform sign or label, and
one key at most has a law of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.kernels.backend import kernel
from keyveil.kernels.bernoulli import perturb_unary
from keyveil.kernels.bits import count_bits

_NEAR = 1 << 13  # counts: 32 kB
_CLOSE = 1 << 17  # bytes of rows
_CELLS = 1 << 20  # labels drawn at once


def perturb_signs(
    hot: NDArray[np.int64],
    plus: NDArray[np.bool_],
    d: int,
    hot_threshold: int,
    cold_threshold: int,
    coins: Coins,
) -> NDArray[np.uint64]:
    """Planes uint64[n, 2, words]; the key ``hot[i]`` (-1: none) speaks with its own threshold, and says ``plus[i]``.

    Thresholds are out of 2**32, as for ``perturb_unary``.
    """
    speaks = perturb_unary(hot, d, hot_threshold, cold_threshold, coins)
    signs = coins.words(speaks.size).reshape(speaks.shape)
    people = np.flatnonzero(hot >= 0)
    column, shift = hot[people] >> 6, (hot[people] & 63).astype(np.uint64)
    own = plus[people].astype(np.uint64) << shift
    signs[people, column] = signs[people, column] & ~(np.uint64(1) << shift) | own
    planes = np.empty((len(hot), 2, speaks.shape[1]), dtype=np.uint64)
    np.bitwise_and(speaks, signs, out=planes[:, 1])
    np.bitwise_xor(speaks, planes[:, 1], out=planes[:, 0])
    return planes


def count_signs(planes: NDArray[np.uint64], d: int) -> NDArray[np.int64]:
    """How many people say minus and plus about each key, [2, d]."""
    n, signs, words = planes.shape
    return count_bits(np.ascontiguousarray(planes).reshape(n, signs * words)).reshape(signs, 64 * words)[:, :d]


def perturb_labels(
    hot: NDArray[np.int64],
    own: NDArray[np.int64],
    d: int,
    labels: int,
    hot_threshold: int,
    cold_threshold: int,
    coins: Coins,
) -> NDArray[Any]:
    """Rows [n, d]; the key ``hot[i]`` (-1: none) speaks with its own threshold, and says ``own[i]``."""
    speaks = perturb_unary(hot, d, hot_threshold, cold_threshold, coins)
    rows = np.zeros((len(hot), d), dtype=np.min_scalar_type(labels))
    step = max(1, _CELLS // d)
    for first in range(0, len(hot), step):
        part = speaks[first : first + step]
        spoken = int(np.bitwise_count(part).sum(dtype=np.int64))
        _write_labels(rows[first : first + step], part, coins.below_many(labels, spoken))
    people = np.flatnonzero(hot >= 0)
    places = people, hot[people]
    rows[places] = np.where(rows[places] > 0, own[people] + 1, 0)
    return rows


def _write_labels_numpy(rows: NDArray[Any], speaks: NDArray[np.uint64], labels: NDArray[np.int64]) -> None:
    octets = np.ascontiguousarray(speaks, dtype="<u8").view(np.uint8)
    bits = np.unpackbits(octets, axis=1, bitorder="little")[:, : rows.shape[1]]
    rows[bits.view(np.bool_)] = labels + 1


@kernel(twin=_write_labels_numpy)
def _write_labels(rows: NDArray[Any], speaks: NDArray[np.uint64], labels: NDArray[np.int64]) -> None:
    """Give the keys that speak, person by person and in order, one label after the other."""
    used = 0
    for i in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            if (speaks[i, k >> 6] >> np.uint64(k & 63)) & np.uint64(1):
                rows[i, k] = labels[used] + 1
                used += 1


def _count_labels_numpy(rows: NDArray[Any], labels: int) -> NDArray[np.int64]:
    n, d = rows.shape
    counts = np.zeros(d * (labels + 1), dtype=np.int64)
    step = max(1, _CELLS // d)
    columns = np.arange(d, dtype=np.int64) * (labels + 1)
    for first in range(0, n, step):
        counts += np.bincount((rows[first : first + step] + columns).reshape(-1), minlength=len(counts))
    return np.ascontiguousarray(counts.reshape(d, labels + 1)[:, 1:].T)


@kernel(twin=_count_labels_numpy)
def count_labels(rows: NDArray[Any], labels: int) -> NDArray[np.int64]:
    """How many people say each label about each key, [labels, d]."""
    n, d = rows.shape
    counts = np.zeros((d, labels + 1), dtype=np.uint32)
    people = max(1, _CLOSE // d)  # whose rows stay in the second cache while keys pass
    some = max(1, _NEAR // (labels + 1))  # keys whose counts stay in the first one while those people pass
    for start in range(0, n, people):
        for first in range(0, d, some):
            for i in range(start, min(start + people, n)):
                for k in range(first, min(first + some, d)):
                    counts[k, rows[i, k]] += np.uint32(1)
    spoken = np.empty((labels, d), dtype=np.int64)
    for k in range(d):
        for label in range(labels):
            spoken[label, k] = counts[k, label + 1]
    return spoken
