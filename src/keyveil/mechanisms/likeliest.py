"""The likeliest shares of three states, given how often each of three outputs was seen: what EM converges to.

After emPrivKV (Horigome, Kikuchi and Yu 2023), of which only abstracts were at hand: EM over the rounded state of a key
(absent, minus, plus) in place of inverting the channel. The likelihood is concave, so its maximum over true shares is
one; it is found without iterating EM, whose stopping rule is not known. Derivation: docs/mechanisms/privkv.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.mechanisms.responses import Floats

_EDGES = ((0, 1), (0, 2), (1, 2))
_HALVINGS = 60  # of the interval in which an edge has its maximum: to the last digit


def likeliest(matrix: Floats, counts: NDArray[np.int64]) -> Floats:
    """Shares of the states [3, key] of the greatest likelihood.

    ``counts`` are [output, key], ``matrix`` is [output, state]. The inverse of the channel where that gives shares,
    otherwise the best point at which one state has none; NaN where nobody was asked.
    """
    people = counts.sum(axis=0)
    shares: Floats = np.linalg.solve(matrix, counts / np.maximum(people, 1))
    outside = (shares < 0).any(axis=0)
    if outside.any():
        edges = np.stack([_on_edge(matrix, counts[:, outside], *edge) for edge in _EDGES])
        with np.errstate(divide="ignore"):
            likelihoods = np.einsum("ok,eok->ek", counts[:, outside], np.log(np.einsum("os,esk->eok", matrix, edges)))
        shares[:, outside] = np.take_along_axis(edges, likelihoods.argmax(axis=0)[None, None], axis=0)[0]
    return np.where(people > 0, shares, np.nan)


def _on_edge(matrix: Floats, counts: NDArray[np.int64], one: int, other: int) -> Floats:
    """The likeliest mixture of two states, by halving where the slope of the likelihood changes its sign."""
    base, step = matrix[:, one, None], (matrix[:, other] - matrix[:, one])[:, None]
    low, high = np.zeros(counts.shape[1]), np.ones(counts.shape[1])
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        rising = (counts * step / (base + middle * step)).sum(axis=0) > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    shares = np.zeros((3, counts.shape[1]))
    shares[one], shares[other] = 1 - low, low
    return shares
