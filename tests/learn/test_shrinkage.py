from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Column, Estimates
from keyveil.core.schema import Schema
from keyveil.lab import datasets
from keyveil.lab.aggregate import aggregate
from keyveil.lab.coins import SeededCoins
from keyveil.lab.simulate import simulate
from keyveil.learn import shrinkage
from keyveil.learn.noise import without_undercount
from keyveil.learn.shrinkage import _frequencies, _signs, bayes
from keyveil.mechanisms.registry import create
from keyveil.mechanisms.responses import INSUFFICIENT, Spread, fieller
from tests.learn.shrunk_errors import unlimited


@pytest.fixture(scope="module")
def long_tail():  # type: ignore[no-untyped-def]
    d = 400
    frequencies = 0.4 * np.arange(1, d + 1) ** -0.8
    people = datasets.independent(200_000, frequencies, 0.5 * np.sin(np.arange(d)), seed=3)
    return simulate("kvue", people, Schema(keys=d), 2, seed=4)


def test_the_whole_vector_is_closer_to_the_truth(long_tail) -> None:  # type: ignore[no-untyped-def]
    raw, shrunk, truth = long_tail.estimates, bayes(long_tail.estimates), long_tail.truth
    error = [np.mean((one.frequency.values - truth.frequency) ** 2) for one in (raw, shrunk)]
    assert error[1] < error[0] / 4
    means = [np.mean((np.nan_to_num(np.clip(one.mean.values, -1, 1)) - truth.mean) ** 2) for one in (raw, shrunk)]
    assert means[1] < means[0] / 1.5


def test_shrunk_values_say_so_and_stay_possible(long_tail) -> None:  # type: ignore[no-untyped-def]
    shrunk = bayes(long_tail.estimates)
    assert set(shrunk.flag) <= {"shrunk", "wide", "insufficient"} and "shrunk" in shrunk.flag
    assert shrunk.frequency.values.min() >= 0 and shrunk.frequency.values.max() <= 1
    assert np.abs(shrunk.mean.values).max() <= 1
    assert (long_tail.estimates.frequency.values < 0).any()  # the unbiased ones are untouched


def test_what_is_well_known_hardly_moves(long_tail) -> None:  # type: ignore[no-untyped-def]
    raw, shrunk = long_tail.estimates, bayes(long_tail.estimates)
    assert abs(shrunk.frequency.values[0] - raw.frequency.values[0]) < raw.frequency.se[0]
    assert abs(shrunk.mean.values[0] - raw.mean.values[0]) < raw.mean.se[0]


def test_posterior_intervals_cover_most_keys(long_tail) -> None:  # type: ignore[no-untyped-def]
    shrunk, truth = bayes(long_tail.estimates), long_tail.truth
    inside = (shrunk.frequency.low <= truth.frequency) & (truth.frequency <= shrunk.frequency.high)
    assert inside.mean() > 0.9
    covered = (shrunk.mean.low <= truth.mean) & (truth.mean <= shrunk.mean.high)
    assert covered.mean() > 0.9


