"""The vector methods of docs/consistency.md, and the errata about them (docs/errata.md)."""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from keyveil.core.errors import MechanismError
from keyveil.core.schema import Schema
from keyveil.learn.consistency import (
    base_cut,
    base_pos,
    cut_threshold,
    mle_apx,
    norm,
    norm_cut,
    norm_mul,
    norm_sub,
    norm_sub_at_most,
)
from keyveil.learn.postprocess import METHODS, apply
from keyveil.mechanisms.registry import create

vectors = st.lists(st.floats(-2, 2), min_size=1, max_size=6)
EXAMPLE = [-0.1, 0.05, 0.5, 0.8]


@given(vectors, st.floats(0.1, 3))
def test_norm_sub_is_the_nearest_possible_vector(raw: list[float], total: float) -> None:
    projected = norm_sub(raw, total)
    assert (projected >= 0).all()
    assert projected.sum() == pytest.approx(total)
    assert np.sum((projected - raw) ** 2) <= _nearest(raw, total, None) + 1e-5


@given(vectors, st.floats(0, 1))
def test_norm_sub_in_a_box_is_the_nearest_possible_vector(raw: list[float], share: float) -> None:
    total = share * len(raw)
    projected = norm_sub(raw, total, upper=1.0)
    assert (projected >= 0).all() and (projected <= 1).all()
    assert projected.sum() == pytest.approx(total, abs=1e-9)
    assert np.sum((projected - raw) ** 2) <= _nearest(raw, total, 1.0) + 1e-5


def _nearest(raw: list[float], total: float, upper: float | None) -> float:
    """The least squared distance that a general optimiser finds."""

    def distance(x: np.ndarray) -> float:
        return float(np.sum((x - raw) ** 2))

    found = optimize.minimize(
        distance,
        np.full(len(raw), total / len(raw)),
        bounds=[(0, upper)] * len(raw),
        constraints=optimize.LinearConstraint(np.ones((1, len(raw))), total, total),
    )
    return float(found.fun)


def test_vector_of_norm_sub() -> None:
    assert norm_sub(EXAMPLE) == pytest.approx([0, 0, 0.35, 0.65])


def test_an_upper_limit_of_the_sum_moves_nothing_that_obeys_it() -> None:
    assert norm_sub_at_most(EXAMPLE, most=2) == pytest.approx([0, 0.05, 0.5, 0.8])
    assert norm_sub_at_most(EXAMPLE, most=1) == pytest.approx([0, 0, 0.35, 0.65])
    assert norm_sub_at_most([1.4, 0.3, -1], most=2, upper=1.0) == pytest.approx([1, 0.3, 0])


def test_the_simple_methods_by_hand() -> None:
    assert base_pos(EXAMPLE) == pytest.approx([0, 0.05, 0.5, 0.8])
    assert norm(EXAMPLE) == pytest.approx([-0.1625, -0.0125, 0.4375, 0.7375])
    assert norm_mul(EXAMPLE) == pytest.approx(np.array([0, 0.05, 0.5, 0.8]) / 1.35)
    assert norm_mul([-1.0, -2.0], total=3) == pytest.approx([1.5, 1.5])
    assert base_cut([0.01] * 20 + [0.1], sigma=0.03) == pytest.approx([0] * 20 + [0.1])  # the threshold is 1.31 σ


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=30), st.floats(0.2, 2))
def test_order_is_kept_and_sums_are_right(raw: list[float], total: float) -> None:
    """Order is kept weakly only: cuts make ties (C9)."""
    order = np.argsort(raw, kind="stable")
    for method in METHODS:
        answer = apply(method, raw, p=0.5, q=0.25, n=1000, total=total)
        if method != "norm-cut":  # which cuts among equals
            assert (np.diff(answer[order]) >= -1e-9).all(), method
        if method in ("norm", "norm-mul", "norm-sub", "mle-apx", "mle", "gauss-ns", "power-ns"):
            assert answer.sum() == pytest.approx(total), method
        if method not in ("base", "norm"):
            assert answer.min() >= 0, method


# -- errata ----------------------------------------------------------------------------------------------------------


