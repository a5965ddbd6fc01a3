"""Expectation–maximisation for many discrete channels at once: from counts of outputs to shares of inputs.

    em(counts, matrix)                    a channel written out, matrix[j, i] = P(output j | input i)
    window_em(counts, inner, outer, width)  output j has probability inner for i <= j < i + width, else outer

A key is finished when a step hardly gains any more, so keys take their own time. The first form is matrix products
over groups of keys that fit the cache. The second slides windows, a step of a key in time O(outputs): key by key in
machine code, or in groups by cumulative sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keyveil.kernels.backend import native, twinless

Floats = NDArray[np.float64]
Known = tuple[ArrayLike, ArrayLike]  # the weight of a component whose law is known (one or per key), and the law
_Map = Callable[[Floats], Floats]

_GROUP = 16  # keys at a time: what a step needs of them stays in the cache
_TINY = float(np.finfo(np.float64).tiny)  # outputs that no input reaches are never seen; their logarithm stays finite


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
    table, weights, law = _prepared(counts, known)
    shares = np.full((len(table), matrix.shape[1]), 1.0 / matrix.shape[1])
    _climb(shares, table, weights, law, lambda p: p @ matrix.T, lambda r: r @ matrix, tolerance, smooth, limit)
    return shares.reshape(*np.shape(counts)[:-1], -1)


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
    table, weights, law = _prepared(counts, known)
    inputs = table.shape[1] - width + 1
    shares = np.full((len(table), inputs), 1.0 / inputs)
    if native():
        _slide(shares, table, weights, law, float(inner), float(outer), width, float(tolerance), smooth, limit)
        return shares.reshape(*np.shape(counts)[:-1], -1)

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

    _climb(shares, table, weights, law, forward, backward, tolerance, smooth, limit)
    return shares.reshape(*np.shape(counts)[:-1], -1)


def _prepared(counts: ArrayLike, known: Known | None) -> tuple[Floats, Floats, Floats]:
    """Counts [k, J], the weight of the known component per key, and its law [J]."""
    table = np.atleast_2d(np.asarray(counts, dtype=np.float64))
    weight, law = known if known is not None else (0.0, np.zeros(table.shape[1]))
    weights = np.ascontiguousarray(np.broadcast_to(np.asarray(weight, dtype=np.float64), len(table)))
    return np.ascontiguousarray(table), weights, np.ascontiguousarray(law, dtype=np.float64)


# -- groups of keys, any channel -------------------------------------------------------------------------------------


def _climb(
    shares: Floats,
    table: Floats,
    weights: Floats,
    law: Floats,
    forward: _Map,
    backward: _Map,
    tolerance: float,
    smooth: bool,
    limit: int,
) -> None:
    telling = np.flatnonzero((table.sum(axis=1) > 0) & (weights < 1))  # the others say nothing: uniform stays
    for first in range(0, len(telling), _GROUP):
        keys = telling[first : first + _GROUP]
        seen, mixed, free = table[keys], weights[keys, None] * law, 1 - weights[keys, None]
        current = shares[keys]
        expected = np.maximum(free * forward(current) + mixed, _TINY)
        for _ in range(limit):
            current = current * backward(seen / expected)
            current /= current.sum(axis=1, keepdims=True)
            if smooth:
                current = _smoothed(current)
            before, expected = expected, np.maximum(free * forward(current) + mixed, _TINY)
            gain = np.einsum("kj,kj->k", seen, np.log(expected / before))
            shares[keys] = current
            going = gain >= tolerance
            if not going.all():
                keys, seen, mixed, free = keys[going], seen[going], mixed[going], free[going]
                current, expected = current[going], expected[going]
                if not len(keys):
                    break


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


# -- one key after the other, windows in machine code --------------------------------------------------------------


def _sum(numbers: Floats, count: int) -> float:
    """The sum of the first ``count`` numbers, which are used up: halves are added, so that no number waits for others.

    Compilers add floats in the order that is written, one after the other; halves they add in vectors.
    """
    while count > 1:
        half = (count + 1) // 2
        upper = numbers[half:count]
        for i in range(len(upper)):
            numbers[i] += upper[i]
        count = half
    return float(numbers[0])


def _running_sums(numbers: Floats, sums: Floats) -> None:
    """Running sums; their length is a multiple of four, and each quarter is summed beside the others."""
    part = len(numbers) // 4
    numbers2, numbers3, numbers4 = numbers[part:], numbers[2 * part :], numbers[3 * part :]
    sums2, sums3, sums4 = sums[part:], sums[2 * part :], sums[3 * part :]
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for i in range(part):
        a += numbers[i]
        b += numbers2[i]
        c += numbers3[i]
        d += numbers4[i]
        sums[i], sums2[i], sums3[i], sums4[i] = a, b, c, d
    for i in range(part):
        sums2[i] += a
        sums3[i] += a + b
        sums4[i] += a + b + c


@partial(twinless, steps=(_sum, _running_sums))
def _slide(
    shares: Floats,
    table: Floats,
    weights: Floats,
    law: Floats,
    inner: float,
    outer: float,
    width: int,
    tolerance: float,
    smooth: bool,
    limit: int,
) -> None:
    """What ``_climb`` does, for windows: a step passes over the outputs and over the inputs a few times."""
    inputs, outputs = shares.shape[1], table.shape[1]
    room = (outputs + 3) // 4 * 4
    padded = np.zeros(outputs + width)  # the shares with zeros before and after
    ahead = padded[width:]
    steps_of, favoured, gains = np.zeros(room), np.zeros(room), np.zeros(room)
    later, rises, more, halves = steps_of[1:], np.zeros(outputs), np.zeros(outputs), np.zeros(outputs)
    expected, ratios, inverse = np.ones(outputs), np.zeros(outputs), np.zeros(outputs)
    entering = ratios[width:]
    for key in range(len(table)):
        seen, current = table[key], shares[key]
        if not seen.sum() > 0 or not weights[key] < 1:
            continue
        free, steps = 1 - weights[key], 0
        slope, known = free * (inner - outer), free * outer + weights[key] * law
        for j in range(outputs):
            inverse[j] = 1 / seen[j] if seen[j] else 0.0
            ratios[j] = 0.0
        while True:
            padded[width : width + inputs] = current
            for j in range(outputs):
                steps_of[j] = ahead[j] - padded[j]
            _running_sums(steps_of, favoured)
            for j in range(outputs):
                expected[j] = max(slope * favoured[j] + known[j], _TINY)
            for j in range(outputs):
                rises[j] = ratios[j] * expected[j] * inverse[j] - 1  # of what is expected, over what was before
            large = 0
            for j in range(outputs):
                more[j] = 2 + rises[j]
                large += int(abs(rises[j]) >= 0.1) & int(seen[j] > 0)
            for j in range(outputs):  # what is asked about zeros tells the compiler that none is divided by
                halves[j] = rises[j] / more[j] if more[j] != 0.0 else 0.0
            for j in range(outputs):
                z, square = halves[j], halves[j] * halves[j]  # the logarithm of 1 + rise is 2 artanh z
                series = 1 + square * (1 / 3 + square * (1 / 5 + square * (1 / 7 + square * (1 / 9))))
                gains[j] = 2 * seen[j] * z * series
            if large and steps:
                for j in range(outputs):
                    gains[j] = seen[j] * math.log(ratios[j] * expected[j] * inverse[j]) if seen[j] else 0.0
            if steps == limit or (steps and not _sum(gains, outputs) >= tolerance):
                break
            steps += 1
            for j in range(outputs):
                ratios[j] = seen[j] / expected[j] if expected[j] != 0.0 else 0.0
            for j in range(outputs):
                gains[j] = ratios[j]
            flat = outer * _sum(gains, outputs)
            for j in range(width):
                gains[j] = ratios[j]
            steps_of[0] = _sum(gains, width)
            for i in range(inputs - 1):
                later[i] = entering[i] - ratios[i]
            _running_sums(steps_of, favoured)
            for i in range(inputs):
                current[i] *= (inner - outer) * favoured[i] + flat
                gains[i] = current[i]
            current *= 1 / _sum(gains, inputs)
            if smooth and inputs > 1:
                padded[:inputs] = current
                for i in range(1, inputs - 1):
                    current[i] = (padded[i - 1] + 2 * padded[i] + padded[i + 1]) / 4
                current[0] = (2 * padded[0] + padded[1]) / 3
                current[-1] = (2 * padded[inputs - 1] + padded[inputs - 2]) / 3
                current /= current.sum()
                padded[:width] = 0.0
