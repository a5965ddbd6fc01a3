"""Sums and comparisons of keys from reports about keys together: errors are what they are said to be."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import keyveil as kv
from keyveil.core.errors import KeyveilError
from keyveil.core.estimates import Estimates
from keyveil.core.records import Records
from keyveil.core.schema import GRID
from keyveil.core.tally import Tally
from keyveil.lab.aggregate import aggregate
from keyveil.lab.coins import SeededCoins
from keyveil.learn.comparisons import compare_keys, subset_sum
from keyveil.learn.dependence import EstimatedLinks, links
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.joint.statistics import JointAnswers
from tests.sweeps import sampled

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

D, N, RUNS, CLAIMS = 3, 1500, 250, 25
SCHEMA = kv.Schema(keys=D)
KEYS = ["0", "1", "2"]
KINDS = np.array([0.4, 0.4, 0.2])  # of people: two that hold nearly every key, with opposite values, one nearly none
HOLDING = np.array([[0.97, 0.95, 0.96], [0.95, 0.97, 0.94], [0.05, 0.03, 0.04]])
VALUES = np.array([[0.9, 0.95, 0.9], [-0.95, -0.9, -0.9], [0.0, 0.0, 0.0]])
OFF = 0.27  # of a standard deviation over 250 runs: 5.8 standard errors, so that 30 of them fail once in 10^7 times


def crowd(rng: np.random.Generator, n: int = N) -> tuple[Bools, Floats]:
    kind = rng.choice(3, n, p=KINDS)
    return rng.random((n, D)) < HOLDING[kind], VALUES[kind]


def records_of(held: Bools, values: Floats) -> Records:
    offsets = np.concatenate(([0], np.cumsum(held.sum(axis=1)))).astype(np.int64)
    keys = np.nonzero(held)[1].astype(np.int32)
    return Records(offsets, keys, np.rint(values[held] * GRID).astype(np.int32), D)


def quantities(frequency: Floats, mean: Floats) -> Floats:
    """A sum over all keys, a difference of two frequencies and one of two means."""
    return np.array([frequency.sum(), frequency[0] - frequency[1], mean[0] - mean[1]])


def claimed(estimates: Estimates, tally: Tally) -> Floats:
    """Their standard errors."""
    answers = [
        subset_sum(estimates, KEYS, tally=tally),
        compare_keys(estimates, "0", "1", tally=tally).difference,
    ]
    if not estimates.mean.absent:
        answers.append(compare_keys(estimates, "0", "1", "mean", tally=tally).difference)
    return np.array([one.se for one in answers])


def independent(estimates: Estimates) -> Floats:
    """What somebody would claim who forgets the covariance."""
    f, m = estimates.frequency.se, estimates.mean.se
    return np.array([math.hypot(*f), math.hypot(*f[:2]), math.hypot(*m[:2])])


def of_the_other_target(mechanism: Any, estimates: Estimates, tally: Tally) -> Floats:
    """And who takes people for a sample who are none, or the other way round."""
    mistaken = estimates.under(replace(estimates.header, population=not estimates.population))
    told, both = EstimatedLinks(mistaken, mechanism, tally), np.arange(2)
    variances = [told.variance(np.arange(D), np.ones(D)), told.variance(both, np.array([1.0, -1.0]))]
    return np.sqrt(variances)


def believable(spread: Floats, claims: list[Floats]) -> bool:
    """Whether quantities that vary so much could have these standard errors."""
    claim = np.sqrt(np.mean(np.square(claims), axis=0))[: len(spread)]
    return bool(((1 - OFF) * claim < spread).all() and (spread < (1 + OFF) * claim).all())


FORMS: list[tuple[str, dict[str, Any]]] = [
    ("moments", {}),
    ("moments", {"values": False, "law": "60,1"}),
    ("marginals", {"oracle": "grr"}),
    ("marginals", {"oracle": "oue"}),
    ("ioh", {"oracle": "oue"}),
    ("block", {"width": 2, "states": 4}),
]


@pytest.mark.parametrize(("name", "options", "population"), sampled(FORMS, [False, True]))
def test_errors_are_as_large_as_they_say(name: str, options: dict[str, Any], population: bool) -> None:
    """And a claim without the covariance, or with that of another target, would be found out."""
    mechanism, rng = kv.mechanism(name, SCHEMA, 6, **options), np.random.default_rng(7)
    held, values = crowd(rng)
    f = KINDS @ HOLDING
    truth = quantities(f, KINDS @ (HOLDING * VALUES) / f)
    errors, claims, forgetful, mistaken = [], [], [], []
    for run in range(RUNS):
        if population:
            held, values = crowd(rng)
        else:
            truth = quantities(held.mean(axis=0), (held * values).sum(axis=0) / held.sum(axis=0))
        tally = aggregate(mechanism, records_of(held, values), SeededCoins(run))
        estimates = mechanism.estimate(tally, population=population)
        errors.append(quantities(estimates.frequency.values, estimates.mean.values) - truth)
        if run < CLAIMS:
            claims.append(claimed(estimates, tally))
            forgetful.append(independent(estimates))
            mistaken.append(of_the_other_target(mechanism, estimates, tally))
    spread = np.std(errors, axis=0)[: len(claims[0])]
    assert believable(spread, claims)
    if options:  # without them, most reports of moments are about pairs, and errors are larger than covariances
        assert not (believable(spread[:2], forgetful) and believable(spread[:2], mistaken))


def test_a_difference_of_means_owes_much_to_what_is_common() -> None:
    """The values of two keys go together, so their difference is known better than independent errors would allow."""
    mechanism = kv.mechanism("ioh", SCHEMA, 6)
    tally = aggregate(mechanism, records_of(*crowd(np.random.default_rng(1))), SeededCoins(1))
    estimates = mechanism.estimate(tally, population=True)
    assert claimed(estimates, tally)[2] < 0.6 * independent(estimates)[2]


def test_means_are_ratios_and_err_like_ratios() -> None:
    """The covariance of u_0/f_0 and u_1/f_1 to first order, against slopes that are found by small steps."""
    root = np.random.default_rng(2).normal(0, 0.01, (5, 5))
    covariance = root @ root.T  # of f_0, f_1, f_01, u_0 and u_1

    class Known:
        def answer_jointly(self, tally: Tally, keys: Any, statistics: Any, population: bool = False) -> JointAnswers:
            assert population and keys.tolist() == [[0, 1]]
            return JointAnswers(np.zeros((1, 5)), covariance[None], np.array([1]))

    _, tally, estimates = collected("moments")
    f, m = np.array([0.6, 0.4, 0.1, 0.1]), np.array([0.7, -0.3, 0.0, 0.0])
    given = replace(estimates, frequency=replace(estimates.frequency, values=f), mean=replace(estimates.mean, values=m))

    def mean(numbers: Floats, key: int) -> float:
        return float(numbers[3 + key] / numbers[key])

    at, step = np.array([f[0], f[1], 0.3, f[0] * m[0], f[1] * m[1]]), 1e-6
    slopes = np.array(
        [[(mean(at + move, key) - mean(at - move, key)) / (2 * step) for move in step * np.eye(5)] for key in (0, 1)]
    )
    expected = float(slopes[0] @ covariance @ slopes[1])
    assert EstimatedLinks(given, Known(), tally).of_means(0, 1) == pytest.approx(expected, rel=1e-6)


# -- what reports do not tell ------------------------------------------------------------------------------------------


def collected(name: str, n: int = N, epsilon: float = 6, **options: Any) -> tuple[Mechanism, Tally, Estimates]:
    mechanism = kv.mechanism(name, kv.Schema(keys=4), epsilon, **options)
    rng = np.random.default_rng(3)
    held = np.repeat(rng.random((n, 1)) < 0.5, 4, axis=1)
    offsets = np.concatenate(([0], np.cumsum(held.sum(axis=1)))).astype(np.int64)
    keys = np.nonzero(held)[1].astype(np.int32)
    records = Records(offsets, keys, np.zeros(len(keys), dtype=np.int32), 4)
    tally = mechanism.tally(mechanism.perturb_many(records, SeededCoins(4)))
    return mechanism, tally, mechanism.estimate(tally)


def test_keys_that_no_report_is_about_together_are_bounded() -> None:
    """Of two members, 0 and 1 are in one and 2 and 3 in the other: 0 and 2 are never told of together.

    Everybody holds both or neither, which nobody can know; so a sum takes them as seldom held together as the
    frequencies allow, and a difference as often.
    """
    mechanism, tally, estimates = collected("marginals", members=2)
    known = links(estimates, tally=tally)
    f, se = estimates.frequency.values, estimates.frequency.se
    pair, alone = np.array([0, 2]), se[0] ** 2 + se[2] ** 2
    least, most, free = max(f[0] + f[2] - 1, 0.0), min(f[0], f[2]), f[0] * f[2]
    assert known.variance(pair, np.ones(2)) == pytest.approx(alone - 2 * (least - free) / N)
    assert known.variance(pair, np.array([1.0, -1.0])) == pytest.approx(alone + 2 * (most - free) / N)
    assert subset_sum(estimates, ["0", "1", "2", "3"], tally=tally).flag == "ok"
    sample = mechanism.estimate(tally, population=True)
    alone = sample.frequency.se[0] ** 2 + sample.frequency.se[2] ** 2
    assert links(sample, tally=tally).variance(pair, np.ones(2)) == pytest.approx(alone)
    assert links(estimates, tally=tally).of_means(0, 2) == 0


def test_many_pairs_are_asked_for_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("moments", "marginals", "ioh"):
        _, tally, estimates = collected(name)
        whole = subset_sum(estimates, KEYS, tally=tally)
        monkeypatch.setattr("keyveil.learn.dependence.BLOCK", 2)
        assert subset_sum(estimates, KEYS, tally=tally).se == pytest.approx(whole.se)
        monkeypatch.undo()


def test_few_reports_are_no_reason_to_fail() -> None:
    for name in ("moments", "marginals", "ioh"):
        for n in (1, 5, 20):
            _, tally, estimates = collected(name, n, epsilon=1)
            for of in ("frequency", "mean"):
                answer = compare_keys(estimates, "0", "1", of, tally=tally).difference
                assert answer.flag == "insufficient" or answer.se >= 0
            assert subset_sum(estimates, KEYS, tally=tally).flag in ("ok", "wide", "insufficient")


def test_clear_refusals() -> None:
    mechanism, _, estimates = collected("moments")
    _, other, _ = collected("moments", n=100)
    _, foreign, _ = collected("moments", epsilon=5)
    _, single, of_single = collected("moments", order=1)
    for ask, code in (
        (lambda: subset_sum(estimates, KEYS), "question/tally"),
        (lambda: compare_keys(estimates, "0", "1", mechanism=mechanism), "question/tally"),
        (lambda: subset_sum(estimates, KEYS, tally=other), "question/tally"),
        (lambda: subset_sum(estimates, KEYS, tally=foreign), "tally/foreign"),
        (lambda: subset_sum(of_single, KEYS, tally=single), "question/order"),
    ):
        with pytest.raises(KeyveilError) as refused:
            ask()
        assert refused.value.code == code and refused.value.sentence.endswith(".")
