"""Errors to expect after empirical Bayes (``learn.shrinkage``), before anybody reports.

Shrinkage takes away noise, and neither what a cap hides nor what is wrong in the average of all keys. A mechanism that
tells little of many keys may so be better than one that tells nothing but what can be shown at once. Formulas and their
limits: docs/plan.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from statistics import NormalDist

import numpy as np

from keyveil.learn.laws import ROUNDS, SMALL, VAGUE_KEYS
from keyveil.mechanisms.capabilities import KeyDependence, can
from keyveil.planning.drawn import Drawn, drawn
from keyveil.planning.people import Floats, People, Places
from keyveil.planning.predict import NORMAL_CASES, Prediction, Stated

ALONE, CROWDS = 40, 80  # the most frequent keys stand for themselves, the others in so many groups of like frequencies
TAUGHT = 1_000  # keys, or up to twice as many, that a law of means is learnt from
LOOKED_AT = 30  # keys over which errors of means are averaged, where there are more
PLACES = (10, 20)  # the same numbers for the frequencies that means are judged at
CASES, _STEP = 29, 12  # equally likely errors of f and f·m in pairs: a lattice with the points (k, 12·k modulo 29)
UNIFORM = 1 / 12  # variance of a frequency that may be anything
VAGUE_VARIANCE = 0.5  # of the law of means that shrinkage starts from (Jeffreys')
_LEAST, _MOST = 1e-100, 1e100
_MEANS = np.linspace(-1.0, 1.0, 21)
ANYWHERE = np.linspace(0.05, 0.95, 7)
_NORMAL = np.array([NormalDist().inv_cdf((place + 0.5) / CASES) for place in range(CASES)])
_CASES = np.stack((_NORMAL, _NORMAL[np.arange(CASES) * _STEP % CASES]), axis=1)


@dataclass(frozen=True, eq=False)
class Shrunk:
    """Root mean squared errors of all frequencies after shrinkage; ``law`` is what is learnt of means."""

    one: Prediction
    frequency: Floats
    shown: Floats  # posterior means of frequencies, on average
    left: Floats  # and their posterior variances

    @cached_property
    def law(self) -> tuple[float, float]:
        """Centre and variance of the law of means, as they are learnt."""
        return _law_of_means(self.one, self.shown, self.left)

    def means(self, keys: Places) -> Floats:
        """The same of means, of at most ``LOOKED_AT`` of some keys; without keys whose mean nobody tells."""
        told = keys[np.isfinite(self.one.mean_se[keys])]
        few = told[np.unique(np.linspace(0, len(told) - 1, min(len(told), LOOKED_AT)).round().astype(np.intp))]
        return _means(self.one, few, *self.law) if len(few) else np.empty(0)


def by_draws(people: People) -> bool:
    """Whether keys are too few to teach a law, so that estimates are drawn (``planning.drawn``)."""
    return people.d < SMALL


@lru_cache(maxsize=4)  # a goal that is about both asks twice
def shrunk(one: Prediction) -> Shrunk | Drawn:
    """What shrinkage is expected to leave of the errors of a prediction; only of a mechanism of one round."""
    return drawn(one) if by_draws(one.people) else _by_formula(one)


def _by_formula(one: Prediction) -> Shrunk:
    return Shrunk(one, *_frequencies(one))


def _frequencies(one: Prediction) -> tuple[Floats, Floats, Floats]:
    """Errors of posterior means under the law of the expected frequencies, each key judged by the others.

    Beside them what posterior means and variances are on average.

    Errors that all keys have in common stay: what the cap hides, and the error of the average of all estimates.
    """
    truth, seen = one.people.frequency, one.people.frequency + one.frequency_bias
    groups = _groups(one.people.by_frequency, ALONE, CROWDS)
    counts = np.array([len(group) for group in groups])
    f, g, noise = (np.array([values[group].mean() for group in groups]) for values in (truth, seen, one.frequency_se))
    noise = np.maximum(noise, _LEAST)
    others = np.broadcast_to(counts, (len(groups),) * 2) - np.eye(len(groups))
    squares, centres, within = np.zeros((3, len(groups)))
    for case in NORMAL_CASES:
        told = g + case * noise
        weights = others * np.exp(-0.5 * ((told[:, None] - g) / noise[:, None]) ** 2)
        # a few keys that may be anywhere are told to every law: such a key would be where it is seen
        vague = VAGUE_KEYS * np.sqrt(2 * np.pi) * np.minimum(noise, 1)
        total, anywhere = weights.sum(axis=1) + vague, np.clip(told, 0, 1)
        centre = (weights @ g + vague * anywhere) / total
        squares += (centre - f) ** 2
        centres += centre
        within += (weights @ g**2 + vague * (anywhere**2 + np.minimum(noise**2, UNIFORM))) / total - centre**2
    squares, centres, within = (part / len(NORMAL_CASES) for part in (squares, centres, within))
    shrunk_by = np.maximum(1 - squares / noise**2, 0)
    squares += shrunk_by * (_of_average(one) + _of_correction(one) * g**2)
    errors, shown, left = np.empty((3, len(truth)))
    for number, group in enumerate(groups):
        errors[group] = np.sqrt(squares[number] + np.var(truth[group]))
        shown[group], left[group] = centres[number], max(within[number], 0)
    return errors, shown, left


def _groups(order: Places, alone: int, crowds: int) -> list[Places]:
    """The most frequent keys one by one, and the others in groups of neighbours."""
    first, rest = order[:alone], order[alone:]
    return [*np.split(first, len(first)), *(group for group in np.array_split(rest, crowds) if len(group))]


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
    factors = 1 / one.stated.scales
    return float(np.var(factors) / np.mean(factors) ** 2)


def _law_of_means(one: Prediction, shown: Floats, left: Floats) -> tuple[float, float]:
    """Centre and variance of the law of all means, as far as EM learns it in its rounds.

    A mean is read off f·m with the frequency that is ``shown``, and its noise is that of f·m given the mean, where the
    variance ``left`` is what is not known of the frequency. Keys that nobody holds look as if their mean were 0.
    """
    assert isinstance(one.stated, Stated)
    places = one.people.by_frequency
    few = places[:: max(len(places) // TAUGHT, 1)]  # each tells as much as all around it
    product, shown, left = one.stated.expected.product[few], shown[few], left[few]
    var_f, var_u, covariance = (part[few] for part in one.stated.expected.spread)
    centre, variance, vague = 0.0, VAGUE_VARIANCE, VAGUE_KEYS * len(few) / len(places)
    keys = len(few) + vague
    if not np.isfinite(product).any():
        return centre, variance
    along, shown = covariance / np.maximum(var_f, _LEAST), np.maximum(shown, _LEAST)
    m = np.clip(np.nan_to_num(product) / shown, -1, 1)
    noise = np.maximum(var_u - along * covariance, 0) + (m - along) ** 2 * left
    noise = np.clip(noise / shown**2, _LEAST, _MOST)
    for _ in range(ROUNDS):
        trust = variance / (variance + noise)
        moved = centre + (float(trust @ (m - centre)) - vague * centre) / keys
        squares = (1 - trust) * variance + trust**2 * ((m - centre) ** 2 + noise)
        total = float(squares.sum()) + vague * (VAGUE_VARIANCE + centre**2)
        variance, centre = max(total / keys - (moved - centre) ** 2, 1e-6), moved
    return centre, variance


def _means(one: Prediction, keys: Places, centre: float, variance: float) -> Floats:
    """Errors of the posterior means of some keys, averaged over errors of f and f·m that are equally likely in pairs.

    The posterior of a mean is over every frequency that the law of frequencies leaves possible.
    """
    assert isinstance(one.stated, Stated)
    expected, truth = one.stated.expected, one.people.mean[keys]
    f, u, (var_f, var_u, covariance) = expected.frequency, expected.product[keys], expected.spread
    along = covariance[keys] / np.maximum(var_f[keys], _LEAST)
    noise, rest = np.sqrt(np.maximum((var_f[keys], var_u[keys] - along * covariance[keys]), _LEAST))
    groups = _groups(one.people.by_frequency, *PLACES)
    places = np.concatenate(([f[group].mean() for group in groups], ANYWHERE))
    counts = np.concatenate(([len(group) for group in groups], np.full(len(ANYWHERE), VAGUE_KEYS / len(ANYWHERE))))
    prior = _law(centre, variance)
    squares = np.zeros(len(keys))
    for first, second in _CASES:
        told = f[keys] + first * noise
        seen = u + along * first * noise + second * rest
        chances = np.log(counts) - 0.5 * ((told[:, None] - places) / noise[:, None]) ** 2
        expects = (seen - along * told)[:, None] + along[:, None] * places
        distance = (expects[:, :, None] - places[:, None] * _MEANS) / rest[:, None, None]
        joint = chances[:, :, None] - 0.5 * distance**2
        joint -= joint.max(axis=(1, 2), keepdims=True)
        weights = np.exp(joint).sum(axis=1) * prior
        squares += ((weights @ _MEANS) / weights.sum(axis=1) - truth) ** 2
    errors: Floats = np.sqrt(squares / len(_CASES))
    return errors


def _law(centre: float, variance: float) -> Floats:
    """A beta law with this mean and variance on the grid of means; Jeffreys' is one."""
    share = min(max((1 + centre) / 2, 0.01), 0.99)
    times = max(share * (1 - share) / (variance / 4) - 1, 0.5)
    inside = np.clip((1 + _MEANS) / 2, 0.01, 0.99)
    density = (share * times - 1) * np.log(inside) + ((1 - share) * times - 1) * np.log(1 - inside)
    law: Floats = np.exp(density - density.max()) + 1e-9
    return law
