"""Errors to expect after empirical Bayes (``learn.shrinkage``), before anybody reports.

Shrinkage takes away noise, and neither what a cap hides nor what is wrong in the average of all keys. A mechanism that
tells little of many keys may so be better than one that tells nothing but what can be shown at once. Formulas and their
limits: docs/plan.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from keyveil.learn.laws import ROUNDS, VAGUE_KEYS
from keyveil.mechanisms.capabilities import KeyDependence, can
from keyveil.planning.people import Floats, Places
from keyveil.planning.predict import NORMAL_CASES, Prediction, Stated

ALONE, CROWDS = 40, 80  # the most frequent keys stand for themselves, the others in so many groups of like frequencies
VAGUE_VARIANCE = 0.5  # of the law of means that shrinkage starts from (Jeffreys')
_LEAST, _MOST = 1e-100, 1e100


@dataclass(frozen=True, eq=False)
class Shrunk:
    """Root mean squared errors of all frequencies and means after shrinkage; NaN for means that nobody tells."""

    frequency: Floats
    mean: Floats

    def means(self, keys: Places) -> Floats:
        """Those of some keys, without the keys that nobody holds."""
        found = self.mean[keys]
        return found[np.isfinite(found)]


@lru_cache(maxsize=4)  # a goal that is about both asks twice
def shrunk(one: Prediction) -> Shrunk:
    """What shrinkage is expected to leave of the errors of a prediction; only of a mechanism of one round."""
    frequency, centre = _frequencies(one)
    return Shrunk(frequency, _means(one, frequency, centre))


def _frequencies(one: Prediction) -> tuple[Floats, Floats]:
    """Errors of posterior means under the law of the expected frequencies, each key judged by the others.

    Beside them what the posterior means are on average.

    Errors that all keys have in common stay: what the cap hides, and the error of the average of all estimates.
    """
    truth, seen = one.people.frequency, one.people.frequency + one.frequency_bias
    groups = _groups(one.people.by_frequency)
    counts = np.array([len(group) for group in groups])
    f, g, noise = (np.array([values[group].mean() for group in groups]) for values in (truth, seen, one.frequency_se))
    noise = np.maximum(noise, _LEAST)
    others = np.broadcast_to(counts, (len(groups),) * 2) - np.eye(len(groups))
    squares, centres = np.zeros(len(groups)), np.zeros(len(groups))
    for case in NORMAL_CASES:
        told = g + case * noise
        weights = others * np.exp(-0.5 * ((told[:, None] - g) / noise[:, None]) ** 2)
        # a few keys that may be anywhere are told to every law: such a key would be where it is seen
        vague = VAGUE_KEYS * np.sqrt(2 * np.pi) * np.minimum(noise, 1)
        centre = (weights @ g + vague * np.clip(told, 0, 1)) / (weights.sum(axis=1) + vague)
        squares += (centre - f) ** 2
        centres += centre / len(NORMAL_CASES)
    squares /= len(NORMAL_CASES)
    shrunk_by = np.maximum(1 - squares / noise**2, 0)
    squares += shrunk_by * (_of_average(one) + _of_correction(one) * g**2)
    errors, shown = np.empty(len(truth)), np.empty(len(truth))
    for group, square, centre in zip(groups, squares, centres, strict=True):
        errors[group], shown[group] = np.sqrt(square + np.var(truth[group])), centre
    return errors, shown


def _groups(order: Places) -> list[Places]:
    """The most frequent keys one by one, and the others in groups of neighbours."""
    rest = order[ALONE:]
    many = [group for group in np.array_split(rest, min(CROWDS, len(rest)) or 1) if len(group)]
    return [*np.split(order[:ALONE], len(order[:ALONE])), *many]


def _of_average(one: Prediction) -> float:
    """The variance of the average of all frequencies as estimated; as if keys did not depend where that is unknown."""
    people, d = one.people, one.people.d
    own = float(np.mean(one.frequency_se**2)) / d
    known = can(one.mechanism, KeyDependence) if one.dependence_known and d > 1 else None
    if known is None:
        return own
    sizes = people.law.sizes
    together = float(people.law.of_people @ (sizes * (sizes - 1.0))) / (d * (d - 1))
    average = people.pairs / d
    covariance = replace(known.dependence(), n=people.n).covariance(average, average, together)
    return max(own + covariance * (1 - 1 / d), 0.0)


def _of_correction(one: Prediction) -> float:
    """The relative variance that a correction for the cap gives all frequencies together."""
    assert isinstance(one.stated, Stated)
    factors = np.array([1 / case.scale for case in one.stated.cases])
    return float(np.var(factors) / np.mean(factors) ** 2)


def _means(one: Prediction, frequency: Floats, shown: Floats) -> Floats:
    """Errors of posterior means under a normal law of all means, as far as EM learns that law in its rounds.

    A mean is read off f·m with the frequency that is ``shown``, and its noise is that of f·m given the mean, where the
    frequency is known as well as shrinkage knows it. Keys that nobody holds look as if their mean were 0.
    """
    assert isinstance(one.stated, Stated)
    product, (var_f, var_u, covariance) = one.stated.expected.product, one.stated.expected.spread
    if not np.isfinite(one.mean_se).any():
        return np.full(one.people.d, np.nan)
    along, known = covariance / np.maximum(var_f, _LEAST), np.minimum(var_f, frequency**2)
    shown = np.maximum(shown, _LEAST)
    m = np.clip(np.nan_to_num(product) / shown, -1, 1)
    noise = np.maximum(var_u - along * covariance, 0) + (m - along) ** 2 * known
    noise = np.clip(noise / shown**2, _LEAST, _MOST)
    centre, variance, keys = 0.0, VAGUE_VARIANCE, len(m) + VAGUE_KEYS
    for _ in range(ROUNDS):
        trust = variance / (variance + noise)
        moved = centre + (float(trust @ (m - centre)) - VAGUE_KEYS * centre) / keys
        squares = (1 - trust) * variance + trust**2 * ((m - centre) ** 2 + noise)
        total = float(squares.sum()) + VAGUE_KEYS * (VAGUE_VARIANCE + centre**2)
        variance, centre = max(total / keys - (moved - centre) ** 2, 1e-6), moved
    trust, truth = variance / (variance + noise), one.people.mean
    errors = ((1 - trust) * centre + trust * m - truth) ** 2 + trust**2 * noise
    return np.where(np.isfinite(one.mean_se), np.sqrt(errors), np.nan)
