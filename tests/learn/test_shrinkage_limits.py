"""Empirical Bayes keeps keys that are certain, and its intervals hold the truth of the most frequent keys, too."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from keyveil.core.discovery import false_shares, told_from_absent
from keyveil.core.estimates import Column, Estimates
from keyveil.core.schema import Schema
from keyveil.lab import datasets
from keyveil.lab.simulate import simulate
from keyveil.learn import laws, shrinkage
from keyveil.learn.shrinkage import Posterior, _mean_moves, _neighbours, bayes, certain_first
from tests.learn.drawn_errors import cell, population
from tests.learn.shrunk_errors import measured, unlimited

Floats = NDArray[np.float64]
Record = Callable[[str, object], None]

TUNED = ("zipf-beta", "gauss-beta", "activity", "tail", "constant")  # the rule and its constants were chosen on these
OTHERS = ("baskets", "ratings", "survey", "heavy", "skewed", "peaks", "lone", "uniform-beta")
WITHIN = ("gauss-beta", "constant", "activity", "heavy", "skewed", "uniform-beta")  # of the goals
MECHANISMS = ("ssr", "pckv-grr", "kvue", "wheel")
EPSILONS = (0.5, 1, 2, 4)

ERROR = 0.004
APART = np.minimum(0.7 / np.arange(1, 601), 0.6)
"""Frequencies of 600 keys by Zipf's law: the frequent ones lie ever further apart."""
LONG_TAIL = np.append(ERROR * np.linspace(9, 2.5, 20), np.zeros(580))
"""Frequencies of 600 keys, of which 20 lie 2.5 to 9 standard errors above zero."""


def collections(runs: int, seed: int, truth: Floats = LONG_TAIL, error: float = ERROR) -> list[Estimates]:
    """Estimates that are normal around these frequencies, all with the same error."""
    d = len(truth)
    raw = simulate("oue", datasets.one_key(50, np.ones(d), np.zeros(d), 1), Schema(keys=d), 1, seed=1).estimates
    rng, found = np.random.default_rng(seed), []
    for _ in range(runs):
        f = truth + error * rng.normal(size=d)
        column = Column(raw.schema, f, np.full(d, error), f - 1.96 * error, f + 1.96 * error)
        found.append(replace(raw, frequency=column, scores=f / error))
    return found


def errors(way: Callable[[Estimates], Estimates], runs: list[Estimates]) -> tuple[float, float, float]:
    """Errors of the 12 certain and the 20 frequent keys as multiples of unbiased ones, and the share covered."""
    squares, held, certain = np.zeros((2, 2)), [], LONG_TAIL > 5 * ERROR
    for raw in runs:
        now = way(raw).frequency
        for at, values in enumerate((raw.frequency.values, now.values)):
            square = (values - LONG_TAIL) ** 2
            squares[at] += square[certain].sum(), square[:20].sum()
        held.append(((now.low <= LONG_TAIL) & (now.high >= LONG_TAIL))[:20])
    (one, other), covered = squares[1] / squares[0], float(np.mean(held))
    return float(one), float(other), covered


def test_frequent_keys_are_kept_and_covered() -> None:
    """The same twelve collections with limits and without: 1.08, 2.13 and 0.97 against 1.03, 2.13 and 0.76.

    Of the 20 keys, eight are not certain; among 580 absent ones they cannot be served without a larger error of all
    keys (docs/theory.md).
    """
    runs = collections(12, seed=4)
    kept, free = errors(bayes, runs), errors(unlimited, runs)
    assert kept[0] < 1.1 and kept[1] < 2.2 and kept[2] > 0.92 > free[2]


def test_frequent_keys_that_lie_apart_are_not_drawn_to_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """93 keys beyond five standard errors, four collections: 1.00 times the unbiased error, and 1.32 without a smooth
    tail, at the same error of all keys.
    """
    error, certain = 0.0015, APART > 5 * 0.0015
    runs = collections(4, 7, APART, error)

    def squares(way: Callable[[Estimates], Estimates]) -> Floats:
        off = np.array([(way(one).frequency.values - APART) ** 2 for one in runs])
        return np.array([off[:, certain].sum(), off.sum()])

    unbiased, smooth = squares(lambda one: one), squares(bayes)
    monkeypatch.setattr(shrinkage, "smooth_tail", lambda laws, *_: laws)
    peaked = squares(bayes)
    assert smooth[0] < 1.1 * unbiased[0] < peaked[0]
    assert smooth[1] < 1.02 * peaked[1]


