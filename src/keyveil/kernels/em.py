"""Expectation–maximisation for many discrete channels at once: from counts of outputs to shares of inputs.

    em(counts, matrix)                    a channel written out, matrix[j, i] = P(output j | input i)
    window_em(counts, inner, outer, width)  output j has probability inner for i <= j < i + width, else outer

Both are linear maps and share one iteration; the second needs cumulative sums only. The loop is matrix products over
groups of keys that fit the cache; a key that has converged leaves its group.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Known = tuple[ArrayLike, ArrayLike]  # the weight of a component whose law is known (one or per key), and the law
_Map = Callable[[Floats], Floats]

_GROUP = 16  # keys at a time: what a step needs of them stays in the cache
_TINY = np.finfo(np.float64).tiny  # outputs that no input reaches are never seen; this keeps their logarithm finite


def em(
    counts: ArrayLike,
    matrix: Floats,
    known: Known | None = None,
    *,
    tolerance: float,
    smooth: bool,
    limit: int = 10_000,
) -> Floats:
    """The shares of the inputs, [I] or [k, I], for output counts [J] or [k, J].

    ``known`` mixes in a component that is not estimated. ``smooth`` averages neighbours after every step (EMS). A key
    is finished when a step raises its log-likelihood by less than ``tolerance``, or after ``limit`` steps.
    """
    return _solve(
        counts, matrix.shape[1], lambda p: p @ matrix.T, lambda r: r @ matrix, known, tolerance, smooth, limit
    )


def window_em(
    counts: ArrayLike,
    inner: float,
    outer: float,
    width: int,
    known: Known | None = None,
    *,
    tolerance: float,
    smooth: bool,
    limit: int = 10_000,
) -> Floats:
    """``em`` for the channel that favours a window of ``width`` outputs, the first at the input's own index."""
    inputs = np.shape(counts)[-1] - width + 1

    def forward(shares: Floats) -> Floats:
        total = _running(shares)
        sums = np.empty((len(shares), inputs + width - 1))
        sums[:, :inputs] = total[:, 1:]
        sums[:, inputs:] = total[:, -1:]
        sums[:, width:] -= total[:, 1:inputs]
        return (inner - outer) * sums + outer * total[:, -1:]

    def backward(ratios: Floats) -> Floats:
        total = _running(ratios)
        return (inner - outer) * (total[:, width:] - total[:, :inputs]) + outer * total[:, -1:]

    return _solve(counts, inputs, forward, backward, known, tolerance, smooth, limit)


def _solve(
    counts: ArrayLike,
    inputs: int,
    forward: _Map,
    backward: _Map,
    known: Known | None,
    tolerance: float,
    smooth: bool,
    limit: int,
) -> Floats:
    table = np.atleast_2d(np.asarray(counts, dtype=np.float64))
    weight, law = known if known is not None else (0.0, np.zeros(table.shape[1]))
    weights = np.broadcast_to(np.asarray(weight, dtype=np.float64), len(table))[:, None]
    base = np.asarray(law, dtype=np.float64)
    shares = np.full((len(table), inputs), 1.0 / inputs)
    for first in range(0, len(table), _GROUP):
        keys = np.arange(first, min(first + _GROUP, len(table)))
        keys = keys[(table[keys].sum(axis=1) > 0) & (weights[keys, 0] < 1)]  # the others say nothing: uniform stays
        _climb(shares, keys, table, weights, base, forward, backward, tolerance, smooth, limit)
    return shares.reshape(*np.shape(counts)[:-1], inputs)


def _climb(
    shares: Floats,
    keys: NDArray[np.int64],
    table: Floats,
    weights: Floats,
    base: Floats,
    forward: _Map,
    backward: _Map,
    tolerance: float,
    smooth: bool,
    limit: int,
) -> None:
    seen, mixed, current = table[keys], weights[keys] * base, shares[keys]
    free = 1 - weights[keys]
    expected = np.maximum(free * forward(current) + mixed, _TINY)
    likelihood = _likelihood(seen, expected)
    for _ in range(limit):
        if not len(keys):
            return
        current = current * backward(seen / expected)
        current /= current.sum(axis=1, keepdims=True)
        if smooth:
            current = _smoothed(current)
        expected = np.maximum(free * forward(current) + mixed, _TINY)
        before, likelihood = likelihood, _likelihood(seen, expected)
        shares[keys] = current
        going = likelihood - before >= tolerance
        if not going.all():
            keys, seen, mixed, free = keys[going], seen[going], mixed[going], free[going]
            current, expected, likelihood = current[going], expected[going], likelihood[going]


def _likelihood(seen: Floats, expected: Floats) -> Floats:
    likelihood: Floats = np.einsum("kj,kj->k", seen, np.log(expected))
    return likelihood


def _smoothed(shares: Floats) -> Floats:
    """Neighbours averaged with weights (1, 2, 1) / 4, at the ends (2, 1) / 3; renormalised."""
    if shares.shape[1] < 2:
        return shares
    result = np.empty_like(shares)
    result[:, 1:-1] = (shares[:, :-2] + 2 * shares[:, 1:-1] + shares[:, 2:]) / 4
    result[:, 0] = (2 * shares[:, 0] + shares[:, 1]) / 3
    result[:, -1] = (2 * shares[:, -1] + shares[:, -2]) / 3
    result /= result.sum(axis=1, keepdims=True)
    return result


def _running(rows: Floats) -> Floats:
    """Cumulative sums along each row, with a zero in front."""
    total = np.zeros((rows.shape[0], rows.shape[1] + 1))
    np.cumsum(rows, axis=1, out=total[:, 1:])
    return total
