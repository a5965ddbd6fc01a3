from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from keyveil.core.errors import MechanismError
from keyveil.core.schema import Schema
from keyveil.lab import datasets
from keyveil.lab.coins import SeededCoins
from keyveil.lab.simulate import simulate
from keyveil.learn.choose import choose, normals
from keyveil.learn.postprocess import METHODS
from keyveil.mechanisms.registry import create

OUE: dict[str, Any] = {"p": 0.5, "q": 1 / (np.e + 1)}


def _zipf(n: int, d: int) -> np.ndarray:
    """Estimates of n people's keys through OUE at ε = 1, drawn from their law."""
    rng, shares = np.random.default_rng(2), np.arange(1, d + 1) ** -1.5
    counts = rng.multinomial(n, shares / shares.sum())
    supports = rng.binomial(counts, OUE["p"]) + rng.binomial(n - counts, OUE["q"])
    return (supports / n - OUE["q"]) / (OUE["p"] - OUE["q"])


def test_the_question_decides() -> None:
    """Zipf(1.5), a hundred thousand people: noise in the tail, and a few keys that stand out."""
    raw = _zipf(100_000, 300)
    frequent = choose(raw, [[0], [1], [2]], **OUE, n=100_000, coins=SeededCoins(1))
    alone = choose(raw, **OUE, n=100_000, coins=SeededCoins(1))
    sets = np.random.default_rng(3).random((40, 300)) < 0.3
    together = choose(raw, sets.astype(float), **OUE, n=100_000, coins=SeededCoins(1))
    assert frequent.best in ("base", "norm")
    assert alone.best in ("base-cut", "norm-sub", "norm-cut", "power", "power-ns")
    assert together.best in ("norm-sub", "power-ns")
    worst = {choice.ranking[-1].method for choice in (frequent, alone)}
    assert worst == {"norm-mul"}


def test_a_ranking_has_losses_in_order_with_standard_errors() -> None:
    choice = choose(_zipf(100_000, 100), **OUE, n=100_000, coins=SeededCoins(1))
    losses = [score.loss for score in choice.ranking]
    assert losses == sorted(losses) and {score.method for score in choice.ranking} == set(METHODS)
    assert all(0 < score.se < 0.5 * score.loss for score in choice.ranking)
    assert choice.rows()[0] == {"method": choice.ranking[0].method, "loss": losses[0], "se": choice.ranking[0].se}
    again = choose(_zipf(100_000, 100), **OUE, n=100_000, coins=SeededCoins(1))
    assert again == choice


def test_ties_go_to_the_simpler_method() -> None:
    """Four keys that nobody doubts, and a sum that is always right: whatever is done changes nothing."""
    choice = choose([0.25] * 4, p=0.7, q=0.1, n=10**6, fixed_sum=True, methods=["norm-sub", "norm", "base"])
    assert choice.best == "base"


def test_a_fixed_sum_is_kept_in_simulation() -> None:
    """GRR's estimates always sum to one: the loss of the query for all keys is zero without any method."""
    choice = choose([0.5, 0.3, 0.2], np.ones((1, 3)), p=0.6, q=0.2, n=1000, fixed_sum=True)
    free = choose([0.5, 0.3, 0.2], np.ones((1, 3)), p=0.6, q=0.2, n=1000)
    loss = {score.method: score.loss for score in choice.ranking}
    assert loss["base"] < 1e-25
    assert {score.method: score.loss for score in free.ranking}["base"] > 1e-5


def test_estimates_bring_their_constants_and_constraint() -> None:
    people = datasets.independent(40_000, np.full(30, 0.1), np.zeros(30), seed=1)
    estimates = simulate("kvue", people, Schema(keys=30), 1, seed=2).estimates
    names = {score.method for score in choose(estimates, [["0", "1"]], coins=SeededCoins(1)).ranking}
    assert names == set(METHODS) - {"norm", "norm-mul", "mle-apx", "mle"}  # nobody knows the sum
    told = choose(estimates, total=3.0, mechanism=create("kvue", Schema(keys=30), 1), coins=SeededCoins(1))
    assert {score.method for score in told.ranking} == set(METHODS)


def test_a_loss_of_ones_own() -> None:
    largest = choose([0.6, 0.3, 0.1], lambda a, b: abs(a.max() - b.max()), p=0.6, q=0.2, n=10_000, coins=SeededCoins(1))
    assert 0 < largest.ranking[0].loss < 0.02


def test_normal_numbers_are_normal() -> None:
    drawn = normals(100_000, SeededCoins(5))
    assert abs(drawn.mean()) < 5 / np.sqrt(1e5) and abs(drawn.std() - 1) < 5 / np.sqrt(2e5)  # five standard errors
    assert np.mean(np.abs(drawn) < 1.959964) == pytest.approx(0.95, abs=0.0035)


def test_clear_refusals() -> None:
    for vector, options, code in (
        ([0.0] * 10_001, {**OUE, "n": 10}, "choose/too-many-keys"),
        ([0.5, 0.5], {"n": 10}, "postprocess/constants"),
        ([0.5, 0.5], {**OUE, "n": 10, "repeats": 1}, "choose/repeats"),
        ([0.5, 0.5], {**OUE, "n": 10, "questions": [[2]]}, "choose/questions"),
        ([0.5, 0.5], {**OUE, "n": 10, "questions": []}, "choose/questions"),
        ([0.5, 0.5], {**OUE, "n": 10, "questions": np.ones((1, 3))}, "choose/questions"),
        ([0.5, 0.5], {**OUE, "n": 10, "methods": ["best"]}, "postprocess/unknown"),
        ([0.5, 0.5], {**OUE, "n": 10, "methods": []}, "choose/methods"),
    ):
        with pytest.raises(MechanismError) as refused:
            choose(vector, **options)
        assert refused.value.code == code, options
