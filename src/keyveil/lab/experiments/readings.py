"""Readings: the numbers of one run, one for each point of the axis, or the one number of the run.

Means over keys run over the keys that somebody holds; estimated means count cut to [-1, 1], and as 0 where there is
none (``lab.metrics``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from keyveil.core.estimates import Estimates
from keyveil.frames.truth import Truth
from keyveil.lab.experiments.people import Crowd
from keyveil.lab.metrics import metrics, most_frequent, total_cost
from keyveil.lab.rounds import bits_per_person
from keyveil.lab.seeds import seed_of
from keyveil.lab.simulate import distribution_errors
from keyveil.protocols.base import History, Protocol

Floats = NDArray[np.float64]
Points = tuple[float, ...]
Reading = Callable[["Run", Points], Sequence[float]]

POST_POS = "post-pos"
RANDOM_SETS = 100  # for each share of the keys, as in the papers


@dataclass(frozen=True, eq=False)
class Run:
    """One finished run: what was estimated before and after the decoder, and what was true."""

    crowd: Crowd
    protocol: Protocol | None = None
    history: History = ()
    raw: Estimates | None = None
    shown: Estimates | None = None
    decoder: str = "raw"
    seed: int = 0  # of what a reading draws itself

    @property
    def truth(self) -> Truth:
        return self.crowd.truth

    @property
    def frequency(self) -> Floats:
        assert self.shown is not None
        return np.nan_to_num(self.shown.frequency.values)

    @property
    def mean(self) -> Floats:
        assert self.shown is not None
        return np.nan_to_num(np.clip(self.shown.mean.values, -1, 1))

    @property
    def held(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.truth.count > 0)


def metric(name: str) -> Reading:
    def read(run: Run, points: Points) -> Sequence[float]:
        assert run.shown is not None
        found = metrics(run.shown, run.truth)[name]
        return [float("nan") if found is None else found]

    return read


def distribution(name: str) -> Reading:
    def read(run: Run, points: Points) -> Sequence[float]:
        found = distribution_errors(run.history, run.crowd.population)[name]
        return [float("nan") if found is None else found]

    return read


def cost(price: float) -> Reading:
    def read(run: Run, points: Points) -> Sequence[float]:
        found = total_cost(run.mean, run.truth, price, len(run.history))
        return [float("nan") if found is None else found]

    return read


def relative_errors(run: Run, points: Points) -> Sequence[float]:
    """Quantiles of |f̂ - f|/f over keys, at the points in percent."""
    true = run.truth.frequency[run.held]
    errors = np.abs(run.frequency[run.held] - true) / true
    return [float(np.quantile(errors, point / 100)) for point in points]


def relative_top(run: Run, points: Points) -> Sequence[float]:
    """The median of |f̂ - f|/f over the 100 keys that are truly most frequent."""
    top = most_frequent(run.truth.frequency, 100)
    true = run.truth.frequency[top]
    return [float(np.median(np.abs(run.frequency[top] - true) / true))]


def sets(run: Run, points: Points) -> Sequence[float]:
    """Squared errors of sums over random sets with so many percent of the keys; the same sets in every run."""
    return [_set_error(run, _random_sets(run.crowd.schema.d, point)) for point in points]


@lru_cache(maxsize=64)
def _random_sets(d: int, percent: float) -> Floats:
    rng = np.random.default_rng(seed_of(0, "sets", d, percent))
    size = max(round(percent * d / 100), 1)
    weights = np.zeros((RANDOM_SETS, d))
    for row in weights:
        row[rng.choice(d, size, replace=False)] = 1
    return weights


def _set_error(run: Run, weights: Floats) -> float:
    """The mean squared error of the sums; Post-Pos cuts the answer of a question, not the frequencies."""
    assert run.raw is not None
    answers = weights @ run.frequency
    if run.decoder == POST_POS:
        answers = np.maximum(weights @ np.nan_to_num(run.raw.frequency.values), 0)
    return float(np.mean((answers - weights @ run.truth.frequency) ** 2))


def categories(d: int) -> Floats:
    """68 disjoint categories of keys, ten or eleven each where there are enough, as rows of weights.

    Keys of a category are neighbours by number, so rare keys are together; the paper's categories are not public.
    """
    count = min(68, max(d // 10, 2))
    weights = np.zeros((count, d))
    for place, keys in enumerate(np.array_split(np.arange(min(d, round(count * 10.4))), count)):
        weights[place, keys] = 1
    return weights


def fixed_sets(run: Run, points: Points) -> Sequence[float]:
    return [_set_error(run, categories(run.crowd.schema.d))]


def sets_of(percent: float) -> Reading:
    return lambda run, points: sets(run, (percent,))


def top_of(count: int) -> Reading:
    return lambda run, points: top(run, (count,))


def top(run: Run, points: Points) -> Sequence[float]:
    """Squared errors of the frequencies of the keys that are truly most frequent."""
    order = most_frequent(run.truth.frequency, int(max(points)))
    errors = (run.frequency - run.truth.frequency)[order] ** 2
    return [float(errors[: int(point)].mean()) for point in points]


def shown_frequency(run: Run) -> Floats:
    """Frequencies as estimated, or the true ones where nobody was asked."""
    return run.truth.frequency if run.shown is None else run.frequency


def shown_mean(run: Run) -> Floats:
    """Means as estimated, or the true ones where nobody was asked."""
    return np.nan_to_num(run.truth.mean) if run.shown is None else run.mean


def ranked(values: Callable[[Run], Floats]) -> Reading:
    """The value of the keys of the given ranks by true frequency, 1 for the most frequent one."""

    def read(run: Run, points: Points) -> Sequence[float]:
        order = np.argsort(-run.truth.frequency, kind="stable")
        places = [order[min(int(point), len(order)) - 1] for point in points]
        return [float(number) for number in values(run)[places]]

    return read


def keys(values: Callable[[Run], Floats]) -> Reading:
    """The value of the keys of the given numbers, from 1 on."""

    def read(run: Run, points: Points) -> Sequence[float]:
        found = values(run)
        return [float(found[min(int(point), len(found)) - 1]) for point in points]

    return read


def correlation(run: Run, points: Points) -> Sequence[float]:
    """Pearson's coefficient of frequency and mean over the keys, as the estimates have them."""
    if run.shown is None:
        return [_pearson(run.truth.frequency[run.held], run.truth.mean[run.held])]
    return [_pearson(run.frequency[run.held], run.mean[run.held])]