def test_the_grid_is_fine_and_wide_enough(long_tail, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    """A finer and a wider grid hardly change anything, a coarser and a narrower one do (docs/theory.md).

    Without limits, which would hide most of what a bad grid does.
    """
    raw, truth, usual = long_tail.estimates, long_tail.truth, unlimited(long_tail.estimates)

    def error(shrunk: Estimates) -> float:
        return float(np.sqrt(np.mean((shrunk.frequency.values - truth.frequency) ** 2)))

    def having(name: str, value: float) -> Estimates:
        with monkeypatch.context() as changed:
            changed.setattr(shrinkage, name, value)
            changed.setattr(shrinkage, "COARSEST", 1.0)
            return unlimited(raw)

    assert abs(error(having("STEP", 0.175)) / error(usual) - 1) < 0.04 < error(having("STEP", 2.5)) / error(usual) - 1
    wide, narrow = (np.abs(having("REACH", reach).frequency.values - usual.frequency.values) for reach in (10.0, 3.0))
    assert (wide / raw.frequency.se).max() < 0.001 and (narrow / raw.frequency.se).max() > 0.01
    late, early = (np.abs(having("STRONG", least).mean.values - usual.mean.values) for least in (12.0, 4.0))
    assert (late / usual.mean.se).max() < 0.05 and (early / usual.mean.se).max() > 0.2


def test_frequencies_alone_can_be_shrunk() -> None:
    people = datasets.one_key(50_000, np.arange(1, 101) ** -1.0, np.zeros(100), seed=5)
    result = simulate("oue", people, Schema(keys=100), 1, seed=6)
    shrunk = bayes(result.estimates)
    error = [np.mean((one.frequency.values - result.truth.frequency) ** 2) for one in (result.estimates, shrunk)]
    assert error[1] < error[0]
    with pytest.raises(MechanismError):
        _ = shrunk.mean["1"]


def test_few_keys_that_lie_apart_do_not_attract_each_other() -> None:
    """Twenty keys almost three standard errors apart: a prior with a peak for each would cost half of the accuracy.

    The mean of 600 squared errors has a standard error of 6 %, so the bound is off by more than five.
    """
    apart, error, rng = np.linspace(0.02, 0.48, 20), 0.0088, np.random.default_rng(8)
    squares = []
    for _ in range(30):
        told = apart + error * rng.normal(size=20)
        squares.append((_frequencies(told, np.full(20, error)).mean - apart) ** 2)
    assert np.mean(squares) < 1.3 * error**2


def test_keys_that_are_alike_still_help_each_other() -> None:
    alike, error, rng = np.repeat([0.2, 0.6], 50), 0.01, np.random.default_rng(9)
    told = alike + error * rng.normal(size=100)
    assert np.mean((_frequencies(told, np.full(100, error)).mean - alike) ** 2) < 0.4 * error**2


@pytest.mark.parametrize(
    ("name", "epsilon", "options", "least"),
    [("pckv-ue", 1, {"max_pairs": 6}, 0.9), ("ioh", 1, {}, 0.78)],
)
def test_few_keys_do_not_make_sure(name: str, epsilon: float, options: dict[str, int], least: float) -> None:
    """Six keys, fifty collections: intervals hold the truth, and means are no worse than before.

    The share of frequencies that are covered is 0.96 with a deviation of 0.09 per collection (0.91 and 0.18 for ioh,
    whose errors move together), that of means 0.98 and 0.06, and errors are a third of the raw ones at most, give or
    take 0.07; all bounds are five standard errors away. Where six keys are trusted to make a law, 0.90 and 0.87 are
    covered, with ioh 0.73 and 0.79.
    """
    schema, shares = Schema(keys=6), [0.6, 0.4, 0.3, 0.1, 0.05, 0.01]
    people = datasets.independent(3000, shares, np.zeros(6), seed=1)
    records, truth, mechanism = people.records(schema), people.truth(schema), create(name, schema, epsilon, **options)
    frequencies, means, errors = [], [], []
    for run in range(50):
        raw = mechanism.estimate(aggregate(mechanism, records, SeededCoins(9, run)))
        shrunk = bayes(raw)
        frequencies.append((shrunk.frequency.low <= truth.frequency) & (truth.frequency <= shrunk.frequency.high))
        means.append((shrunk.mean.low <= truth.mean) & (truth.mean <= shrunk.mean.high))
        shown = [np.nan_to_num(np.clip(one.mean.values, -1, 1)) for one in (raw, shrunk)]
        errors.append([np.mean((one - truth.mean) ** 2) for one in shown])
    assert np.mean(frequencies) > least
    assert np.mean(means) > 0.94
    before, after = np.mean(errors, axis=0)
    assert after < 2 / 3 * before


@pytest.mark.parametrize("together", [-0.9, 0.9])
def test_an_error_of_the_frequency_that_is_known_is_taken_out_of_the_mean(together: float) -> None:
    """600 keys with the same f, five standard errors above zero; the errors of f and f·m hang together.

    As all keys have nearly the same f, it is known how each f̂ errs, and so is nine tenths of the error of Û. Squared
    errors of means are then a tenth of what they are if nothing were known; a third leaves room of ten standard errors.
    """
    rng, d, f, error = np.random.default_rng(3), 600, 0.2, 0.04
    means = np.where(np.arange(d) % 2, 0.5, -0.5)
    first, second = rng.standard_normal((2, d))
    frequency = f + error * first
    product = f * means + error * (together * first + np.sqrt(1 - together**2) * second)
    spread = Spread(*(np.full(d, part) for part in (error**2, error**2, together * error**2)))
    raw = simulate("kvue", datasets.independent(50, np.full(d, f), means, 1), Schema(keys=d), 1, seed=1).estimates
    told = replace(
        raw,
        frequency=Column(raw.schema, frequency, np.full(d, error), frequency - 2 * error, frequency + 2 * error),
        mean=fieller(raw.schema, frequency, product, spread, 1.96),
        product=product,
        product_se=np.full(d, error),
        covariance=spread.covariance,
    )
    known, ignored = bayes(told).mean, bayes(replace(told, covariance=np.zeros(d))).mean
    squares = [float(np.mean((one.values - means) ** 2)) for one in (known, ignored)]
    assert squares[0] < squares[1] / 3
    assert np.mean((known.low <= means) & (means <= known.high)) > 0.9


def test_one_key_learns_nothing_from_itself() -> None:
    beliefs = _frequencies(np.array([0.3]), np.array([0.02]))
    assert beliefs.mean[0] == pytest.approx(0.3, abs=1e-4)
    assert beliefs.sd[0] == pytest.approx(0.02, rel=0.01)


def test_two_keys_that_agree_are_surer_together_but_not_of_each_other() -> None:
    """If nothing but their common place were unknown, two keys would have 1/√2 of the deviation of one."""
    beliefs = _frequencies(np.array([0.3, 0.3]), np.array([0.02, 0.02]))
    assert (beliefs.sd > 0.02 / np.sqrt(2)).all() and (beliefs.sd < 0.02).all()


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
def test_a_key_without_an_estimate_is_believed_to_be_like_the_others(place: float) -> None:
    """Thirty others lie at one place and err by 0.01 each: it is there too, and less sure than they are."""
    told = np.append(place + 0.01 * np.random.default_rng(3).normal(size=30), np.nan)
    beliefs = _frequencies(told, np.append(np.full(30, 0.01), np.nan))
    assert beliefs.mean[-1] == pytest.approx(place, abs=0.1)
    assert beliefs.sd[-1] > 2 * beliefs.sd[:-1].max()
    assert beliefs.mean[:-1] == pytest.approx(place, abs=0.03)


def test_the_vague_law_of_means_takes_no_side() -> None:
    assert _signs() == pytest.approx(_signs()[::-1])
    assert _signs().sum() == pytest.approx(1)


def test_the_order_of_keys_does_not_matter() -> None:
    """Keys that alternate, as names in two languages may: dealt by their place, a group would hold only one kind."""
    rng = np.random.default_rng(10)
    told, errors = np.tile([0.2, 0.6], 15) + 0.05 * rng.normal(size=30), np.full(30, 0.05)
    order = rng.permutation(30)
    beliefs, mixed = _frequencies(told, errors), _frequencies(told[order], errors)
    np.testing.assert_allclose(mixed.mean, beliefs.mean[order], rtol=1e-9)
    np.testing.assert_allclose(mixed.sd, beliefs.sd[order], rtol=1e-9)


def test_nothing_to_learn_from_is_an_error() -> None:
    people = datasets.everyone(2000, [0.1, 0.2], seed=7)
    with pytest.raises(MechanismError) as refused:
        bayes(simulate("duchi", people, Schema(keys=2), 1, seed=8).estimates)
    assert refused.value.code == "learn/no-frequency"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("privkv", {"estimator": "published"}),
        ("privkv", {"estimator": "iterated"}),
        ("pckv-ue", {"estimator": "published", "max_pairs": 2}),
        ("pckv-grr", {"estimator": "published", "max_pairs": 2}),
        ("krr-harmony", {}),
        ("kvue", {}),
        ("f2m", {"estimator": "mle"}),
    ],
)
@pytest.mark.parametrize("n", [4000, 40, 4])
def test_no_number_is_missing_without_a_flag_that_says_so(name: str, options: dict[str, object], n: int) -> None:
    people = datasets.independent(n, np.array([0.9, 0.5, 0.3, 0.05]), np.array([0.5, -0.5, 0.2, 0.9]), seed=1)
    mechanism = create(name, Schema(keys=4), 4, **options)
    raw = mechanism.estimate(aggregate(mechanism, people.records(mechanism.schema), SeededCoins(2)))
    shrunk = bayes(raw)
    for column in (shrunk.frequency, shrunk.mean):
        assert (column.flag[np.isnan(column.values)] >= INSUFFICIENT).all()
    if np.isnan(raw.mean.se).all():  # published without errors: nobody can say how far they may be moved
        assert shrunk.mean is raw.mean


