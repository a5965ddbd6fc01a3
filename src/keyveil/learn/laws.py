"""What a key may be like: laws on a grid that are learnt from the estimates of all keys, for empirical Bayes.

With few keys a law that was learnt from a key would trust it twice, so each key is judged by the law of the others, and
laws are drawn out by kernels. Frequent keys are few in any case, so above ``TAIL`` the shape of a law always is.
Derivation, reasons of the constants, and what they cost: docs/theory.md, empirical Bayes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

STEP = 0.35  # of the frequency grid, in standard errors
ROUNDS = 40  # of EM for laws that are smoothed, and for means
SMALL = 500  # keys below which a law is smoothed, and learnt without the keys that it is used for
WIDTHS = (0, 1, 2, 4, 8, 16, 32, 64)  # of the smoothing kernel, in steps of the grid
SCALE_STEP = 0.05  # of cells on that scale
BEND = 4.0  # c, in standard errors: where that scale turns from linear to logarithmic
FOLDS = 10  # groups of keys; the law of each is learnt from the other groups
VAGUE_KEYS = 4.0  # invented keys of any frequency or mean in every law: z² at 95 %, as in Wilson's interval
TAIL = 4.0  # standard errors above which a law of frequencies has a shape that is chosen by the keys there
TAIL_WIDTHS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)  # of kernels for that shape that widen with the frequency
CLEAR = 1.0  # standard errors above ``TAIL`` from which on a key tells of that shape
LEAST_CLEAR = 3  # such keys, below which it stays as it was learnt


@dataclass(frozen=True, eq=False)
class Laws:
    """What a key may be like, for every group of keys learnt from the others; the last one is learnt from all."""

    shares: Floats  # [groups + 1, size], rows sum to one
    group: Ints  # [d]

    def at(self, places: Ints) -> Floats:
        """The prior weights of every key at its own places [d, window]."""
        found: Floats = self.shares[self.group[:, None], places]
        return found


def learnt(
    likelihood: Floats, places: Ints, vague: Floats, known: Flags, rounds: int, stretched: Sequence[float] = ()
) -> Laws:
    """The laws on a grid that make the estimates of keys likeliest; with many keys after so many rounds of EM.

    With few keys, a law that was learnt from a key would trust it twice, so each is judged by the law of the others,
    averaged over kernels by how well they foretell the keys that they were not told. ``stretched`` has the widths of
    kernels that widen with the frequency.
    """
    rows, at, size = likelihood[known], places[known], len(vague)
    if len(rows) >= SMALL:
        return Laws(_fitted(rows, at, vague, rounds)[None], np.zeros(len(known), dtype=np.int64))
    fold, kernels = _dealt(rows, at), [partial(_smoothed, width=width) for width in WIDTHS if 4 * width < size]
    kernels += [partial(_stretched, width=width) for width in stretched]
    groups = int(fold.max()) + 1
    laws, scores = np.empty((groups + 1, len(kernels), size)), np.zeros(len(kernels))
    for group in range(groups + 1):
        told, held_out = fold != group, fold == group
        law = _fitted(rows[told], at[told], vague, ROUNDS)
        for number, kernel in enumerate(kernels):
            laws[group, number] = kernel(law)
            foretold = (rows[held_out] * laws[group, number][at[held_out]]).sum(axis=1)
            scores[number] += np.log(np.maximum(foretold, 1e-300)).sum()
    trust = np.exp(scores - scores.max())
    of_key = np.full(len(known), groups)
    of_key[known] = fold
    return Laws(np.tensordot(trust / trust.sum(), laws, axes=(0, 1)), of_key)


def smooth_tail(laws: Laws, likelihood: Floats, places: Ints, vague: Floats, known: Flags) -> Laws:
    """The laws of frequencies with a smooth shape above ``TAIL`` standard errors, and as much mass there as before.

    The few frequent keys lie far apart. A law that has a peak for each of them draws each to itself and to its next
    neighbour. The kernels are averaged by how well their shapes, as conditional laws above ``TAIL``, foretell clear
    keys that they were not told: a shape that is chosen by all keys, or with a mass of its own, serves the many near
    zero, or keys that are there by chance.
    """
    rows, at, size, edge = likelihood[known], places[known], len(vague), round(TAIL / STEP)
    clear = _centres(rows, at) * STEP > TAIL + CLEAR
    if np.count_nonzero(clear) < LEAST_CLEAR or edge >= size - 1:
        return laws
    one_law = len(laws.shares) == 1
    group, shares = laws.group.copy(), laws.shares.copy()
    if one_law:  # of so many keys that only clear ones would feel themselves in it
        group[:] = FOLDS
        group[np.flatnonzero(known)[clear]] = _dealt(rows[clear], at[clear])
        shares = np.repeat(laws.shares, FOLDS + 1, axis=0)
    kernels = [partial(_smoothed, width=width) for width in WIDTHS if 4 * width < size]
    kernels += [partial(_stretched, width=width) for width in TAIL_WIDTHS]
    shapes, scores = np.empty((len(shares), len(kernels), size - edge)), np.zeros(len(kernels))
    for number, law in enumerate(shares):
        held_out = clear & (group[known] == number)
        told = ~held_out if one_law else group[known] != number
        others = _once_more(rows[told], at[told], law, vague)
        if one_law:
            shares[number] = others
        for which, kernel in enumerate(kernels):
            shape = kernel(others)[edge:]
            shapes[number, which] = shape / max(float(shape.sum()), 1e-300)
            above = np.append(np.zeros(edge), shapes[number, which])
            foretold = (rows[held_out] * above[at[held_out]]).sum(axis=1)
            scores[which] += np.log(np.maximum(foretold, 1e-300)).sum()
    trust = np.exp(scores - scores.max())
    tails = np.tensordot(trust / trust.sum(), shapes, axes=(0, 1))
    shares[:, edge:] = tails * shares[:, edge:].sum(axis=1, keepdims=True)
    return Laws(shares, group)


def _once_more(rows: Floats, at: Ints, law: Floats, vague: Floats) -> Floats:
    """A law after one more round of EM with these keys."""
    weights = rows * law[at]
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    told = np.bincount(at.ravel(), weights=weights.ravel(), minlength=len(vague))
    after: Floats = (told + VAGUE_KEYS * vague) / (len(rows) + VAGUE_KEYS)
    return after


def _centres(rows: Floats, at: Ints) -> Floats:
    """Where on the grid the likelihood of every key lies."""
    centres: Floats = (rows * at).sum(axis=1) / np.maximum(rows.sum(axis=1), 1e-300)
    return centres


def _fitted(rows: Floats, at: Ints, vague: Floats, rounds: int) -> Floats:
    """EM from the vague law, smoothed for few keys."""
    law = vague
    for _ in range(rounds if len(rows) else 0):
        law = _once_more(rows, at, law, vague)
        if len(rows) < SMALL:
            padded = np.pad(law, 1, mode="edge")
            law = (padded[:-2] + 2 * law + padded[2:]) / 4
    return law


def _dealt(rows: Floats, at: Ints) -> Ints:
    """Groups that are each as diverse as all keys: dealt in the order of estimates, not as keys happen to lie."""
    centre = _centres(rows, at)
    rank = np.empty(len(rows), dtype=np.int64)
    rank[np.argsort(centre, kind="stable")] = np.arange(len(rows))
    return rank % FOLDS


def _smoothed(law: Floats, width: float) -> Floats:
    """A law drawn out by a normal kernel, mirrored at both ends."""
    if not width:
        return law
    reach = min(math.ceil(4 * width), len(law) - 1)
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    drawn: Floats = np.convolve(np.pad(law, reach, mode="symmetric"), weights, "valid")
    drawn /= drawn.sum()
    return drawn


def _stretched(law: Floats, width: float) -> Floats:
    """A law of frequencies drawn out by a normal kernel on the scale log(1 + f/``BEND``), with f in standard errors.

    Frequent keys lie far apart, as on a logarithmic scale; near zero, where most keys are, the kernel is narrow.
    """
    edges = np.maximum(np.arange(len(law) + 1) - 0.5, 0.0) * STEP
    scale = np.log1p(edges / BEND)
    cells = np.linspace(0, scale[-1], max(math.ceil(scale[-1] / SCALE_STEP), 8) + 1)
    shares = np.diff(np.interp(cells, scale, np.append(0.0, np.cumsum(law))))
    drawn = _smoothed(shares, width / float(cells[1]))
    found: Floats = np.diff(np.interp(scale, cells, np.append(0.0, np.cumsum(drawn))))
    found /= found.sum()
    return found
