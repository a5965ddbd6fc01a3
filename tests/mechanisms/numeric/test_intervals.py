"""Intervals cover as often as they say: for the people who were asked, and for those they are a sample of."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from keyveil.core.report import Reports
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.families.numeric import Numeric
from tests.mechanisms.numeric.crowd import NAMES, everyone, numeric
from tests.sweeps import sampled

BLIND = ("duchi", "mean-est")  # a sign does not show how far people are apart

Floats = NDArray[np.float64]


@pytest.fixture(params=[1500, pytest.param(5000, marks=pytest.mark.soak)])
def repeats(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def is_honest(covered: Floats, repeats: int) -> NDArray[np.bool_]:
    """Whether so many 95 % intervals are: at 0.95 ± 0.03 of 1500 and ± 0.02 of 5000 false alarms are below 1e-6."""
    return np.abs(covered - 0.95) <= (0.03 if repeats < 5000 else 0.02)


def coverage(mechanism: Numeric, values: Floats, target: Floats, population: bool) -> Floats:
    """Share of intervals that hold the target, for every key; ``values`` has a row of people for each repeat."""
    covered = np.zeros(mechanism.schema.d)
    people = values.shape[1]
    reports = mechanism.perturb_many(everyone(values.reshape(values.shape[0] * people, -1)), SeededCoins(8))
    for start in range(0, len(reports), people):
        block = Reports(reports.publics[start : start + people], reports.payloads[start : start + people])
        mean = mechanism.estimate(mechanism.tally(block), population=population).mean
        covered += (mean.low <= target) & (target <= mean.high)
    return covered / len(values)


def crowd_size(name: str) -> int:
    """Few enough to be fast; sums of signs are coarse numbers, and need more people for the normal law to fit."""
    return 1200 if name in BLIND else 500


def spread_out(name: str, size: tuple[int, ...]) -> Floats:
    """Values from two camps far apart; from one for mechanisms that cannot see how far people are apart."""
    rng = np.random.default_rng(3)
    if name in BLIND:
        return 0.4 + rng.uniform(-0.3, 0.3, size)
    return np.where(rng.random(size) < 0.7, 0.8, -0.8)


@pytest.mark.parametrize(("name", "epsilon"), sampled([(name,) for name in NAMES], ["0.5", "2", "1"]))
def test_fixed_people(name: str, epsilon: str, repeats: int) -> None:
    people = spread_out(name, (crowd_size(name),))
    values = np.broadcast_to(people, (repeats, crowd_size(name)))
    covered = coverage(numeric(name, epsilon), values, np.array([people.mean()]), population=False)
    assert is_honest(covered, repeats).all(), covered


@pytest.mark.parametrize(("name", "epsilon"), sampled([(name,) for name in NAMES], ["0.5", "2", "1"], first=1))
def test_sample(name: str, epsilon: str, repeats: int) -> None:
    truth = 0.4 if name in BLIND else 0.8 * (0.7 - 0.3)
    covered = coverage(
        numeric(name, epsilon), spread_out(name, (repeats, crowd_size(name))), np.array([truth]), population=True
    )
    assert is_honest(covered, repeats).all(), covered


@pytest.mark.parametrize("name", ["piecewise", "hybrid", "square-wave"])
def test_the_two_settings_are_told_apart(name: str) -> None:
    """A sample's error for the people themselves is too large here, and the people's error for a sample too small."""
    people = spread_out(name, (crowd_size(name),))
    values = np.broadcast_to(people, (1000, crowd_size(name)))
    assert coverage(numeric(name, "3"), values, np.array([people.mean()]), population=True).max() > 0.97
    samples = spread_out(name, (1000, crowd_size(name)))
    assert coverage(numeric(name, "3"), samples, np.array([0.8 * (0.7 - 0.3)]), population=False).min() < 0.93


@pytest.mark.parametrize("name", NAMES)
def test_several_keys_share_the_people(name: str, repeats: int) -> None:
    # Three keys, each asked of a third of the people (mean-est: of all), who are a sample of all of them.
    n = crowd_size(name)
    people = np.stack([spread_out(name, (n,)), np.linspace(-0.3, 0.3, n), np.full(n, -0.5)], axis=1)
    values = np.broadcast_to(people, (repeats, n, 3))
    covered = coverage(numeric(name, "3", keys=3), values, people.mean(axis=0), population=False)
    assert is_honest(covered, repeats).all(), covered
