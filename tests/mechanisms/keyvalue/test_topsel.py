from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from keyveil.core.errors import MechanismError
from keyveil.core.records import Records
from keyveil.core.schema import GRID
from keyveil.core.tally import Tally
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.keyvalue.cover import SizeLaw
from keyveil.privacy.enumerate import law
from tests.mechanisms.keyvalue.sets import make, same_size, scores, variances

# d, size, ε, buckets, marked, p1, p3, n·Var f, n·Var f·m at frequency size/d and mean 0
TABLE = [
    (1024, 1, "4", 54, 1, 0.507426, 0.018280, 0.1509, 0.1520),
    (20000, 5, "1", 25, 5, 0.080922, 0.039995, 45.85, 45.85),
    (20000, 5, "2", 49, 5, 0.091285, 0.020399, 7.957, 7.957),
    (20000, 5, "4", 308, 5, 0.094790, 0.003235, 0.7719, 0.7722),
    (1000, 20, "0.5", 67, 18, 0.020840, 0.014866, 823.7, 824.4),
    (1000, 20, "1", 85, 18, 0.023096, 0.011653, 177.5, 177.7),
    (1000, 20, "2", 192, 20, 0.023107, 0.005037, 31.77, 31.81),
    (1000, 20, "4", 1114, 20, 0.024977, 0.000680, 3.102, 3.124),
    (100, 10, "0.5", 31, 9, 0.044329, 0.031675, 388.8, 392.1),
    (100, 10, "1", 42, 9, 0.046142, 0.022693, 84.32, 85.06),
    (100, 10, "2", 107, 10, 0.043239, 0.007684, 14.68, 14.89),
    (100, 10, "4", 200, 10, 0.074184, 0.001359, 1.777, 1.886),
]


def test_a_marked_bucket_of_four() -> None:
    channel = make("topsel", 100, sizes=1, buckets=4, marked=1).channel
    assert channel.total / channel.low == pytest.approx(5.718282, abs=1e-6)
    assert float(channel.hit) == pytest.approx(0.475367, abs=1e-6)
    assert float(channel.miss) == pytest.approx(0.174878, abs=1e-6)


@pytest.mark.parametrize("row", TABLE)
def test_supports_and_variances(row: Any) -> None:
    d, size, epsilon, buckets, marked, own, other, frequency, product = row
    mechanism = make("topsel", d, epsilon, sizes=size, buckets=buckets, marked=marked)
    assert mechanism.cover.supports() == pytest.approx((own, other), abs=6e-7)
    assert variances(mechanism, size / d) == pytest.approx((frequency, product), rel=7e-4)


@pytest.mark.parametrize("row", TABLE)
def test_chosen_sizes_are_no_worse(row: Any) -> None:
    d, size, epsilon, *_, frequency, product = row
    chosen = variances(make("topsel", d, epsilon, sizes=size), size / d)
    assert chosen[0] ** 0.4 * chosen[1] ** 0.6 <= 1.001 * frequency**0.4 * product**0.6


@pytest.mark.parametrize(("d", "size", "buckets", "symbols"), [(20000, 5, 25, 40000), (1000, 20, 192, 2112)])
def test_all_buckets_are_of_one_size(d: int, size: int, buckets: int, symbols: int) -> None:
    assert make("topsel", d, sizes=size, buckets=buckets).partition.symbols == symbols


@pytest.mark.parametrize("pairs", [[], [(0, GRID)], [(0, GRID), (1, -GRID), (2, GRID)]])
@pytest.mark.parametrize("marked", [1, 2, 3])
def test_answers_have_two_probabilities_for_a_given_marking(pairs: Any, marked: int) -> None:
    """With one symbol to a bucket: who hits as many as are marked tells them with e^ε, all others with 1."""
    mechanism = make("topsel", 3, sizes=1, buckets=6, marked=marked)
    answers = law(partial(mechanism.respond, pairs, 0))
    assert sum(answers.values()) == 1
    if len(pairs) == marked:
        hit, miss = mechanism.channel.hit, mechanism.channel.miss
        assert answers == {bucket: hit if bucket in (1, 2, 5)[:marked] else miss for bucket in range(6)}


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2", "4"])
@pytest.mark.parametrize(("buckets", "marked"), [(2, 1), (3, 1), (3, 2), (5, 2), (5, 4)])
def test_epsilon_is_exact_for_three_keys(buckets: int, marked: int, epsilon: str) -> None:
    mechanism = make("topsel", 3, epsilon, sizes=1, buckets=buckets, marked=marked, cohorts=6).reduced()
    certificate = mechanism.certificate()
    assert certificate.certified and certificate.exact_epsilon > Fraction(epsilon) - Fraction(1, 10**6)


