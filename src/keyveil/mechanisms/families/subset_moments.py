"""Mean and covariance of the counts of subset responses, exactly, for people by type.

Under cap l a person holds the symbol i (key and label) with probability u_i: that of the label for the person's value,
times min(1, l/s) for a key among s held ones. A symbol is in the report with probability p_i = o + δ·u_i, where o
is the chance of a symbol that is not held and δ what holding it adds. Two symbols are in it together with probability
t + (h - t)·P[at least one of the two is held], where t is the chance of two that are not held and h that of two of
which at least one is: a subset has the same weight whether it meets one held symbol or more. Derivation:
docs/mechanisms/ssr.md, "The normal limit".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Subset
from keyveil.core.records import Records
from keyveil.mechanisms.encoders import Labels

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

_CELLS = 1 << 24  # numbers of a dense block of types and symbols


def subset_moments(channel: Subset, labels: Labels, cap: int, types: Records, people: Counts) -> tuple[Floats, Floats]:
    """Mean [cells] and covariance [cells, cells] of the counts of ``people[i]`` reports of everybody of type i.

    Cells are those of the tally, [label, key], one after the other.
    """
    held, both, product = _held(labels, cap, types, people)
    own, other = channel.own, channel.other
    one_of_two, neither = channel.own_and_other, channel.two_others
    n, step = int(people.sum()), float(own - other)
    mean = n * float(other) + step * held
    sums = held[:, None] + held
    covariance = n * float(neither - other * other) + float(one_of_two - neither - other * (own - other)) * sums
    covariance -= float(one_of_two - neither) * both + step * step * product
    alone = n * float(other * (1 - other)) + float((own - other) * (1 - 2 * other)) * held
    np.fill_diagonal(covariance, alone - step * step * np.diagonal(product))
    return mean, covariance


def _held(labels: Labels, cap: int, types: Records, people: Counts) -> tuple[Floats, Floats, Floats]:
    """Sums over people: of u [cells], of the chance that both of two cells are held, and of u·uᵀ [cells, cells]."""
    cells = labels.count * types.d
    held, both, product = np.zeros(cells), np.zeros((cells, cells)), np.zeros((cells, cells))
    for start in range(0, types.n, step := max(_CELLS // cells, 1)):
        some = types.slice(start, min(start + step, types.n))
        weight, sizes = people[start : start + some.n].astype(np.float64), some.sizes
        first = np.minimum(1.0, cap / np.maximum(sizes, 1))  # a key is among those that count
        second = np.where(sizes > cap, first * (cap - 1) / np.maximum(sizes - 1, 1), 1.0)  # two keys are
        shares = np.zeros((some.n, cells))
        owners = np.repeat(np.arange(some.n), sizes)
        told = labels.shares(some.values, some.keys)
        for label in range(labels.count):
            shares[owners, label * types.d + some.keys] = told[:, label]
        held += (weight * first) @ shares
        both += shares.T @ (shares * (weight * second)[:, None])
        product += shares.T @ (shares * (weight * first**2)[:, None])
    by_key = both.reshape(labels.count, types.d, labels.count, types.d)
    keys = np.arange(types.d)
    by_key[:, keys, :, keys] = 0.0  # a key has one label
    return held, both, product


def drawn_near(mean: Floats, covariance: Floats, n: int, normals: Floats) -> Counts:
    """Whole numbers from 0 to n near a normal vector with this mean and covariance; ``normals`` are independent."""
    try:
        root = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:  # something is certain, such as a sum of counts
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.clip(np.rint(mean + root @ normals), 0, n).astype(np.int64)
