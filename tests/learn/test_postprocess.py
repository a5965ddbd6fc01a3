from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import keyveil as kv
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Column, Estimates
from keyveil.lab import datasets
from keyveil.lab.coins import SeededCoins
from keyveil.learn.means import shrunk_means
from keyveil.learn.postprocess import METHODS, Processed, estimates
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import create
from tests.core.test_estimates import assert_identical

D = 40
SCHEMA = kv.Schema(keys=D)
FREQUENCIES = np.clip(1.2 * np.arange(1, D + 1) ** -0.9, 0, 0.9)  # people hold 3.6 of 40 keys
MEANS = 0.3 * np.sin(np.arange(D))


def _estimates(name: str, n: int = 20_000, **options: object) -> tuple[Mechanism, Estimates, kv.Tally]:
    people = datasets.independent(n, FREQUENCIES, MEANS, seed=1).records(SCHEMA)
    mechanism = kv.mechanism(name, SCHEMA, 1, **options)
    tally = mechanism.tally(mechanism.perturb_many(people, SeededCoins(2)))
    return mechanism, mechanism.estimate(tally), tally


@pytest.fixture(scope="module")
def kvue() -> Estimates:
    return _estimates("kvue")[1]


@pytest.fixture(scope="module")
def oue() -> tuple[Mechanism, Estimates]:
    mechanism = kv.mechanism("oue", SCHEMA, 1)
    keys = np.random.default_rng(4).choice(D, 5000, p=FREQUENCIES / FREQUENCIES.sum())
    people = kv.Population.from_records([{str(key): 0} for key in keys]).records(SCHEMA)
    return mechanism, mechanism.estimate(mechanism.tally(mechanism.perturb_many(people, SeededCoins(3))))


def test_the_public_face() -> None:
    assert kv.postprocess.apply("norm-sub", [-0.1, 0.05, 0.5, 0.8], p=0.5, q=0.2, n=10, total=1.0) == pytest.approx(
        [0, 0, 0.35, 0.65]
    )
    assert kv.postprocess.estimates is estimates and "postprocess" in dir(kv)


@pytest.mark.parametrize("method", ["norm-sub", "base", "post-pos", "bayes"])
def test_processed_estimates_come_back_from_json_with_the_raw_ones(method: str, kvue: Estimates) -> None:
    made = estimates(method, kvue, total=3.6 if method == "norm-sub" else None)
    read = Estimates.from_json(made.to_json())

    assert isinstance(read, Processed)
    assert_identical(read, made)
    assert_identical(read.raw, made.raw)
    assert (read.method, read.constraint) == (made.method, made.constraint)
    assert_identical(estimates("base-cut", read), estimates("base-cut", kvue))


# -- what comes out --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [*METHODS, "bayes"])
def test_changed_values_are_flagged_and_raw_ones_stay(method: str, oue: tuple[Mechanism, Estimates]) -> None:
    mechanism, raw = oue
    processed = estimates(method, raw, mechanism=mechanism)
    assert processed.raw is raw and processed.method == method
    moved = processed.frequency.values != raw.frequency.values
    flags = np.array([processed.frequency[key].flag for key in SCHEMA.keys])
    if method in ("base", "norm"):
        assert (flags == "ok").all()
    else:
        assert moved.any() and set(flags[moved]) <= {"clipped", "shrunk"} and (flags[~moved] == "ok").all()
        assert (flags[processed.frequency.values == 0] == "clipped").all()
        assert processed.frequency.values.min() >= 0 and processed.frequency.values.max() <= 1
    assert method in repr(processed) and len(processed.to_frame()) == D


@pytest.mark.parametrize("method", METHODS)
def test_no_interval_is_false(method: str, oue: tuple[Mechanism, Estimates]) -> None:
    """Base and Norm have their own; all others keep that of the unbiased estimate, and no standard error."""
    mechanism, raw = oue
    before, after = raw.frequency, estimates(method, raw, mechanism=mechanism).frequency
    assert (after.low <= after.values).all() and (after.values <= after.high).all()
    if method in ("base", "norm"):
        assert after.se == pytest.approx(before.se) and after.high - after.low == pytest.approx(
            before.high - before.low
        )
        assert after.values - after.low == pytest.approx(before.values - before.low)
    else:
        assert (after.low <= before.low).all() and (after.high >= before.high).all()
        assert np.isnan(after.se[after.flag > 0]).all()