def _mle_in_rationals(raw: list[Fraction], p: Fraction, q: Fraction, total: Fraction) -> list[Fraction]:
    active = list(range(len(raw)))
    while True:
        mine = [raw[v] for v in active]
        x = (p - q) * (total - sum(mine)) / (total * (p - q) * (1 - p - q) + len(mine) * q * (1 - q))
        likely = [(q * (1 - q) * x + f * (p - q)) / ((p - q) * (1 - (1 - p - q) * x)) for f in mine]
        if min(likely) >= 0:
            found = dict(zip(active, likely, strict=True))
            return [found.get(v, Fraction(0)) for v in range(len(raw))]
        active = [v for v, f in zip(active, likely, strict=True) if f >= 0]


@pytest.mark.parametrize("total", [Fraction(1), Fraction(5, 2)])
def test_erratum_C3_mle_apx_has_exactly_the_right_sum(total: Fraction) -> None:  # noqa: N802
    raw = [Fraction(k, 40) for k in (-4, 2, 20, 32, 7, -1)]
    p, q = Fraction(1, 2), Fraction(27, 100)
    exact = _mle_in_rationals(raw, p, q, total)
    assert sum(exact) == total
    floats = mle_apx([float(f) for f in raw], float(p), float(q), float(total))
    assert floats == pytest.approx([float(f) for f in exact], abs=1e-12)


def test_erratum_C3_the_printed_x_has_the_wrong_sum() -> None:  # noqa: N802
    raw, p, q = [Fraction(k, 10) for k in (1, 3, 5)], Fraction(3, 5), Fraction(1, 10)
    printed = (p - q) * (sum(raw) - 1) / ((p - q) * (1 - p - q) - len(raw) * q * (1 - q))
    answers = [(q * (1 - q) * printed + f * (p - q)) / ((p - q) * (1 - (1 - p - q) * printed)) for f in raw]
    assert sum(answers) != 1 and abs(float(sum(answers)) - 1) > 0.1
    assert sum(_mle_in_rationals(raw, p, q, Fraction(1))) == 1


def test_mle_apx_is_nearly_norm_sub_when_noise_hardly_depends_on_the_frequency() -> None:
    raw = np.random.default_rng(1).normal(0.01, 0.02, 100)
    assert mle_apx(raw, 0.5, 0.27) == pytest.approx(norm_sub(raw), abs=0.003)


def test_erratum_C5_norm_does_nothing_for_grr_and_ss_but_something_for_hr() -> None:  # noqa: N802
    sums = {}
    for name, options in (("grr", {}), ("ss", {"size": 2}), ("hr", {})):
        mechanism = create(name, Schema(keys=4), 1, **options)
        sums[name] = _sums_of_single_reports(mechanism)
    assert sums["grr"] == pytest.approx([1] * len(sums["grr"]))
    assert sums["ss"] == pytest.approx([1] * len(sums["ss"]))
    assert min(sums["hr"]) == pytest.approx(-4.33, abs=0.01) and max(sums["hr"]) == pytest.approx(8.66, abs=0.01)


def _sums_of_single_reports(mechanism) -> list[float]:  # type: ignore[no-untyped-def]
    from keyveil.core.tally import Tally

    outputs = {"grr": 4, "ss": 6, "hr": 8}[mechanism.name]
    subsets = [(a, b) for a in range(4) for b in range(a)]
    sums = []
    for output in range(outputs):
        payload = np.array([subsets[output]] if mechanism.name == "ss" else [output])
        counts = mechanism.fold(payload, np.zeros(1, dtype=np.uint64))
        sums.append(float(mechanism.estimate(Tally(mechanism.fingerprint, 1, counts)).frequency.values.sum()))
    return sums


def test_erratum_C6_norm_cut_keeps_the_longest_prefix_that_fits() -> None:  # noqa: N802
    """The printed threshold, the smallest θ with Σ_{f>θ} ≤ 1, would keep f ≥ θ: 0.6 and 0.5, which is too much."""
    assert norm_cut([0.3, 0.6, 0.5]) == pytest.approx([0, 0.6, 0])
    assert norm_cut([0.6, 0.4, 0.3]) == pytest.approx([0.6, 0.4, 0])
    assert norm_cut([1.2, 0.1, -0.1]) == pytest.approx([0, 0, 0])  # the largest alone exceeds the sum
    assert norm_cut([0.2, 0.1, -0.1]) == pytest.approx([0.2, 0.1, 0])


def test_erratum_C8_base_cut_never_has_a_negative_threshold() -> None:  # noqa: N802
    assert [cut_threshold(d) for d in (1, 2, 3, 4)] == [0, 0, 0, 0]
    assert cut_threshold(5) == pytest.approx(0.2533, abs=1e-4)
    assert base_cut([-0.1, 0.2, 0.9], sigma=0.5) == pytest.approx([0, 0.2, 0.9])