def test_the_tail_keeps_its_mass_and_the_rest_of_a_law_stays() -> None:
    rng, size, d = np.random.default_rng(3), 200, 60
    values = np.append(np.zeros(50), rng.uniform(20, 180, 10))
    places = np.broadcast_to(np.arange(size), (d, size))
    likelihood = np.exp(-0.5 * (laws.STEP * (values[:, None] - places)) ** 2)
    known, vague = np.ones(d, dtype=np.bool_), np.full(size, 1 / size)
    learnt = laws.learnt(likelihood, places, vague, known, 40, stretched=(0.2,))
    smooth, edge = laws.smooth_tail(learnt, likelihood, places, vague, known), round(laws.TAIL / laws.STEP)
    np.testing.assert_allclose(smooth.shares.sum(axis=1), 1)
    np.testing.assert_array_equal(smooth.shares[:, :edge], learnt.shares[:, :edge])
    assert not np.allclose(smooth.shares[:, edge:], learnt.shares[:, edge:])
    few = np.where(np.arange(d) < 52, True, False)
    assert laws.smooth_tail(learnt, likelihood, places, vague, few) is learnt  # two clear keys tell no shape


def test_false_shares_tell_the_same_keys_as_the_rule_at_every_level() -> None:
    scores = np.append(np.random.default_rng(5).normal(1, 2, 300), np.nan)
    for confidence in (0.5, 0.8, 0.95, 0.999):
        np.testing.assert_array_equal(
            false_shares(scores) <= 1 - confidence, told_from_absent(scores, "bh", confidence)
        )
    assert false_shares(scores)[-1] == 1


def test_neighbours_are_counted_around_a_key_without_itself() -> None:
    """Five keys at one place have four others each; one that is 0.7 standard errors above two of them has less."""
    values, spread = np.array([0.2] * 5 + [0.9, np.nan]), np.array([0.01] * 6 + [np.nan])
    found = _neighbours(values, spread, np.isfinite(values))
    np.testing.assert_allclose(found[:6], [4, 4, 4, 4, 4, 0], atol=1e-4)
    apart = _neighbours(np.array([0.2, 0.2, 0.207]), np.full(3, 0.01), np.ones(3, dtype=np.bool_))
    np.testing.assert_allclose(apart, [1 + np.exp(-0.245), 1 + np.exp(-0.245), 2 * np.exp(-0.245)])


def first(others: int, doubts: Floats, clear: int) -> float:
    """A key that is 0 or 4.6 standard errors, among others that are 0 or 4; ``clear`` of the estimates are 9."""
    points = np.vstack([[[0.0, 4.6]], np.tile([0.0, 4.0], (others, 1))])
    beliefs = Posterior(points, np.vstack([doubts, np.full((others, 2), 0.5)]))
    values = np.where(np.arange(1 + others) < clear, 9.0, 2.0)
    return float(certain_first(beliefs, values, np.ones(1 + others))[0] / 4.6)


def test_errors_of_certain_keys_count_more_until_they_are_no_larger_than_unbiased() -> None:
    """A key that is 0 or 4.6 standard errors is drawn towards 4.6, as far as the error of all keys allows it."""
    doubtful = np.array([[0.45, 0.55]])
    assert first(0, doubtful, 1) == pytest.approx(0.55)  # more weight would cost more than the price
    assert 0.6 < first(6, doubtful, 3) < first(60, doubtful, 3)
    assert first(60, np.array([[0.01, 0.99]]), 3) == pytest.approx(0.99)  # it needs no more weight


def test_without_a_clear_key_every_error_counts_the_same_and_keys_move_freely() -> None:
    doubtful = np.array([[0.45, 0.55]])
    assert first(60, doubtful, 0) == pytest.approx(0.55)
    assert first(60, doubtful, 1) > 0.6
    (raw,) = collections(1, 2, np.linspace(0, 0.003, 50), 0.001)
    top = raw.frequency.values.argmax()
    second = raw.frequency.values.argsort()[-2]
    for score, limited in ((3.9, 0), (4.1, 1), (4.6, 2)):
        values = raw.frequency.values.copy()
        values[[second, top]] = 0.0039, score * 0.001
        now = replace(raw, frequency=replace(raw.frequency, values=values), scores=values / 0.001)
        assert np.isfinite(shrinkage._frequency_moves(now)[[second, top]]).sum() == limited


def test_with_many_clear_keys_errors_of_the_most_frequent_count_more() -> None:
    """Eight clear keys and twenty that are 0 or 3 standard errors: these lie higher than their posterior mean of 1.5,
    at no more than the price for the error of all.
    """
    points = np.vstack([np.tile([9.0, 9.5], (8, 1)), np.tile([0.0, 3.0], (20, 1))])
    beliefs = Posterior(points, np.full((28, 2), 0.5))
    values = np.append(np.full(8, 9.0), np.full(20, 1.5))
    centre = certain_first(beliefs, values, np.ones(28))
    assert (centre[8:] > 1.6).all() and (certain_first(beliefs, values / 9, np.ones(28))[8:] == 1.5).all()

    def error(centres: Floats) -> float:
        return float((beliefs.weights * (points - centres[:, None]) ** 2).sum())

    assert error(beliefs.mean) < error(centre) <= (1 + shrinkage.FREQUENT_PRICE) * error(beliefs.mean)