def correlation_gap(run: Run, points: Points) -> Sequence[float]:
    held = run.held
    true = _pearson(run.truth.frequency[held], run.truth.mean[held])
    return [abs(_pearson(run.frequency[held], run.mean[held]) - true)]


def _pearson(one: Floats, other: Floats) -> float:
    """0 where either does not vary: then nothing is seen of a relation."""
    return float(np.corrcoef(one, other)[0, 1]) if np.ptp(one) > 0 and np.ptp(other) > 0 else 0.0


def per_key(run: Run, points: Points) -> Sequence[float]:
    """Squared errors of means, key by key; nothing is left out, since everybody holds some of the keys."""
    return [float(error) for error in (run.mean - np.nan_to_num(run.truth.mean)) ** 2]


def noise_share(run: Run, points: Points) -> Sequence[float]:
    """The squared error over all keys in units of what unprocessed estimates of as many people would have."""
    assert run.raw is not None
    expected = float(np.mean(run.raw.frequency.se**2))
    return [float(np.mean((run.frequency - run.truth.frequency) ** 2)) / expected]


def bits(run: Run, points: Points) -> Sequence[float]:
    """Bits that a person sends, all rounds together."""
    return [bits_per_person(run.history, run.truth.n)]


def sum_gap(run: Run, points: Points) -> Sequence[float]:
    """By how much the sum of all frequencies is too large."""
    return [float(run.frequency.sum() - run.truth.frequency.sum())]


def of_truth(number: Callable[[Truth], float]) -> Reading:
    return lambda run, points: [number(run.truth)]
