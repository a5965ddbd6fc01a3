"""Who holds which keys, and with what values: the parts that synthetic populations are made of.

A *crowd* draws the sets, a *values* function the numbers in them; both are arrays in, arrays out, and never hold more
than a few million cells beyond the result. Pairs come sorted by person and key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keyveil.frames.population import Population
from keyveil.frames.rows import offsets_of

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Holdings = tuple[Integers, Integers]  # who holds, and what: one entry per pair
Crowd = Callable[[int, Floats, np.random.Generator], Holdings]
Values = Callable[[Floats, Integers, Integers, np.random.Generator], Floats]

WIDTH = 0.3  # half width of the values of a key around its mean
CONCENTRATION = 8  # of Beta values: E v² = m² + (1 - m²) / 9

_CELLS = 1 << 22  # random numbers drawn at once
_SPARSE = 1 / 64  # below this frequency it is cheaper to draw the holders of a key than to ask everybody


def independent(
    n: int, frequencies: ArrayLike, means: ArrayLike, seed: int, names: Sequence[str] | None = None
) -> Population:
    """Everybody holds each key on their own, with its frequency; values on [-1, 1] have exactly its mean."""
    rng = np.random.default_rng(seed)
    users, keys = product_sets(n, np.asarray(frequencies, dtype=np.float64), rng)
    return populate(n, users, keys, around(means, keys, rng), len(np.asarray(means)), names)


def one_key(n: int, weights: ArrayLike, means: ArrayLike, seed: int, names: Sequence[str] | None = None) -> Population:
    """Everybody holds exactly one key, drawn by weight."""
    rng = np.random.default_rng(seed)
    users, keys = single_keys(n, np.asarray(weights, dtype=np.float64), rng)
    return populate(n, users, keys, around(means, keys, rng), len(np.asarray(means)), names)


def everyone(n: int, means: ArrayLike, seed: int, names: Sequence[str] | None = None) -> Population:
    """Everybody holds every key."""
    d = len(np.asarray(means))
    keys = np.tile(np.arange(d), n)
    values = around(means, keys, np.random.default_rng(seed))
    return populate(n, np.repeat(np.arange(n), d), keys, values, d, names)


def one_of_each_group(n: int, frequencies: Floats, means: Floats, count: int, seed: int) -> Population:
    """Everybody holds at most one key of each of ``groups``, so at most ``count`` keys.

    The frequencies of a group add up to at most 1.
    """
    rng, users, keys = np.random.default_rng(seed), [], []
    for group in groups(len(frequencies), count):
        drawn = np.searchsorted(np.cumsum(frequencies[group]), rng.random(n))
        users.append(np.flatnonzero(drawn < len(group)))
        keys.append(group[drawn[users[-1]]])
    held = np.concatenate(keys)
    return Population.from_columns(np.concatenate(users), held, around(means, held, rng), people=n)


def groups(d: int, count: int) -> list[Integers]:
    """The keys 0 … d-1 dealt out to so many groups, in turn."""
    return [np.arange(first, d, count) for first in range(count)]


def populate(
    n: int, users: Integers, keys: Integers, values: Floats, d: int, names: Sequence[str] | None = None
) -> Population:
    """A population of sorted pairs."""
    return Population(tuple(names) if names else d, offsets_of(users, n), keys.astype(np.int32), values)


# -- sets -----------------------------------------------------------------------------------------------------------


def product_sets(n: int, frequencies: Floats, rng: np.random.Generator) -> Holdings:
    """Every key on its own: a coin for each person, or for a rare key a number of holders and then who they are."""
    dense = np.flatnonzero(frequencies >= _SPARSE)
    users, places = in_rows(n, len(dense), lambda rows, count: rng.random((count, len(dense))) < frequencies[dense])
    keys = dense[places]
    if len(dense) == len(frequencies):
        return users, keys
    rare = np.flatnonzero(frequencies < _SPARSE)
    holders = rng.binomial(n, frequencies[rare])
    codes = _holders(n, np.repeat(rare, holders), len(frequencies), rng)
    both = np.sort(np.concatenate([users * len(frequencies) + keys, codes]))
    return both // len(frequencies), both % len(frequencies)


def _holders(n: int, keys: Integers, d: int, rng: np.random.Generator) -> Integers:
    """Codes person·d + key with a uniform set of people for every key; whoever comes twice is drawn anew."""
    found = _distinct(rng.integers(n, size=len(keys)) * d + keys)
    wanted = np.bincount(keys, minlength=d)
    while len(found) < len(keys):
        missing = np.repeat(np.arange(d), wanted - np.bincount(found % d, minlength=d))
        found = _distinct(np.concatenate([found, rng.integers(n, size=len(missing)) * d + missing]))
    return found


def _distinct(codes: Integers) -> Integers:
    """Sorted, each once; NumPy's own ``unique`` hashes, which is forty times slower on codes like these."""
    ranked = np.sort(codes)
    distinct: Integers = ranked[np.append(True, ranked[1:] != ranked[:-1])[: len(ranked)]]
    return distinct


