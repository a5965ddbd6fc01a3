"""What a key may be like: laws on a grid that are learnt from the estimates of all keys, for empirical Bayes.

With few keys a law that was learnt from a key would trust it twice, so each key is judged by the law of the others, and
laws are drawn out by kernels. Frequent keys are few in any case, so above ``TAIL`` the shape of a law always is.
Derivation, reasons of the constants, and what they cost: docs/theory.md, empirical Bayes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from keyveil.learn.kernels import drawn_out

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

STEP = 0.35  # of the frequency grid, in standard errors
ROUNDS = 40  # of EM for laws that are smoothed, and for means
SMALL = 500  # keys below which a law is smoothed, and learnt without the keys that it is used for
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


@dataclass(frozen=True, eq=False)
class _Keys:
    """Likelihoods of keys, each in a window of the grid. Keys with windows that start near each other form a block:
    likelihoods [keys, cells] from a first cell on, so that sums over keys or cells are products of matrices.
    """

    rows: Floats  # [d, window]
    at: Ints  # [d, window], whole windows
    size: int

    @cached_property
    def blocks(self) -> list[tuple[Ints, slice, Floats]]:
        starts, window = self.at[:, 0], self.at.shape[1]
        found = []
        for part in np.unique(starts // max(window // 4, 1)):
            keys = np.flatnonzero(starts // max(window // 4, 1) == part)
            first, last = int(starts[keys].min()), int(starts[keys].max()) + window
            table = np.zeros((len(keys), last - first))
            np.put_along_axis(table, self.at[keys] - first, self.rows[keys], axis=1)
            found.append((keys, slice(first, last), table))
        return found

    def after(self, laws: Floats, told: Flags, vague: Floats, rounds: int, smooth: bool, anew: bool) -> Floats:
        """Laws [laws, size] after so many rounds of EM, each with the keys that it is told, [laws, d].

        If the vague keys are told ``anew`` in every round, a law of keys that tell nothing becomes vague. Otherwise
        they have a part of their own, and it stays as it was.
        """
        blocks, counts = self.blocks, told.sum(axis=1, keepdims=True)
        part, invented = _vague_part(counts, vague)
        for _ in range(rounds):
            drawn = np.zeros(laws.shape)
            for keys, cells, table in blocks:
                chances = np.maximum(laws[:, cells] @ table.T, 1e-300)
                drawn[:, cells] += (told[:, keys] / chances) @ table
            own = (laws if anew else np.maximum(laws - invented, 0)) * drawn
            if smooth:
                inner = (own[:, :-2] + 2 * own[:, 1:-1] + own[:, 2:]) / 4
                first, last = (3 * own[:, :1] + own[:, 1:2]) / 4, (own[:, -2:-1] + 3 * own[:, -1:]) / 4
                own = np.concatenate([first, inner, last], axis=1)
            laws = (1 - part) * own / np.maximum(own.sum(axis=1, keepdims=True), 1e-300) + invented
        return np.where(counts, laws, vague)

    def averaged(self, shapes: Floats, told: Flags, vague: Floats) -> Floats:
        """Averages [laws, size] of shapes by how likely they make the keys that each law is told."""
        part, invented = _vague_part(told.sum(axis=1, keepdims=True), vague)
        whole = (1 - part[-1]) * shapes + invented[-1]  # the last law is told of all keys
        scores = np.zeros((len(told), len(shapes)))
        for keys, cells, table in self.blocks:
            scores += told[:, keys] @ np.log(np.maximum(table @ whole[:, cells].T, 1e-300))
        trust = np.exp(scores - scores.max(axis=1, keepdims=True))
        laws: Floats = (1 - part) * (trust / trust.sum(axis=1, keepdims=True)) @ shapes + invented
        return laws

    def foretold(self, laws: Floats, group: Ints) -> Floats:
        """Logarithms of how likely every key is by its group's law under every kernel, laws [groups, kernels, size]."""
        found = np.empty((len(group), laws.shape[1]))
        for number in np.unique(group):
            mine = group == number
            found[mine] = np.einsum("dw,kdw->dk", self.rows[mine], laws[number][:, self.at[mine]])
        return np.log(np.maximum(found, 1e-300))