def test_the_goals_in_small() -> None:
    """Draws of two cells of 60 keys. Where some are certain, their error is 0.99 times the unbiased one, and 1.32
    without limits and weights, each known to 0.05. Where none is clear, all keys have the plain error.
    """
    raw, rng = collections(1, 1, np.zeros(60))[0], np.random.default_rng(12)
    clear = cell(0.5 / np.arange(1, 61), np.full(60, 0.006), raw, 16, rng)
    assert clear["now"].certain[0] < 1.1 < clear["plain"].certain[0]
    assert clear["now"].top[0] < 1.25 and clear["now"].covered > 0.92
    vague = cell(0.2 / np.sqrt(np.arange(1, 61)), np.full(60, 0.25), raw, 6, rng)["now"]
    assert vague.whole[0] < 1.06 and vague.covered > 0.92


@pytest.mark.parametrize(("d", "most"), [(100, 0.05), (600, 0.012)])
def test_keys_that_are_alike_are_known_nearly_as_well_as_their_average(
    d: int, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys of one frequency, six collections: 0.022 and 0.006 times the unbiased error; 0.126 and 0.018 with laws that
    start from everything that is possible. A limit by neighbours on one side had 2.9 times the error of plain ones.
    """
    runs, truth = collections(6, 8, np.full(d, 0.2), 0.02), 0.2

    def kept() -> float:
        off = np.array([[way.frequency.values - truth for way in (bayes(raw), raw)] for raw in runs])
        squares = (off**2).sum(axis=(0, 2))
        return float(squares[0] / squares[1])

    assert kept() < most
    found = laws.learnt

    def vaguely(*told: Any) -> laws.Laws:
        parts: list[Any] = [None if at == 5 else one for at, one in enumerate(told)]
        return found(*parts)

    monkeypatch.setattr(shrinkage, "learnt", vaguely)
    assert kept() > most


def test_a_mean_moves_the_less_the_better_it_is_known() -> None:
    np.testing.assert_allclose(_mean_moves(np.array([0.01, 0.1, np.nan])) / 0.01, [0.16, 11.5, np.inf])


@pytest.mark.soak
@pytest.mark.parametrize("name", WITHIN)
def test_goals_on_drawn_estimates(name: str, record_property: Record) -> None:
    """Sixty draws a cell. By population, as geometric means: certain keys within 1.1 of the unbiased error, the 20 most
    frequent within 1.25 and in no cell above 1.6, all keys within 1.02 of plain ones, of which the average of 16 cells
    is known to 0.005; intervals hold 0.92. Long tails miss the second (docs/theory.md).
    """
    seed = int(os.environ.get("KEYVEIL_SEED", secrets.randbelow(1 << 31)))
    record_property("seed", seed)
    cells = [one["now"] for one in population(name, 60, seed)]
    certain, top, whole = (np.array([getattr(one, part)[0] for one in cells]) for part in ("certain", "top", "whole"))
    assert np.isfinite(top).all() and np.isfinite(whole).all()
    assert np.exp(np.nanmean(np.log(certain))) <= 1.1
    assert np.exp(np.log(top).mean()) <= 1.25 and top.max() <= 1.6
    assert np.exp(np.log(whole).mean()) <= 1.02
    assert np.mean([one.covered for one in cells]) >= 0.92


@pytest.mark.soak
@pytest.mark.parametrize("name", TUNED + OTHERS)
def test_limits_on_whole_populations(name: str, record_property: Record) -> None:
    """All mechanisms and ε, 100,000 people, 20 runs a cell; KEYVEIL_SEED repeats a run.

    Bounds are for geometric means over the 16 cells of a population, and leave room above what docs/theory.md shows;
    the worst cells are written down.
    """
    seed = int(os.environ.get("KEYVEIL_SEED", secrets.randbelow(1 << 31)))
    record_property("seed", seed)
    dataset = datasets.load(name, n=100_000, seed=seed)
    cells = {(way, epsilon): measured(dataset, way, epsilon, 20, seed) for way in MECHANISMS for epsilon in EPSILONS}
    for (way, epsilon), told in cells.items():
        record_property(f"{way} {epsilon:g}", told)
    for part, most in (("certain", 1.5), ("top", 1.25), ("top_mean", 1.25), ("whole", 1.2), ("whole_mean", 1.1)):
        ratios = np.array([getattr(told, part) for told in cells.values()])
        average = float(np.exp(np.nanmean(np.log(ratios)))) if np.isfinite(ratios).any() else 0.0
        record_property(part, f"{average:.3f}, worst {np.nanmax(ratios, initial=0):.2f}")
        assert average <= most, part
    covered = np.mean([told.covered for told in cells.values()], axis=0)
    record_property("covered", " ".join(f"{share:.3f}" for share in covered))
    assert covered.min() >= 0.92
    assert not any(told.missing for told in cells.values())