def test_means_without_errors_stay_as_published() -> None:
    people = datasets.independent(20_000, np.array([0.9, 0.5, 0.3]), np.array([0.5, -0.5, 0.2]), seed=1)
    for estimator in ("published", "iterated"):
        mechanism = create("privkv", Schema(keys=3), 4, estimator=estimator)
        raw = mechanism.estimate(aggregate(mechanism, people.records(mechanism.schema), SeededCoins(2)))
        assert np.isfinite(raw.mean.values).all() and set(bayes(raw).flag) == {"shrunk"}
        np.testing.assert_array_equal(bayes(raw).mean.values, raw.mean.values)


def test_averages_without_errors_stay_as_they_are() -> None:
    """privkvm-star gives rare keys their average; before, they were drawn to what frequent keys have."""
    d = 60
    frequencies = np.where(np.arange(d) < 3, 0.7, 0.02)
    people = datasets.independent(10_000, frequencies, np.zeros(d), seed=1)
    raw = simulate("privkvm-star", people, Schema(keys=d), 1, seed=4).estimates
    told = np.isnan(raw.frequency.se)
    assert told.sum() > d // 2
    np.testing.assert_array_equal(bayes(raw).frequency.values[told], raw.frequency.values[told])
    assert np.isfinite(bayes(raw).frequency.se[~told]).all()