def learnt(
    likelihood: Floats,
    places: Ints,
    vague: Floats,
    known: Flags,
    rounds: int,
    shapes: Floats | None = None,
    step: float = STEP,
    stretched: Sequence[float] = (),
) -> Laws:
    """The laws on a grid that make the estimates of keys likeliest; with many keys after so many rounds of EM.

    It starts from ``shapes`` [shapes, size] where there are such, and stays near them as far as keys tell nothing else.

    With few keys, a law that was learnt from a key would trust it twice, so each is judged by the law of the others,
    averaged over kernels by how well they foretell the keys that they were not told. ``stretched`` has the widths of
    kernels that widen with the frequency; ``step`` is that of the grid in standard errors.
    """
    keys, fold = _Keys(likelihood[known], places[known], len(vague)), np.zeros(len(known), dtype=np.int64)
    if len(keys.rows) >= SMALL:
        every = np.ones((1, len(keys.rows)), dtype=np.bool_)
        start = vague[None] if shapes is None else keys.averaged(shapes, every, vague)
        return Laws(keys.after(start, every, vague, rounds, smooth=False, anew=shapes is None), fold)
    fold = _dealt(keys.rows, keys.at)
    groups = int(fold.max()) + 1
    told = fold != np.arange(groups + 1)[:, None]
    start = np.tile(vague, (groups + 1, 1)) if shapes is None else keys.averaged(shapes, told, vague)
    drawn = drawn_out(keys.after(start, told, vague, ROUNDS, smooth=True, anew=shapes is None), stretched, step)
    if shapes is not None:
        drawn = np.concatenate([start[:, None], drawn], axis=1)
    of_key = np.full(len(known), groups)
    of_key[known] = fold
    return Laws(_averaged(keys.foretold(drawn, fold), drawn), of_key)


def smooth_tail(laws: Laws, likelihood: Floats, places: Ints, vague: Floats, known: Flags, step: float = STEP) -> Laws:
    """The laws of frequencies with a smooth shape above ``TAIL`` standard errors, and as much mass there as before.

    The few frequent keys lie far apart. A law that has a peak for each of them draws each to itself and to its next
    neighbour. The kernels are averaged by how well their shapes, as conditional laws above ``TAIL``, foretell clear
    keys that they were not told: a shape that is chosen by all keys, or with a mass of its own, serves the many near
    zero, or keys that are there by chance.
    """
    keys, edge = _Keys(likelihood[known], places[known], len(vague)), round(TAIL / step)
    clear = _centres(keys.rows, keys.at) * step > TAIL + CLEAR
    if np.count_nonzero(clear) < LEAST_CLEAR or edge >= len(vague) - 1:
        return laws
    one_law = len(laws.shares) == 1
    group, shares = laws.group.copy(), laws.shares.copy()
    if one_law:  # of so many keys that only clear ones would feel themselves in it
        group[:] = FOLDS
        group[np.flatnonzero(known)[clear]] = _dealt(keys.rows[clear], keys.at[clear])
        shares = np.repeat(laws.shares, FOLDS + 1, axis=0)
    held_out = (group[known] == np.arange(len(shares))[:, None]) & (clear | (not one_law))
    others = keys.after(shares, ~held_out, vague, 1, smooth=False, anew=False)
    if one_law:
        shares = others
    shapes = drawn_out(others, TAIL_WIDTHS, step)
    shapes[..., :edge] = 0
    shapes /= np.maximum(shapes.sum(axis=2, keepdims=True), 1e-300)
    apart = _Keys(keys.rows[clear], keys.at[clear], keys.size)
    tails = _averaged(apart.foretold(shapes, group[known][clear]), shapes)[:, edge:]
    shares[:, edge:] = tails * shares[:, edge:].sum(axis=1, keepdims=True)
    return Laws(shares, group)


def _vague_part(counts: Ints, vague: Floats) -> tuple[Floats, Floats]:
    """The share of vague keys in laws that are told of so many keys, [laws, 1], and what of the laws they make."""
    part = np.asarray(VAGUE_KEYS / (counts + VAGUE_KEYS), dtype=np.float64)
    return part, part * vague


def _averaged(foretold: Floats, laws: Floats) -> Floats:
    """Laws [groups, kernels, size] averaged over kernels by how well they foretell all keys, [groups, size]."""
    scores = foretold.sum(axis=0)
    trust = np.exp(scores - scores.max())
    averaged: Floats = np.tensordot(trust / trust.sum(), laws, axes=(0, 1))
    return averaged


def _centres(rows: Floats, at: Ints) -> Floats:
    """Where on the grid the likelihood of every key lies."""
    centres: Floats = (rows * at).sum(axis=1) / np.maximum(rows.sum(axis=1), 1e-300)
    return centres


def _dealt(rows: Floats, at: Ints) -> Ints:
    """Groups that are each as diverse as all keys: dealt in the order of estimates, not as keys happen to lie."""
    centre = _centres(rows, at).round(9)  # keys that are equal but for rounding stay in their order
    rank = np.empty(len(rows), dtype=np.int64)
    rank[np.argsort(centre, kind="stable")] = np.arange(len(rows))
    return rank % FOLDS
