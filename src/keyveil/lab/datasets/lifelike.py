"""Populations with what real people bring and the papers' recipes lack.

Keys that go together, a few people who hold very much, values that are ratings, signs, skewed, in two peaks or all
equal, and keys that hardly anybody holds. Intervals are measured on them (docs/honesty.md). No constant of an estimator
was chosen on them, but for the limits of empirical Bayes (``activity``, ``tail``, ``constant``). The ``frequencies``
and ``means`` of these recipes set the level of a key: what a population really has follows from the seed, too, and is
read off the people.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from keyveil.lab.datasets.crowds import Floats, Holdings, Integers, constant_values, in_rows, product_sets, single_keys
from keyveil.lab.datasets.recipe import Recipe, fixed, normal, ranks, shuffled, uniform

FIVE_POINTS = tuple(step / 2 - 1 for step in range(5))
"""The levels of a five-point answer on the scale [-1, 1]."""

_INTERESTS = 8  # groups of keys that go together
_CLOSER = 4.0  # how much more often somebody holds a key of their own interest
_ACTIVITY = 1.0  # standard deviation of the logarithm of a person's activity
_TAIL = 1.3  # exponent of set sizes: their variance is infinite but for the cut at the number of keys
_WILLING = 1.5  # standard deviation of how readily people answer questions, on the logistic scale
_IN_COMMON = 0.4  # share of a value's variance that all answers of a person have in common


# -- sets -----------------------------------------------------------------------------------------------------------


def active_sets(n: int, frequencies: Floats, rng: np.random.Generator) -> Holdings:
    """People of lognormal activity, each with one interest: keys 0, 8, 16, … go together, and so do 1, 9, 17, …"""
    d = len(frequencies)
    rest = (_INTERESTS - _CLOSER) / (_INTERESTS - 1)  # so that the mean over interests is 1
    activity = rng.lognormal(-(_ACTIVITY**2) / 2, _ACTIVITY, n)
    interest = rng.integers(_INTERESTS, size=n)

    def held(rows: slice, count: int) -> NDArray[np.bool_]:
        closeness = np.where(interest[rows, None] == np.arange(d) % _INTERESTS, _CLOSER, rest)
        return rng.random((count, d)) < 1 - np.exp(-frequencies * activity[rows, None] * closeness)

    return in_rows(n, d, held)


def heavy_sets(n: int, frequencies: Floats, rng: np.random.Generator) -> Holdings:
    """Set sizes with a Pareto tail, from 0 to the number of keys; keys by weight, without repetition."""
    d = len(frequencies)
    sizes = np.minimum(np.floor(rng.pareto(_TAIL, n) * float(frequencies.sum()) * (_TAIL - 1)), d).astype(np.int64)
    weights = np.log(frequencies)

    def held(rows: slice, count: int) -> NDArray[np.bool_]:
        order = np.argsort(-(weights + rng.gumbel(size=(count, d))), axis=1)
        chosen = np.zeros((count, d), dtype=bool)
        np.put_along_axis(chosen, order, np.arange(d) < sizes[rows, None], axis=1)
        return chosen

    return in_rows(n, d, held)


def survey_sets(n: int, frequencies: Floats, rng: np.random.Generator) -> Holdings:
    """Questions that most people answer; some people answer nearly all of them, some few."""
    d = len(frequencies)
    level = np.log(frequencies / (1 - frequencies))
    willing = _WILLING * rng.normal(size=n)

    def held(rows: slice, count: int) -> NDArray[np.bool_]:
        return rng.random((count, d)) < 1 / (1 + np.exp(-(level + willing[rows, None])))

    return in_rows(n, d, held)


# -- values ---------------------------------------------------------------------------------------------------------


def leaning(users: Integers, rng: np.random.Generator) -> Floats:
    """Standard normal numbers, one for each pair, which those of one person share in part."""
    of_person = rng.normal(size=int(users[-1]) + 1 if len(users) else 0)
    own = rng.normal(size=len(users))
    return np.asarray(np.sqrt(_IN_COMMON) * of_person[users] + np.sqrt(1 - _IN_COMMON) * own)


def sign_values(means: Floats, users: Integers, keys: Integers, rng: np.random.Generator) -> Floats:
    """Values ±1 with the mean of the key; those of one person go together."""
    edges = np.array([NormalDist().inv_cdf((1 + mean) / 2) for mean in means])
    return np.where(leaning(users, rng) < edges[keys], 1.0, -1.0)


def five_point_values(means: Floats, users: Integers, keys: Integers, rng: np.random.Generator) -> Floats:
    """Five-point answers around the level of the key; those of one person go together."""
    answer = np.rint(2 * (means[keys] + 0.6 * leaning(users, rng))) / 2
    return np.clip(answer, -1, 1)


def rating_values(means: Floats, users: Integers, keys: Integers, rng: np.random.Generator) -> Floats:
    """Ratings as they come: very many of the best, some of the worst; keys of mean 1 get nothing but the best."""
    between = rng.binomial(4, ((1 + means) / 2)[keys]) / 2 - 1
    best = rng.random(len(keys)) < np.maximum(means, 0)[keys]
    return np.where(best, 1.0, between)


def skewed_values(means: Floats, users: Integers, keys: Integers, rng: np.random.Generator) -> Floats:
    """Beta values of concentration 1: mostly near one end of the range, with a tail to the other."""
    high = (1 + means) / 2
    return 2 * rng.beta(high[keys], (1 - high)[keys]) - 1


def two_peaks(means: Floats, users: Integers, keys: Integers, rng: np.random.Generator) -> Floats:
    """Two narrow peaks 1.2 apart around the level of the key, one of them three times as high; cut to the range."""
    peak = np.where(rng.random(len(keys)) < 0.25, 0.9, -0.3)
    return np.clip(means[keys] + peak + 0.05 * rng.normal(size=len(keys)), -1, 1)


def values_of_the_busy(means: Floats, users: Integers, keys: Integers, rng: np.random.Generator) -> Floats:
    """Values that rise with the number of pairs of their owner: who holds much is not like who holds little."""
    sizes = np.bincount(users)[users]
    return np.clip(means[keys] + 0.5 * np.tanh(np.log(sizes / 5)) + 0.1 * rng.normal(size=len(keys)), -1, 1)


# -- the table ------------------------------------------------------------------------------------------------------


def zipf_profile(d: int, exponent: float, size: float, highest: float = 0.6) -> Floats:
    """Frequencies that fall with the rank and sum to about ``size``, none above ``highest``."""
    weights = ranks(d) ** -exponent
    return np.asarray(np.minimum(size * weights / weights.sum(), highest))


LIFELIKE: dict[str, Callable[..., Recipe]] = {
    "activity": lambda: Recipe(
        10**5,
        "200 keys that go together by interest, people of lognormal activity, skewed values",
        fixed(zipf_profile(200, 0.8, 8)),
        uniform(-0.8, 0.4, 200),
        active_sets,
        skewed_values,
    ),
    "survey": lambda: Recipe(
        10**5,
        "a dozen questions that most people answer, on five points, answers of a person going together",
        fixed(np.linspace(0.65, 0.97, 12)),
        uniform(-0.5, 0.7, 12),
        survey_sets,
        five_point_values,
        FIVE_POINTS,
    ),
    "baskets": lambda: Recipe(
        10**5,
        "300 keys with values of plus or minus one, keys that go together by interest",
        fixed(zipf_profile(300, 0.9, 6)),
        uniform(-0.95, 0.95, 300),
        active_sets,
        sign_values,
        (-1.0, 1.0),
    ),
    "ratings": lambda: Recipe(
        10**5,
        "150 keys rated on five points, mostly with the best; a few keys get nothing else",
        fixed(zipf_profile(150, 0.7, 7)),
        shuffled(np.append(np.linspace(-0.6, 0.8, 145), np.ones(5))),
        active_sets,
        rating_values,
        FIVE_POINTS,
    ),
    "heavy": lambda: Recipe(
        10**5,
        "100 keys, set sizes with a Pareto tail up to all of them, values that rise with the size",
        fixed(zipf_profile(100, 0.6, 6)),
        uniform(-0.6, 0.4, 100),
        heavy_sets,
        values_of_the_busy,
    ),
    "tail": lambda: Recipe(
        10**5,
        "5000 keys of which most are held by a handful of people or by nobody",
        fixed(zipf_profile(5000, 1.6, 3)),
        normal(0, 0.4, -0.95, 0.95, 5000),
        product_sets,
        skewed_values,
    ),
    "skewed": lambda: Recipe(
        10**5,
        "40 keys, values mostly near one end of their range with a tail to the other",
        uniform(0.05, 0.6, 40),
        uniform(-0.95, -0.3, 40),
        product_sets,
        skewed_values,
    ),
    "peaks": lambda: Recipe(
        10**5,
        "60 keys, values in two narrow peaks",
        uniform(0.02, 0.4, 60),
        uniform(-0.6, 0.1, 60),
        active_sets,
        two_peaks,
    ),
    "constant": lambda: Recipe(
        10**5,
        "50 keys, everybody who holds one has the same value, at the ends of the range for some keys",
        uniform(0.02, 0.5, 50),
        shuffled(np.concatenate([np.full(5, -1.0), np.full(5, 1.0), np.linspace(-0.9, 0.9, 40)])),
        survey_sets,
        constant_values,
    ),
    "lone": lambda: Recipe(
        10**5,
        "one of 400 keys each, by Zipf's law, with ratings",
        fixed(zipf_profile(400, 1.1, 1)),
        uniform(-0.8, 0.9, 400),
        single_keys,
        rating_values,
        FIVE_POINTS,
    ),
}