def single_keys(n: int, frequencies: Floats, rng: np.random.Generator) -> Holdings:
    """One key a person, drawn by weight."""
    return np.arange(n), rng.choice(len(frequencies), size=n, p=frequencies / frequencies.sum())


def fixed_size_sets(n: int, frequencies: Floats, rng: np.random.Generator) -> Holdings:
    """Sets of exactly Σ frequencies keys that hold key k with probability ``frequencies[k]``: systematic sampling.

    The keys lie end to end in a random order, each as long as its frequency; those that contain U, U + 1, … are taken.
    """
    d, size = len(frequencies), round(float(frequencies.sum()))

    def held(rows: slice, count: int) -> NDArray[np.bool_]:
        order = np.argsort(rng.random((count, d)), axis=1)
        ends = np.cumsum(frequencies[order], axis=1)
        ends[:, -1] = size  # whatever the rounding of the sum
        steps = np.floor(np.column_stack([np.zeros(count), ends]) - rng.random((count, 1)))
        taken = np.zeros((count, d), dtype=bool)
        np.put_along_axis(taken, order, np.diff(steps, axis=1) > 0, axis=1)
        return taken

    return in_rows(n, d, held)


def in_rows(n: int, d: int, held: Callable[[slice, int], NDArray[np.bool_]]) -> Holdings:
    """Sets that are drawn for some people at a time: ``held(rows, count)`` says who of them holds which key."""
    users, keys = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    people = max(_CELLS // max(d, 1), 1)
    for start in range(0, n if d else 0, people):
        count = min(people, n - start)
        who, what = np.nonzero(held(slice(start, start + count), count))
        users.append(who + start)
        keys.append(what)
    return np.concatenate(users), np.concatenate(keys)


# -- values ---------------------------------------------------------------------------------------------------------


def around(means: ArrayLike, keys: Integers, rng: np.random.Generator) -> Floats:
    """Values m + U(-w, w) with w = min(0.3, 1 - |m|), which keeps the mean of a key exactly m."""
    centres = np.asarray(means, dtype=np.float64)
    widths = np.minimum(WIDTH, 1 - np.abs(centres))
    values: Floats = centres[keys] + widths[keys] * rng.uniform(-1, 1, len(keys))
    return values


def around_means(means: Floats, users: Integers, keys: Integers, rng: np.random.Generator) -> Floats:
    """``around``, as a values function."""
    return around(means, keys, rng)


def beta_values(means: Floats, users: Integers, keys: Integers, rng: np.random.Generator) -> Floats:
    """Beta values on [-1, 1] with the mean of the key."""
    high = CONCENTRATION * (1 + means) / 2
    return 2 * rng.beta(high[keys], CONCENTRATION - high[keys]) - 1


def constant_values(means: Floats, users: Integers, keys: Integers, rng: np.random.Generator) -> Floats:
    """Everybody has the mean of the key."""
    return means[keys]


def partner_values(means: Floats, users: Integers, keys: Integers, rng: np.random.Generator) -> Floats:
    """Half a unit above the key's level for those who also hold its partner, below for the others, clamped.

    Keys 0 and 1, 2 and 3, … are partners: what one sees of a value depends on what else was sampled.
    """
    d = len(means)
    places = users * d + keys
    wanted = users * d + (keys ^ 1)
    found = places[np.minimum(np.searchsorted(places, wanted), len(places) - 1)] == wanted
    return np.clip(means[keys] + np.where(found, 0.5, -0.5), -1, 1)