def test_erratum_D5_one_pass_over_the_positive_values_is_not_enough() -> None:  # noqa: N802
    raw = np.array(EXAMPLE)
    once = np.where(raw >= 0, raw + (1 - raw[raw >= 0].sum()) / 3, 0)
    assert once.min() == pytest.approx(-0.0667, abs=1e-4)
    assert norm_sub(raw).min() == 0 and norm_sub(raw).sum() == pytest.approx(1)


def test_erratum_D7_a_projection_takes_from_the_top_and_gives_to_the_tail() -> None:  # noqa: N802
    """Biases of a projection on a sum cannot all be positive: they sum to zero."""
    rng, truth = np.random.default_rng(7), np.array([0.4, 0.3, 0.2] + [0.1 / 37] * 37)
    draws = truth + rng.normal(0, 0.02, (2000, 40))
    bias = np.mean([norm_sub(draw) for draw in draws], axis=0) - truth
    assert bias.sum() == pytest.approx(0, abs=1e-12)
    assert (bias[:3] < -0.01).all() and bias[3:].mean() > 0.0008  # seven standard errors away, or more


# -- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_quarter_of_a_million_keys_take_less_than_a_second(method: str) -> None:
    rng = np.random.default_rng(3)
    raw = rng.normal(0, 0.002, 250_000)
    raw[:1000] += 0.3 * np.arange(1, 1001) ** -1.5
    for sigma in (0.002, 0.002 * np.exp(rng.normal(0, 0.1, len(raw)))):
        started = time.process_time()
        apply(method, raw, p=0.5, q=0.27, n=10**6, sigma=sigma, upper=1.0)
        assert time.process_time() - started < 1


def test_clear_refusals() -> None:
    for method, options, code in (
        ("norm-mull", {}, "postprocess/unknown"),
        ("mle-apx", {"p": 0.5}, "postprocess/constants"),
        ("mle-apx", {"p": 0.2, "q": 0.5}, "postprocess/constants"),
        ("power", {"sigma": 0.1}, "postprocess/constants"),
        ("base-cut", {}, "postprocess/constants"),
        ("base-cut", {"sigma": 0.0}, "postprocess/constants"),
        ("base-cut", {"sigma": [0.1, 0.1, 0.1]}, "postprocess/constants"),
        ("norm-sub", {"total": -1}, "postprocess/total"),
        ("norm-sub", {"total": 3, "upper": 1.0}, "postprocess/total"),
    ):
        with pytest.raises(MechanismError) as refused:
            apply(method, [0.5, 0.4], **options)
        assert refused.value.code == code, (method, options)
    for vector in ([], [[0.1]], [0.1, float("nan")]):
        with pytest.raises(MechanismError, match="vector"):
            apply("norm-sub", vector)


def test_base_cut_lets_as_many_absent_keys_pass_as_asked_or_keeps_the_largest() -> None:
    vector = [0.5, 0.2, -0.1, 0.2, 0.01]
    assert cut_threshold(1000, 0.05) > cut_threshold(1000) > cut_threshold(1000, 20)
    assert base_cut(vector, None, keep=1) == pytest.approx([0.5, 0, 0, 0, 0])
    assert base_cut(vector, None, keep=5) == pytest.approx([0.5, 0.2, 0, 0.2, 0.01])
    assert apply("base-cut", vector, keep=3) == pytest.approx([0.5, 0.2, 0, 0.2, 0])
    for bad, code in (({"keep": 0}, "postprocess/keep"), ({"sigma": 0.1, "alpha": 0.0}, "postprocess/alpha")):
        with pytest.raises(MechanismError) as refused:
            apply("base-cut", vector, **bad)
        assert refused.value.code == code


@pytest.mark.parametrize(
    ("total", "upper", "sentence"),
    [(3, 1.0, "No 2 frequencies up to 1 each have the sum 3."), (-1, None, "No 2 frequencies have the sum -1.")],
)
def test_a_sum_that_cannot_be_is_refused_with_its_limit(total: float, upper: float | None, sentence: str) -> None:
    with pytest.raises(MechanismError) as refused:
        norm_sub([0.5, 0.4], total, upper)
    assert refused.value.sentence == sentence