@pytest.mark.parametrize(
    "options", [{"sizes": 4}, {"sizes": 4, "cohorts": 0}, {"padding": 5}, {"sizes": 4, "buckets": 60, "marked": 4}]
)
def test_sets_of_one_size_are_decoded_without_bias(options: Any) -> None:
    """30 keys × 60 repeats with real partitions: 20 % of the variance is six standard errors."""
    mechanism = make("topsel", 30, "2", **{"cohorts": 4096, **options})
    of_f, of_u = scores(mechanism, same_size(5000, 30, 4, seed=2), repeats=60, seed=5)
    for z in (of_f, of_u):
        assert abs(z.mean(axis=0) * np.sqrt(60)).max() < 6
        assert (z**2).mean() == pytest.approx(1, abs=0.2)


def test_shared_seeds_are_in_the_standard_error() -> None:
    """Eight cohorts and a key that everybody holds: who shares its bucket in one of them is off in every repeat."""
    few, many = (make("topsel", 60, "2", sizes=4, buckets=12, marked=4, cohorts=k) for k in (8, 4096))
    people, n = same_size(20_000, 59, 3, seed=3), 20_000
    keys = np.column_stack((np.zeros(n, np.int32), people.keys.reshape(n, 3) + 1)).astype(np.int32).reshape(-1)
    values = np.where(np.random.default_rng(4).random(4 * n) < 0.5, GRID, -GRID).astype(np.int32)
    people = Records(np.arange(n + 1, dtype=np.int64) * 4, keys, values, 60)
    stated = [m.estimate(m.tally(m.perturb_many(people, SeededCoins(6)))).frequency.se.mean() for m in (few, many)]
    assert stated[0] > 2 * stated[1]
    of_f, _ = scores(few, people, repeats=5, seed=7)
    assert 0.2 < (of_f**2).mean() < 2  # 60 keys of one draw of seeds: on the safe side; unstated it would be above 4


def test_refining_helps_popular_keys_of_sparse_sets() -> None:
    """Sizes vary, and one key is held by half of all people: at expected counts the refined estimate is nearer."""
    rng, n, d = np.random.default_rng(8), 400_000, 600
    shares = np.full(d, 4 / d)
    shares[0] = 0.5
    held = [np.flatnonzero(rng.random(n) < share) for share in shares]
    people = np.concatenate(held)
    keys = np.repeat(np.arange(d, dtype=np.int32), [len(one) for one in held])[np.argsort(people, kind="stable")]
    sizes = np.bincount(people, minlength=n)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    records = Records(offsets, keys, np.full(len(keys), GRID, np.int32), d)
    shape = {int(size): int(count) for size, count in enumerate(np.bincount(sizes)) if count}
    plain, refined = (make("topsel", d, "4", sizes=shape, refine=choice) for choice in (False, True))
    assert make("topsel", d, "4", sizes=shape).refine
    tally = plain.tally(plain.perturb_many(records, SeededCoins(9)))
    moved = Tally(refined.fingerprint, tally.reports, tally.counts)
    errors = [abs(m.estimate(t).frequency.values[0] - len(held[0]) / n) for m, t in ((plain, tally), (refined, moved))]
    assert errors[1] < 0.5 * errors[0]