def test_processing_starts_from_the_unbiased_values(kvue: Estimates) -> None:
    twice = estimates("base-cut", estimates("norm-sub", kvue))
    assert twice.raw is kvue
    assert twice.frequency.values == pytest.approx(estimates("base-cut", kvue).frequency.values)


def test_keys_that_nobody_spoke_about_stay_unknown(kvue: Estimates) -> None:
    few = kv.mechanism("kvue", SCHEMA, 1)
    report = few.perturb({"1": 0.5}, kv.Coins())
    for method in ("base", "base-pos", "norm-sub", "base-cut", "power"):
        processed = estimates(method, few.estimate(few.tally([report])))
        unknown = np.isnan(processed.frequency.values)
        assert np.count_nonzero(unknown) == D - 1
        assert {processed.flag[at] for at in np.flatnonzero(unknown)} == {"insufficient"}


# -- what is known of the sum ----------------------------------------------------------------------------------------


def test_a_key_drawn_from_the_domain_tells_nothing_of_the_sum(kvue: Estimates) -> None:
    projected = estimates("norm-sub", kvue)
    assert projected.frequency.values == pytest.approx(np.clip(kvue.frequency.values, 0, 1))
    for method in ("norm", "norm-mul", "mle-apx", "mle"):
        with pytest.raises(MechanismError) as refused:
            estimates(method, kvue, mechanism=kv.mechanism("kvue", SCHEMA, 1))
        assert refused.value.code == "postprocess/no-sum"
    assert estimates("norm", kvue, total=3.6).frequency.values.sum() == pytest.approx(3.6)


def test_everybody_holds_one_key_of_a_categorical_mechanism(oue: tuple[Mechanism, Estimates]) -> None:
    for method in ("norm", "norm-mul", "norm-sub", "mle-apx", "mle", "gauss-ns", "power-ns"):
        told = estimates(method, oue[1], mechanism=oue[0])
        assert told.frequency.values.sum() == pytest.approx(1)
        np.testing.assert_array_equal(told.frequency.values, estimates(method, oue[1]).frequency.values)


@pytest.mark.parametrize("name", ["wsr", "pckv-grr"])
def test_erratum_D4_one_symbol_tells_the_mean_set_size(name: str) -> None:  # noqa: N802
    mechanism, raw, tally = _estimates(name, max_pairs=8)
    processed = estimates("norm-sub", raw, mechanism=mechanism)
    if name == "wsr":
        assert processed.constraint.total == pytest.approx(mechanism.weight_held(tally))  # type: ignore[attr-defined]
    assert processed.frequency.values.sum() == pytest.approx(processed.constraint.total)
    assert processed.constraint.total == pytest.approx(FREQUENCIES.sum(), rel=0.15)


@pytest.mark.parametrize(("told", "believed"), [(3.2, 2.0), (2.0, 2.0), (1.2, 1.2), (-0.4, 0.0)])
@pytest.mark.parametrize("name", ["wsr", "pckv-grr"])
def test_nobody_counts_more_pairs_than_the_cap_or_fewer_than_none(name: str, told: float, believed: float) -> None:
    """Noise can make the sum that one symbol tells larger than ``max_pairs``, or negative."""
    mechanism, raw, _ = _estimates(name, 2000, max_pairs=2)
    moved = replace(raw.frequency, values=raw.frequency.values + (told - raw.frequency.values.sum()) / D)
    processed = estimates("norm-sub", replace(raw, frequency=moved), mechanism=mechanism)
    assert processed.constraint.total == pytest.approx(believed)
    assert processed.frequency.values.sum() == pytest.approx(believed, abs=1e-9)


def test_erratum_D4_the_sum_one_would_shrink_everything() -> None:  # noqa: N802
    mechanism, raw, _ = _estimates("wsr", 100_000, max_pairs=10)
    errors = {
        total: np.mean((estimates("norm-sub", raw, total, mechanism=mechanism).frequency.values - FREQUENCIES) ** 2)
        for total in (1.0, None)
    }
    assert errors[1.0] > 5 * errors[None]


