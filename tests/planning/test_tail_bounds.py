"""Bounds hold whatever the data are, and a third of the radius would not: the law of the counts, not a simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from keyveil.core.errors import MechanismError
from keyveil.planning.tail_bounds import kvoh_count_bound, kvue_count_bound, privkv_mean_bound

DELTA = 0.05


def beyond(reports: int, held: int, truth: float, lie: float, radius: float) -> float:
    """P[the estimated number of people in a state is further than the radius from those ``held``]."""
    others = reports - held
    own, other = (stats.binom.pmf(np.arange(size + 1), size, p) for size, p in ((held, truth), (others, lie)))
    law = np.convolve(own, other)
    estimates = (np.arange(len(law)) - lie * reports) / (truth - lie)
    return float(law[np.abs(estimates - held) > radius].sum())


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("held", [0, 200, 400])
def test_counts_are_within_their_bounds(epsilon: float, held: int) -> None:
    reports, e, half = 400, math.exp(epsilon), math.exp(epsilon / 2)
    for bound, truth, lie in (
        (kvue_count_bound, e / (e + 2), 1 / (e + 2)),
        (kvoh_count_bound, half / (half + 1), 1 / (half + 1)),
    ):
        radius = bound(reports, epsilon, DELTA)
        assert beyond(reports, held, truth, lie, radius) <= DELTA


def test_a_third_of_the_radius_would_not_hold() -> None:
    e = math.exp(1.0)
    assert beyond(400, 200, e / (e + 2), 1 / (e + 2), kvue_count_bound(400, 1.0, DELTA) / 3) > DELTA


def test_means_of_privkv_are_within_their_bound() -> None:
    """Twenty keys, 20,000 reports each, 400 runs: the worst key of a run is beyond the bound in none of them."""
    rng, reports, runs, keys, f, m = np.random.default_rng(1), 20_000, 400, 20, 0.5, 0.6
    presence, sign = (1 / (1 + math.exp(-1.0)),) * 2
    plus, minus = (f * presence * (1 + s * (2 * sign - 1) * m) / 2 + (1 - f) * (1 - presence) / 2 for s in (1, -1))
    counts = rng.multinomial(reports, [plus, minus, 1 - plus - minus], size=(runs, keys))
    held = ((counts[..., 0] + counts[..., 1]) / reports - (1 - presence)) / (2 * presence - 1)
    product = (counts[..., 0] - counts[..., 1]) / reports / (presence * (2 * sign - 1))
    worst = np.abs(product / held - m).max(axis=1)
    bound = privkv_mean_bound(reports, f, 1.0, 1.0, keys, DELTA)
    assert bound < 0.5 and (worst <= bound).all()
    assert (worst > bound / 8).mean() > DELTA  # an eighth of it would not hold


def test_a_rare_key_has_no_bound_but_the_range() -> None:
    assert privkv_mean_bound(1000, 0.01, 0.5, 0.5, 100, DELTA) == 2


@pytest.mark.parametrize("wrong", [(0, 1.0, 0.1), (10, 0.0, 0.1), (10, 1.0, 1.0)])
def test_senseless_bounds_are_refused(wrong: tuple[int, float, float]) -> None:
    with pytest.raises(MechanismError) as refused:
        kvue_count_bound(*wrong)
    assert refused.value.code == "plan/bound"
