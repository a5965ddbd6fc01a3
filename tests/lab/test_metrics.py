from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from keyveil.core.estimates import Column, Estimates, Header
from keyveil.core.schema import Schema
from keyveil.frames.truth import Truth
from keyveil.lab import metrics

SCHEMA = Schema(keys=4)
TRUTH = Truth(SCHEMA, 100, np.array([50, 20, 10, 0]), np.array([25.0, -10.0, 5.0, 0.0]))  # means 0.5, -0.5, 0.5, none


def estimates(frequency: list[float], mean: list[float] | None) -> Estimates:
    values = np.array(frequency)
    shown = Column(SCHEMA, values, np.array(0.01), values - 0.02, values + 0.02)
    means = np.array(mean) if mean else None
    return Estimates(
        header=Header(SCHEMA, "test", Fraction(1), 100),
        respondents=np.array(100),
        frequency=shown,
        mean=Column.unknown(SCHEMA, "none", scaled=True)
        if means is None
        else Column(SCHEMA, means, np.array(0.1), means - 0.2, means + 0.2, scaled=True),
    )


def test_errors_run_over_the_keys_that_somebody_holds() -> None:
    found = metrics.metrics(estimates([0.5, 0.3, 0.1, 9.0], [0.5, -0.5, 3.0, 0.0]), TRUTH)
    assert found["mse_frequency"] == pytest.approx(0.01 / 3)
    assert found["ae_frequency"] == pytest.approx(0.1 / 3)
    assert found["re_frequency"] == 0
    assert found["mse_mean"] == pytest.approx(0.25 / 3)  # 3 counts as 1
    assert found["coverage_frequency"] == pytest.approx(2 / 3)
    assert found["coverage_mean"] == pytest.approx(2 / 3)


def test_what_is_not_estimated_is_none() -> None:
    found = metrics.metrics(estimates([0.5, 0.2, 0.1, 0.0], None), TRUTH)
    assert found["mse_mean"] is None and found["coverage_mean"] is None and found["mse_frequency"] == 0
    assert set(found) == set(metrics.NAMES)


def test_estimates_without_limits_have_no_coverage() -> None:
    """A missing interval neither holds nor misses the truth; those that exist are still counted."""
    found = estimates([0.5, 0.3, 0.1, 0.0], [0.5, -0.5, 0.5, 0.0])
    nothing, some = np.full(4, np.nan), np.array([0.3, np.nan, 0.9, np.nan])
    bare = replace(found, mean=replace(found.mean, low=nothing, high=nothing))
    mixed = replace(found, mean=replace(found.mean, low=some, high=some + 0.4))
    assert metrics.metrics(bare, TRUTH)["coverage_mean"] is None
    assert metrics.metrics(bare, TRUTH)["coverage_frequency"] == pytest.approx(2 / 3)
    assert metrics.metrics(bare, TRUTH)["mse_mean"] == 0
    assert metrics.metrics(mixed, TRUTH)["coverage_mean"] == 0.5


def test_where_no_key_has_an_estimate_there_is_no_error() -> None:
    blank, single = [np.nan] * 4, [np.nan, -0.5, np.nan, np.nan]
    found = metrics.metrics(estimates(blank, blank).flagged("insufficient"), TRUTH)
    assert found == dict.fromkeys(metrics.NAMES) | {"insufficient": 1}
    assert metrics.metrics(estimates(blank, single), TRUTH)["mse_mean"] == pytest.approx(0.5 / 3)  # unknown ones are 0


def test_the_cost_of_rounds_is_their_error_and_their_price() -> None:
    """The last key, which nobody holds, has no true mean and does not count."""
    means = np.array([0.4, -0.2, 0.5, 0.9])
    assert metrics.total_cost(means, TRUTH, 0.2, 3) == pytest.approx((0.1 + 0.3 + 0.0) / 3 + 0.6)
    nobody = Truth(SCHEMA, 100, np.zeros(4, dtype=np.int64), np.zeros(4))
    assert metrics.total_cost(means, nobody, 0.2, 3) is None


def test_a_flag_that_is_not_grave_is_not_insufficient() -> None:
    perfect = estimates([0.5, 0.2, 0.1, 0.0], [0.5, -0.5, 0.5, 0.0]).flagged("truncated")
    assert metrics.metrics(perfect, TRUTH)["insufficient"] == 0
    assert metrics.metrics(perfect.flagged("insufficient"), TRUTH)["insufficient"] == 1


def test_averages_skip_what_is_unknown() -> None:
    assert metrics.averaged([{"a": 1.0, "b": None}, {"a": 3.0, "b": None}]) == {"a": 2.0, "b": None}


def test_percentiles_of_relative_error() -> None:
    true, found = np.array([0.5, 0.1, 0.2, 0.0]), np.array([0.5, 0.2, 0.3, 1.0])
    assert metrics.relative_error(found, true) == pytest.approx(0.5)
    assert metrics.relative_error(found, true, 1.0) == pytest.approx(1.0)


def test_wasserstein_on_cells() -> None:
    """All mass moved from the first to the last of four cells travels three cells of width 1/2."""
    left, right = np.array([[1.0, 0, 0, 0]]), np.array([[0.0, 0, 0, 1]])
    assert metrics.wasserstein(left, right) == pytest.approx(1.5)
    assert metrics.wasserstein(left, left) == 0
    assert metrics.wasserstein(np.vstack([left, left * np.nan]), np.vstack([right, right])) == pytest.approx(1.5)


def test_jain_is_one_for_equals_and_one_over_d_for_one_victim() -> None:
    assert metrics.jain(np.full(5, 0.3)) == pytest.approx(1)
    assert metrics.jain(np.array([1.0, 0, 0, 0])) == pytest.approx(0.25)
    runs = [np.array([0.1, 0.0]), np.array([-0.1, 0.0])]
    assert metrics.fairness(runs, np.zeros(2)) == pytest.approx(0.5)


def test_subset_queries_add_up_errors() -> None:
    true = np.full(10, 0.1)
    assert metrics.subset_error(true + 0.01, true, 0.5, seed=1) == pytest.approx(0.05**2)


def test_heavy_hitters() -> None:
    true = np.array([0.5, 0.4, 0.3, 0.2])
    assert metrics.heavy_hitters(true, true, 2) == {"precision": 1, "recall": 1, "ndcg": 1}
    swapped = metrics.heavy_hitters(np.array([0.4, 0.5, 0.1, 0.1]), true, 2)
    assert swapped["recall"] == 1 and 0.9 < float(swapped["ndcg"] or 0) < 1
    shy = metrics.heavy_hitters(np.array([0.4, -0.1, -0.1, -0.2]), true, 2)
    assert (shy["precision"], shy["recall"]) == (1, 0.5)


def test_the_error_of_variances() -> None:
    """Half at -1 and half at 1 has the variance 1, all at 0 none; a key with fewer points and one without a law."""
    points = np.array([[-1.0, 0.0, 1.0], [-1.0, 1.0, np.nan], [-1.0, 0.0, 1.0]])
    laws = np.array([[0.5, 0.0, 0.5], [0.5, 0.5, 0.0], [np.nan] * 3])
    assert metrics.variance_error(laws, np.array([0.8, 1.0, 0.5]), points) == pytest.approx(0.02)
    assert metrics.variance_error(laws[2:], np.array([0.5]), points[2:]) is None