@pytest.mark.parametrize("pairs", [[], [(0, GRID)], [(0, -GRID), (1, GRID // 3)]])
def test_direct_is_kvue(pairs: Any) -> None:
    direct, kvue = make("topsel", 2, mode="direct"), make("kvue", 2)
    for word in kvue.every_word():
        assert law(partial(direct.respond, pairs, word)) == law(partial(kvue.respond, pairs, word))
    counts = np.array([[50, 20, 30], [70, 20, 10]])
    ours = direct.estimate(Tally(direct.fingerprint, 200, counts))
    theirs = kvue.estimate(Tally(kvue.fingerprint, 200, counts.T))
    assert ours.rows() == theirs.rows()


@pytest.mark.parametrize(
    ("given", "text"),
    [(5, "5"), ("5", "5"), ("2:0.8,1:0.2", "1:0.2,2:0.8"), ({1: 1, 3: 3}, "1:0.25,3:0.75"), ("0:1,4:2", "0:1/3,4:2/3")],
)
def test_laws_of_sizes_have_one_spelling(given: Any, text: str) -> None:
    assert str(SizeLaw.read(given)) == text
    assert SizeLaw.read(text) == SizeLaw.read(given)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sizes": "five"},
        {"sizes": "1:0.5,1:0.5"},
        {"sizes": "1:-1,2:2"},
        {"sizes": "0"},
        {"sizes": 11},
        {"sizes": 5, "padding": 11},
        {"sizes": 5, "buckets": 1},
        {"sizes": 5, "buckets": 4, "marked": 4},
        {"sizes": 5, "marked": 0},
        {"sizes": 5, "cohorts": -1},
        {"sizes": 5, "mode": "project"},
        {"sizes": 5, "mode": "direct"},
    ],
)
def test_options_are_refused(options: Any) -> None:
    with pytest.raises(MechanismError):
        make("topsel", 10, **options)


# -- the data sets on which it was compared with the published mechanisms ---------------------------------------------


def beta_values(rng: Any, means: Any, keys: Any) -> Any:
    return np.rint(GRID * (2 * rng.beta(4 * (1 + means[keys]), 4 * (1 - means[keys])) - 1)).astype(np.int32)


def zipf(n: int) -> Records:
    rng = np.random.default_rng(1)
    shares = np.arange(1, 1025) ** -1.5
    means = np.clip(rng.normal(0, 0.35, 1024), -0.98, 0.98)
    keys = rng.choice(1024, n, p=shares / shares.sum()).astype(np.int32)
    return Records(np.arange(n + 1, dtype=np.int64), keys, beta_values(rng, means, keys), 1024)


def sparse(n: int, d: int = 20_000) -> Records:
    rng = np.random.default_rng(1)
    shares = (np.arange(1, d + 1) + 9.0) ** -1.1
    means = np.clip(rng.normal(0, 0.35, d), -0.98, 0.98)
    held = [rng.choice(n, rng.binomial(n, share), replace=False) for share in 5 * shares / shares.sum()]
    people = np.concatenate(held)
    order = np.argsort(people, kind="stable")
    keys = np.repeat(np.arange(d, dtype=np.int32), [len(one) for one in held])[order]
    offsets = np.concatenate(([0], np.cumsum(np.bincount(people, minlength=n)))).astype(np.int64)
    return Records(offsets, keys, beta_values(rng, means, keys), d)


def clipped_error(people: Records, epsilon: str, **options: Any) -> float:
    """Mean squared error of frequencies cut to [0, 1], as in the comparison."""
    law_of_sizes = {int(size): int(count) for size, count in enumerate(np.bincount(people.sizes)) if count}
    mechanism = make("topsel", people.d, epsilon, sizes=law_of_sizes, **options)
    tally = Tally.empty(mechanism.fingerprint, mechanism.tally_shape)
    for block in mechanism.reports(people, SeededCoins(2)):
        tally = tally + mechanism.tally(block)
    shown = np.clip(mechanism.estimate(tally).frequency.values, 0, 1)
    return float(np.mean((shown - np.bincount(people.keys, minlength=people.d) / people.n) ** 2))


def test_a_tenth_of_zipf() -> None:
    """Errors grow tenfold with a tenth of the people; 1024 keys, half of them cut to 0: a run is off by 6 %."""
    assert clipped_error(zipf(100_000), "1") / 10 <= 1.15 * 4.69e-6


@pytest.mark.soak
@pytest.mark.parametrize(
    ("data", "epsilon", "error", "options"),
    [
        (zipf, "0.5", 1.95e-5, {}),
        (zipf, "1", 4.69e-6, {}),
        (zipf, "2", 8.71e-7, {"cohorts": 0}),
        (zipf, "4", 8.53e-8, {"cohorts": 0}),
        (sparse, "1", 3.23e-5, {}),
        (sparse, "2", 6.22e-6, {}),
        (sparse, "4", 7.31e-7, {}),
    ],
)
def test_the_comparison(
    data: Callable[[int], Records],
    epsilon: str,
    error: float,
    options: Any,
    record_property: Callable[[str, object], None],
) -> None:
    """A million people, one run each; the stated error is the best published one over its ratio, known to two digits.

    Frequencies are cut to [0, 1]: the comparison does not say so, but uncut errors would be twice the stated ones.
    Where one key holds 39 % of the people and ε is large, shared seeds alone cost more than 15 %.
    """
    begin, measured = time.perf_counter(), clipped_error(data(1_000_000), epsilon, **options)
    record_property("error", f"{measured:.3g}")
    record_property("stated", f"{error:.3g}")
    record_property("seconds", round(time.perf_counter() - begin))
    assert measured <= 1.15 * error
