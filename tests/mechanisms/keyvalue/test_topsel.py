from __future__ import annotations

import math
import pickle
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from keyveil.core.errors import MechanismError
from keyveil.core.public import public_words_covering
from keyveil.core.records import Records
from keyveil.core.schema import GRID, Schema
from keyveil.core.tally import Tally
from keyveil.frames.population import Population
from keyveil.lab.coins import SeededCoins
from keyveil.learn.dependence import dependence
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import LearnsSizes, PredictedVariance, need
from keyveil.mechanisms.families import cover
from keyveil.mechanisms.families.cover import best_kappa
from keyveil.mechanisms.keyvalue.topsel_cover import TopSelCover
from keyveil.mechanisms.keyvalue.topsel_direct import TopSelDirect
from keyveil.mechanisms.registry import create, from_document
from keyveil.privacy.enumerate import law
from tests.mechanisms.keyvalue.sets import make, same_size, scores, variances
from tests.sweeps import sampled

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

# the same where keys are hashed, with κ before p1
HASHED = [
    (1024, 1, "0.5", 3, 1, "0.2", 0.451863, 0.333333, 39.54, 26.36),
    (1024, 1, "1", 4, 1, "0.1", 0.475367, 0.250000, 9.23, 6.155),
    (1024, 1, "2", 8, 1, "0", 0.513519, 0.125000, 1.691, 1.27),
    (20000, 5, "0.5", 18, 5, "0", 0.077610, 0.055556, 229.2, 203.8),
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


@pytest.mark.parametrize("row", HASHED)
def test_where_keys_are_hashed_everything_is_chosen_as_in_the_table(row: Any) -> None:
    d, size, epsilon, buckets, marked, kappa, own, other, frequency, product = row
    mechanism = make("topsel", d, epsilon, sizes=size)
    assert (mechanism.hashing, mechanism.buckets, mechanism.marked) == ("hash", buckets, marked)
    assert mechanism.kappa == Fraction(kappa)
    assert mechanism.cover.supports() == pytest.approx((own, other), abs=6e-7)
    assert variances(mechanism, size / d) == pytest.approx((frequency, product), rel=7e-4)


@pytest.mark.parametrize("buckets", [3, 4, 5, 6, 12])
def test_no_other_share_of_common_buckets_is_better(buckets: int) -> None:
    def score(kappa: Fraction) -> float:
        frequency, product = variances(make("topsel", 5000, sizes=1, buckets=buckets, kappa=kappa))
        return 0.4 * math.log(frequency) + 0.6 * math.log(product)

    best = best_kappa(buckets)
    assert all(score(best) <= score(Fraction(twentieth, 20)) for twentieth in range(20))


@pytest.mark.parametrize("buckets", [3, 4, 9, 24])
@pytest.mark.parametrize("size", [1, 4])
def test_variances_of_rare_keys_by_the_share_of_common_buckets(buckets: int, size: int) -> None:
    """With a = (p1 - 1/t)·t/(t - 1) they are (2/t)/a² over 1 + κ - 2/t for frequencies, over 1 - κ for products."""
    for kappa in (0, 0.1, 0.5):
        mechanism = make("topsel", 5000, sizes=size, buckets=buckets, hashing="hash", kappa=kappa)
        own, other = mechanism.cover.supports()
        scale = 2 / buckets / ((own - other) * buckets / (buckets - 1)) ** 2
        expected = scale / (1 + kappa - 2 / buckets), scale / (1 - kappa)
        assert variances(mechanism) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("row", TABLE)
def test_chosen_sizes_are_no_worse(row: Any) -> None:
    d, size, epsilon, *_, frequency, product = row
    chosen = variances(make("topsel", d, epsilon, sizes=size), size / d)
    assert chosen[0] ** 0.4 * chosen[1] ** 0.6 <= 1.001 * frequency**0.4 * product**0.6


@pytest.mark.parametrize(("d", "size", "buckets", "symbols"), [(20000, 5, 25, 40000), (1000, 20, 192, 2112)])
def test_all_buckets_are_of_one_size(d: int, size: int, buckets: int, symbols: int) -> None:
    assert make("topsel", d, sizes=size, buckets=buckets).scheme.symbols == symbols


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


WAYS: list[dict[str, Any]] = [{"hashing": "partition"}, {"kappa": "0.2"}, {"kappa": "0.2", "padding": 2}]


THREE_KEYS = [
    (buckets, marked, way)
    for buckets, marked in [(2, 1), (3, 1), (3, 2), (5, 2), (5, 4)]
    for way in WAYS
    if "kappa" not in way or buckets > 2  # two buckets are too few to hash signs
]


@pytest.mark.parametrize(("buckets", "marked", "way", "epsilon"), sampled(THREE_KEYS, ["0.5", "1", "2", "4"]))
def test_epsilon_is_exact_for_three_keys(buckets: int, marked: int, way: Any, epsilon: str) -> None:
    mechanism = make("topsel", 3, epsilon, sizes=1, buckets=buckets, marked=marked, **way).reduced()
    certificate = mechanism.certificate()
    assert certificate.certified and certificate.exact_epsilon > Fraction(epsilon) - Fraction(1, 10**6)


@pytest.mark.parametrize(
    "options",
    [
        {"sizes": 4, "cohorts": 1024},
        {"sizes": 4},
        {"padding": 5},
        {"sizes": 4, "buckets": 60, "marked": 4},
        {"sizes": 4, "kappa": "0.2", "buckets": 7},
        {"sizes": 4, "kappa": "0", "cohorts": 1024},
        {"padding": 6, "kappa": "0.4", "buckets": 9},
    ],
    ids=str,
)
def test_sets_of_one_size_are_decoded_without_bias(options: Any) -> None:
    """30 keys × 60 repeats with real buckets: 20 % of the variance is six standard errors."""
    mechanism = make("topsel", 30, "2", **options)
    of_f, of_u = scores(mechanism, same_size(5000, 30, 4, seed=2), repeats=60, seed=5)
    for z in (of_f, of_u):
        assert abs(z.mean(axis=0) * np.sqrt(60)).max() < 6
        assert (z**2).mean() == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("way", [{"hashing": "partition"}, {"kappa": "0.1"}], ids=str)
def test_shared_seeds_are_in_the_standard_error(way: Any) -> None:
    """Eight cohorts and a key that everybody holds: who shares its bucket in one of them is off in every repeat."""
    few, many = (make("topsel", 60, "2", sizes=4, buckets=12, marked=4, cohorts=k, **way) for k in (8, 0))
    people, n = same_size(20_000, 59, 3, seed=3), 20_000
    keys = np.column_stack((np.zeros(n, np.int32), people.keys.reshape(n, 3) + 1)).astype(np.int32).reshape(-1)
    values = np.where(np.random.default_rng(4).random(4 * n) < 0.5, GRID, -GRID).astype(np.int32)
    people = Records(np.arange(n + 1, dtype=np.int64) * 4, keys, values, 60)
    stated = [m.estimate(m.tally(m.perturb_many(people, SeededCoins(6)))).frequency.se.mean() for m in (few, many)]
    assert stated[0] > 2 * stated[1]
    of_f, _ = scores(few, people, repeats=5, seed=7)
    assert 0.2 < (of_f**2).mean() < 2  # 60 keys of one draw of seeds: on the safe side; unstated it would be above 4


def test_the_standard_error_of_shared_seeds_over_many_collections() -> None:
    """Every collection has cohorts of its own: over 60 of them errors are as large as they are said to be.

    One of 40 keys each, half of the people the first one. The others meet it independently, so the mean square of
    60 × 39 scores has a standard error below 0.05; left out, the common seeds would make it about 2.
    """
    rng, n, scores_f, scores_u = np.random.default_rng(3), 20_000, [], []
    keys = np.where(rng.random(n) < 0.5, 0, rng.integers(1, 40, n)).astype(np.int32)
    values = np.where(rng.random(n) < 0.5, GRID, -GRID).astype(np.int32)
    people = Records(np.arange(n + 1, dtype=np.int64), keys, values, 40)
    for number in range(60):
        schema = Schema(keys=[f"{number}-{key}" for key in range(40)])
        mechanism = create("topsel", schema, "3", sizes=1, kappa="0.1", buckets=8, cohorts=400)
        of_f, of_u = scores(mechanism, people, repeats=1, seed=number)
        scores_f.append(of_f[0, 1:])
        scores_u.append(of_u[0, 1:])
    assert 0.7 < np.mean(np.square(scores_f)) < 1.3
    assert 0.7 < np.mean(np.square(scores_u)) < 1.3


@pytest.mark.parametrize("way", [{"hashing": "partition"}, {"hashing": "hash", "buckets": 300}], ids=str)
def test_refining_helps_popular_keys_of_sparse_sets(way: Any) -> None:
    """One key is held by half of all people, four of 600 others on average: at expected counts refining is nearer."""
    d, n, most, half = 600, 10**12, 14, 0.5
    others = np.array([math.exp(-4) * 4**size / math.factorial(size) for size in range(most)])
    others /= others.sum()
    without, holding = np.append(others, 0) * (1 - half), np.append(0, others) * half
    shape = {size: round(10**6 * share) for size, share in enumerate(without + holding)}
    plain, refined = (make("topsel", d, "4", sizes=shape, refine=choice, **way) for choice in (False, True))
    assert make("topsel", d, "4", sizes=shape).refine
    fixed = {"buckets": plain.buckets, "marked": plain.marked, "hashing": plain.hashing}
    of_size = [make("topsel", d, "4", sizes=size, **fixed).cover.supports() for size in range(1, most + 1)]
    own, other = np.array([(0, 1 / plain.buckets), *of_size]).T
    counts = np.zeros(plain.tally_shape, dtype=np.int64)
    foreign = other if plain.hashing == "partition" else (1 - own) / (plain.buckets - 1)  # the sign that is not held
    counts[:, 0] = np.rint(n * np.array([without @ other + holding @ foreign, without @ other + holding @ own]))
    errors = [abs(m.estimate(Tally(m.fingerprint, n, counts)).frequency.values[0] - half) for m in (plain, refined)]
    assert errors[0] > 0.004
    assert errors[1] < 0.2 * errors[0]


@pytest.mark.parametrize("pairs", [[], [(0, GRID)], [(0, -GRID), (1, GRID // 3)]])
def test_direct_is_kvue(pairs: Any) -> None:
    direct, kvue = make("topsel", 2, mode="direct"), make("kvue", 2)
    for word in kvue.every_word():
        assert law(partial(direct.respond, pairs, word)) == law(partial(kvue.respond, pairs, word))
    counts = np.array([[50, 20, 30], [70, 20, 10]])
    ours = direct.estimate(Tally(direct.fingerprint, 200, counts))
    theirs = kvue.estimate(Tally(kvue.fingerprint, 200, counts.T))
    assert ours.rows() == theirs.rows()


def test_a_mode_is_a_class_and_both_have_one_name_and_the_same_options() -> None:
    cover, direct = make("topsel", 4, sizes=1), make("topsel", 4, mode="direct")
    assert (type(cover), type(direct)) == (TopSelCover, TopSelDirect)
    assert cover.name == direct.name == "topsel" and set(cover.options) == set(direct.options)
    assert issubclass(TopSelCover, LearnsSizes) and not issubclass(TopSelDirect, LearnsSizes)
    for kind, mode in ((TopSelCover, "direct"), (TopSelDirect, "cover")):
        with pytest.raises(MechanismError):
            kind(Schema(keys=4), Fraction(1), mode=mode, set_sizes="1")


STATED: list[tuple[int, dict[str, Any]]] = [
    (12, {"mode": "direct"}),
    (12, {"sizes": 2, "buckets": 7, "marked": 2}),
    (12, {"sizes": 2, "buckets": 7, "marked": 2, "cohorts": 3}),
    (12, {"sizes": 2, "buckets": 7, "marked": 2, "hashing": "hash", "kappa": "0.2", "cohorts": 3}),
    (12, {"padding": 4, "buckets": 7, "marked": 3, "cohorts": 3}),
    (60, {"sizes": "1:0.5,3:0.5", "buckets": 20, "refine": True}),
]


@pytest.mark.parametrize(("d", "options", "population"), sampled(STATED, [False, True]))
def test_what_is_predicted_is_what_estimates_state(d: int, options: Any, population: bool) -> None:
    """Of a million people whose counts are what they are on average, so that estimates are the truth (to 1 %)."""
    mechanism, n = make("topsel", d, "2", **options), 10**6
    people = same_size(200_000, d, 2, seed=3)
    tally = mechanism.tally(mechanism.perturb_many(people, SeededCoins(4)))
    large = Tally(tally.fingerprint, 5 * tally.reports, 5 * tally.counts)
    solution = mechanism.solve(large, population)
    spread = need(mechanism, PredictedVariance).predicted_spread(
        solution.frequency, solution.product / solution.frequency, np.array([0.0, 0.0, 1.0]), n, population
    )
    for stated, predicted in zip(solution.spread[:2], spread[:2], strict=True):
        assert predicted == pytest.approx(stated, rel=0.02)


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
        {"sizes": 5, "kappa": "1"},
        {"sizes": 5, "kappa": "-0.1"},
        {"sizes": 1, "kappa": "0.1", "buckets": 2},
        {"sizes": 5, "kappa": "0.1", "hashing": "partition"},
        {"sizes": 5, "hashing": "sieve"},
        {"mode": "direct", "kappa": "0.1"},
        {"sizes": 5, "mode": "project"},
        {"sizes": 5, "mode": "direct"},
    ],
)
def test_options_are_refused(options: Any) -> None:
    with pytest.raises(MechanismError):
        make("topsel", 10, **options)


def test_seeds_are_shared_only_where_counting_would_take_long() -> None:
    assert make("topsel", 1024, "4", sizes=1).cohorts == 0
    assert make("topsel", 1024, "0.5", sizes=1).cohorts == 0
    assert make("topsel", 200_000, "1", sizes=5).cohorts == 2**16


@pytest.mark.parametrize("cohorts", [0, 50])
def test_devices_and_collectors_have_the_same_seeds(cohorts: int) -> None:
    mechanism, words = make("topsel", 100, sizes=5, cohorts=cohorts), public_words_covering(7)
    many = mechanism.seeds_of(np.array(words, dtype=np.uint64))
    assert many.tolist() == [mechanism.seed_of(word) for word in words]
    assert len(set(many.tolist())) == 7


def test_it_can_be_sent_to_another_process_after_it_estimated() -> None:
    mechanism = make("topsel", 20, sizes=3, cohorts=50)
    reports = mechanism.perturb_many(same_size(500, 20, 3, 1), SeededCoins(1))
    tally = mechanism.tally(reports)
    supports, told = mechanism.supports(tally), mechanism.estimate(tally)
    there = pickle.loads(pickle.dumps(mechanism))
    assert there == mechanism and (there.supports(tally) == supports).all()
    assert (there.estimate(tally).frequency.values == told.frequency.values).all()
    assert not supports.flags.writeable, "it is kept for whoever asks again"


def test_every_collection_has_cohorts_of_its_own() -> None:
    """Otherwise one could look for sets with crowded buckets once and for all."""
    mine, theirs = (TopSelCover(Schema(keys=["a", last]), Fraction(1), set_sizes="1", cohorts=9) for last in ("b", "c"))
    assert not set(mine.cohort_seeds.tolist()) & set(theirs.cohort_seeds.tolist())


@pytest.mark.parametrize(
    "options", [{"sizes": 1}, {"sizes": 5}, {"sizes": 5, "kappa": "1/3"}, {"mode": "direct"}], ids=str
)
def test_a_document_makes_the_same_mechanism_again(options: Any) -> None:
    mechanism = make("topsel", 1024, "0.5", **options)
    assert from_document(mechanism.document()) == mechanism


def test_a_hash_does_not_impose_the_law_of_sizes() -> None:
    """Nobody holds anything, though three pairs were announced: 20 keys within six standard errors of none."""
    people = Records(np.zeros(20_001, dtype=np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32), 20)
    hashed, split = (make("topsel", 20, "2", sizes=3, hashing=way) for way in ("hash", "partition"))
    hashed_f, split_f = (m.estimate(m.tally(m.perturb_many(people, SeededCoins(4)))).frequency for m in (hashed, split))
    assert (abs(hashed_f.values) < 6 * hashed_f.se).all()
    assert (split_f.values > 0.1).all()


def test_sums_of_hashed_keys_vary_as_predicted() -> None:
    """One of 12 keys each; 400 repeats: 45 % of a variance is six standard errors."""
    mechanism, people = make("topsel", 12, "2", sizes=1, kappa="0.1", buckets=6), same_size(4000, 12, 1, seed=5)
    weights, sums = np.array([1.0] * 6 + [0.0] * 6), []
    for repeat in range(400):
        estimates = mechanism.estimate(mechanism.tally(mechanism.perturb_many(people, SeededCoins(6, repeat))))
        sums.append(weights @ estimates.frequency.values)
    frequency = np.bincount(people.keys, minlength=12) / people.n
    predicted = dependence(estimates, mechanism).variance(weights, frequency, estimates.frequency.se)
    assert np.var(sums) == pytest.approx(predicted, rel=0.45)


@pytest.mark.parametrize(("padding", "limit"), [(0, 0.10), (5, 0.05)])
def test_the_choice_of_buckets_bounds_the_bias_by_set_sizes(
    padding: int, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One person of ten holds twenty pairs, the others one: the score alone would accept more than a half."""

    def unevenness() -> float:
        made = create("topsel", Schema(keys=200), 4, mode="cover", set_sizes="1:0.9,20:0.1", padding=padding)
        assert isinstance(made, TopSelCover)
        return made.cover.unevenness

    assert limit / 2 < unevenness() < limit
    monkeypatch.setattr(cover, "SPREAD", 1.0)
    monkeypatch.setattr(cover, "PADDED_SPREAD", 1.0)
    assert unevenness() > 0.5


# -- sets that are not sparse -----------------------------------------------------------------------------------------


def test_dense_sets_of_several_sizes_are_padded_to_the_largest() -> None:
    dense = create("topsel", Schema(keys=12), 2, sizes="2:0.2,9:0.5,12:0.3")
    assert (dense.options["padding"], dense.options["refine"]) == (12, False)
    assert create("topsel", Schema(keys=12), 2, sizes="9").options["padding"] == 0  # of one size: exact as they are
    sparse = create("topsel", Schema(keys=1000), 2, sizes="2:0.5,9:0.5")
    assert (sparse.options["padding"], sparse.options["refine"]) == (0, True)


@pytest.mark.parametrize("padding", [0, 9, 11])
def test_a_padding_that_leaves_dense_sets_biased_is_refused(padding: int) -> None:
    with pytest.raises(MechanismError) as refusal:
        create("topsel", Schema(keys=12), 2, sizes="2:0.2,9:0.5,12:0.3", padding=padding)
    assert refusal.value.code == "mechanism/dense" and "kvue" in str(refusal.value)


def test_frequencies_of_a_survey_are_unbiased_whoever_answers_much() -> None:
    """Half of the people hold all of 12 keys, half only two of them; 40 runs, bounds that fail once in 1e6 runs.

    Without padding a partition imposes the mean of its law, and keys are more than 8 standard errors off: the mutant.
    """
    schema = Schema(keys=12)
    full, few = dict.fromkeys(map(str, range(12)), 0.5), {"0": 0.5, "1": 0.5}
    records = Population.from_records([full, few] * 1000).keyed(schema).records(schema)
    truth = np.array([1.0] * 2 + [0.5] * 10)

    def off(mechanism: Mechanism) -> Any:
        runs = (mechanism.tally(mechanism.perturb_many(records, SeededCoins(run))) for run in range(40))
        found = np.array([(e.frequency.values - truth) / e.frequency.se for e in map(mechanism.estimate, runs)])
        return found.mean(axis=0) * math.sqrt(len(found))

    padded = create("topsel", schema, 4, sizes="2:0.5,12:0.5")
    assert np.abs(off(padded)).max() < 5.5
    unpadded = create("topsel", schema, 4, sizes="7")  # the mean of the law: what a partition imposes
    assert np.abs(off(unpadded)).max() > 8