def test_subsets_sum_to_no_more_than_the_cap() -> None:
    mechanism, raw, _ = _estimates("ssr", 2000, max_pairs=2)
    capped, known = estimates("norm-sub", raw, mechanism=mechanism), estimates("norm-sub", raw)
    nameless = raw.under(replace(raw.header, mechanism="somebody-elses"))
    free = estimates("norm-sub", nameless)
    assert np.clip(raw.frequency.values, 0, 1).sum() > 2  # noise makes too much of it
    assert capped.frequency.values.sum() == pytest.approx(2)
    assert known.frequency.values == pytest.approx(capped.frequency.values), "the header has the options"
    assert free.frequency.values == pytest.approx(np.clip(raw.frequency.values, 0, 1))
    assert estimates("norm-sub", raw, 1.5, mechanism=mechanism).frequency.values.sum() == pytest.approx(1.5)


def test_topsel_knows_its_law_of_sizes() -> None:
    mechanism, raw, _ = _estimates("topsel", sizes="3")
    assert estimates("norm-sub", raw, mechanism=mechanism).constraint.total == pytest.approx(3)
    direct, raw, _ = _estimates("topsel", mode="direct")
    assert estimates("norm-sub", raw, mechanism=direct).constraint.total is None


def test_clear_refusals(kvue: Estimates, oue: tuple[Mechanism, Estimates]) -> None:
    ssr, subsets, _ = _estimates("ssr", 2000, max_pairs=2)
    larger = create("ssr", ssr.schema, ssr.epsilon, max_pairs=3)
    numeric = kv.mechanism("duchi", kv.Schema(keys=1), 1)
    nothing = numeric.estimate(numeric.tally([numeric.perturb({"0": 0.5}, kv.Coins())]))
    for method, what, options, code in (
        ("best", kvue, {}, "postprocess/unknown"),
        ("mle-apx", oue[1].under(replace(oue[1].header, mechanism="privkvm")), {"total": 1.0}, "postprocess/constants"),
        ("mle-apx", subsets, {"mechanism": ssr, "total": 1.5}, "postprocess/constants"),
        ("norm-sub", subsets, {"mechanism": larger}, "postprocess/mechanism"),
        ("norm", kvue, {"total": D + 1}, "postprocess/total"),
        ("norm", kvue, {"mechanism": oue[0]}, "postprocess/mechanism"),
        ("base-pos", kvue, {"means": "best"}, "postprocess/means"),
        ("base-pos", nothing, {}, "estimate/no-frequency"),
    ):
        with pytest.raises(MechanismError) as refused:
            estimates(method, what, **options)
        assert refused.value.code == code, (method, options)


# -- means -----------------------------------------------------------------------------------------------------------


def test_means_are_cut_or_shrunk_by_their_noise(kvue: Estimates) -> None:
    raw = kvue.mean
    cut, shrunk = estimates("base-pos", kvue).mean, estimates("base", kvue, means="shrink").mean
    assert np.nanmax(np.abs(cut.values)) <= 1 and np.abs(shrunk.values).max() <= 1
    known = raw.flag == 0
    assert np.mean((shrunk.values - MEANS) ** 2) < 0.5 * np.mean((np.nan_to_num(cut.values) - MEANS) ** 2)
    assert (shrunk.low <= shrunk.values).all() and (shrunk.values <= shrunk.high).all()
    assert {shrunk[key].flag for key in SCHEMA.keys} <= {"shrunk", "wide", "insufficient"} and known.any()


def test_shrinkage_is_as_strong_as_the_noise() -> None:
    """Equal noise of variance 0.01 around means of variance τ²: by moments τ² = S² - 0.01, and w = 0.01/S²."""
    schema, values = kv.Schema(keys=5), np.array([-0.4, -0.2, 0.0, 0.2, 0.4])
    column = Column(schema, values, np.full(5, 0.1), values - 0.2, values + 0.2, scaled=True)
    weight = 0.01 / np.var(values, ddof=1)
    assert shrunk_means(column).values == pytest.approx((1 - weight) * values)
    sharp = Column(schema, values, np.full(5, 1e-6), values - 0.2, values + 0.2, scaled=True)
    assert shrunk_means(sharp).values == pytest.approx(values)
    noisy = Column(schema, values, np.full(5, 10.0), values - 20, values + 20, scaled=True)
    assert shrunk_means(noisy).values == pytest.approx(np.zeros(5))