def test_means_stay_known_where_a_cap_may_hide_more_than_noise() -> None:
    """What is allowed for dropped values is larger than the noise of these means, so none of it would be left."""
    d = 12
    people = datasets.independent(40_000, np.full(d, 0.5), np.linspace(-0.9, 0.9, d), seed=1)
    mechanism = create("ssr", Schema(keys=d), 4, max_pairs=3, overflow="0.03")
    raw = mechanism.estimate(aggregate(mechanism, people.records(mechanism.schema), SeededCoins(2)))
    found = raw.header.undercount
    assert found is not None and found.seen
    assert (raw.mean.se**2 < 1.05 * found.shifts(raw.frequency.values)).any()
    assert np.isfinite(bayes(raw).mean.values).all()
    assert np.abs(bayes(raw).mean.values - raw.mean.values).max() < 0.1
    alone = without_undercount(raw).mean.se
    assert (alone > 0.005).all() and (alone < raw.mean.se).all()


def test_low_estimates_count_no_more_than_high_ones() -> None:
    """Keys that are all alike: standard errors grow with the estimate, and the law must not lie low for that."""
    rng, d, f = np.random.default_rng(3), 800, 0.3
    values = f + np.sqrt(0.01 + 0.1 * f) * rng.standard_normal(d)
    errors = np.sqrt(0.01 + 0.1 * np.clip(values, 0.0, 1.0))
    known = np.ones(d, dtype=np.bool_)
    noise = shrinkage._errors_at(values, errors, known, np.full((d, 1), f))
    assert np.abs(noise / np.sqrt(0.01 + 0.1 * f) - 1).max() < 0.01
    centre = float(shrinkage._frequencies(values, errors).mean.mean())
    assert abs(centre - values.mean()) < 0.01
    with pytest.MonkeyPatch.context() as changed:  # as if every error were that of its own estimate
        changed.setattr(shrinkage, "_errors_at", lambda values, errors, known, points: errors[:, None])
        assert float(shrinkage._frequencies(values, errors).mean.mean()) < centre - 0.03


def test_errors_that_belong_to_keys_stay_theirs() -> None:
    """Where errors do not follow frequencies, or there are few keys, every estimate keeps the error it states."""
    rng, d = np.random.default_rng(4), 300
    values, errors = rng.uniform(0, 1, d), rng.uniform(0.05, 0.2, d)
    known, points = np.ones(d, dtype=np.bool_), np.full((d, 2), 0.5)
    assert (shrinkage._errors_at(values, errors, known, points) == errors[:, None]).all()
    few = slice(0, 5)
    found = shrinkage._errors_at(values[few], errors[few], known[few], points[few])
    assert (found == errors[few, None]).all()


def test_a_product_beyond_every_mean_leaves_the_nearest_mean(long_tail) -> None:  # type: ignore[no-untyped-def]
    """The frequency is near zero and f·m is not, by far more errors than a double can tell: the mean is at an end."""
    raw = long_tail.estimates
    values, product, product_se = raw.frequency.values.copy(), raw.product.copy(), raw.product_se.copy()
    values[[3, 4]], product[[3, 4]], product_se[[3, 4]] = 0.0, (0.9, -0.9), 1e-3
    covariance = raw.covariance.copy()
    covariance[[3, 4]] = 0.0
    beyond = replace(
        raw,
        frequency=replace(raw.frequency, values=values),
        product=product,
        product_se=product_se,
        covariance=covariance,
    )
    with np.errstate(invalid="raise"):
        means = shrinkage.bayes(beyond).mean.values
    assert means[3] > 0.9 and means[4] < -0.9 and np.isfinite(means).all()
