"""The overflow group: what a cap hides is measured, limited, flagged and, where it pays, corrected."""

from __future__ import annotations

import pickle
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from keyveil.cli.campaign_files import drafted
from keyveil.core.coins import Coins
from keyveil.core.errors import KeyveilError
from keyveil.core.estimates import FLAGS, Estimates
from keyveil.core.records import Records
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.core.undercount import Undercount
from keyveil.frames.population import Population
from keyveil.lab import datasets
from keyveil.lab.aggregate import aggregate
from keyveil.lab.caps import missing
from keyveil.lab.coins import SeededCoins
from keyveil.lab.datasets.dataset import Dataset
from keyveil.lab.simulate import simulate
from keyveil.learn.comparisons import compare_keys, subset_sum
from keyveil.learn.dependence import links
from keyveil.learn.noise import noise_alone, without_undercount
from keyveil.learn.ranking import top
from keyveil.learn.shrinkage import bayes
from keyveil.mechanisms.capabilities import Capped, can
from keyveil.mechanisms.overflow import undercount as judgement
from keyveil.mechanisms.overflow.beside import BesideOverflow
from keyveil.mechanisms.overflow.undercount import Surplus, cuts_alike, truncated_keys, undercount
from keyveil.mechanisms.registry import create, create_round, forms, from_document
from keyveil.mechanisms.responses import Solution, Spread
from keyveil.mechanisms.rounds.overflow import OverflowQuestion

KEYS = Schema(keys=30)
ONE = Fraction(1)
ONE_REACH = classmethod(lambda cls, schema, epsilon, cap: cls(schema, epsilon, cap))  # no further one


def solution(frequency: Any, variance: float = 1e-6) -> Solution:
    """Frequencies of this variance, and means of zero."""
    f = np.asarray(frequency, dtype=np.float64)
    return Solution(f, np.zeros_like(f), Spread(np.full_like(f, variance), np.full_like(f, variance), np.zeros_like(f)))


# -- the question ---------------------------------------------------------------------------------------------------


def test_the_surplus_and_the_share_of_kept_pairs_of_a_worked_example() -> None:
    """Vector 7: ε 1, 1500 answers of which 360 are far, R = 26, mean kept size 7.5."""
    question = OverflowQuestion(KEYS, ONE, 13)
    surplus = question.surplus(Tally(question.fingerprint, 1500, np.array([840, 300, 360])))
    assert surplus is not None and surplus.reach == 26
    assert [float(question.channel.probability(state, 2)) for state in (2, 0)] == pytest.approx(
        [0.576116885, 0.211941558], abs=1e-9
    )
    assert (surplus.mean, surplus.se) == pytest.approx((2.003210, 0.787281), abs=1e-6)
    found = undercount(13, surplus, solution(np.full(30, 0.25)), 0.0)
    assert (found.kept, found.kept_se) == pytest.approx((0.789207, 0.065381), abs=1e-6)
    assert question.surplus(Tally.empty(question.fingerprint, (3,))) is None


def people_of_sizes(sizes: NDArray[np.int64], d: int) -> Records:
    """People who hold the first so many keys, with the value 0."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    keys = (np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)).astype(np.int32)
    return Records(offsets, keys, np.zeros_like(keys), d)


class Deaf(OverflowQuestion):
    """A mutant: the answer ignores how many pairs there truly are above the cap."""

    def _states(self, records: Records, coins: Coins) -> NDArray[np.int64]:
        return np.zeros(records.n, dtype=np.int64)


@pytest.mark.parametrize("reach", [None, 20])
@pytest.mark.parametrize("kind", [OverflowQuestion, Deaf])
def test_the_mean_surplus_is_told_without_bias(kind: type[OverflowQuestion], reach: int | None) -> None:
    """Sizes 0 to 9 (0 to 12) around a cap of 3; five standard errors (a false alarm in 2 million); a mutant is seen."""
    sizes = np.arange(60_000) % (10 if reach is None else 13)  # answers beyond the first reach are needed, or not
    records, question = people_of_sizes(sizes, 30), kind(KEYS, ONE, 3, reach)
    truth = np.maximum(sizes - 3, 0).mean(), (sizes > 3).mean()
    for tally in (
        question.tally(question.perturb_many(records, SeededCoins(3))),
        aggregate(OverflowQuestion(KEYS, ONE, 3, reach), records, SeededCoins(4)) if kind is OverflowQuestion else None,
    ):
        if tally is not None:
            told = question.surplus(tally)
            assert told is not None
            off = abs(told.mean - truth[0]) / told.se, abs(told.over - truth[1]) / told.over_se
            assert (max(off) < 5) == (kind is OverflowQuestion)


@pytest.mark.parametrize(("reach", "mean"), [(None, 4), (6, 4), (28, 8)])
def test_a_surplus_beyond_reach_counts_as_the_reach(reach: int | None, mean: int) -> None:
    question = OverflowQuestion(KEYS, Fraction(12), 2, reach)  # hardly any noise
    told = question.surplus(
        question.tally(question.perturb_many(people_of_sizes(np.full(9999, 10), 30), SeededCoins(5)))
    )
    assert told is not None and told.mean == pytest.approx(mean, abs=0.7) and told.reached == (mean == 8)


def test_the_further_reach_is_paid_for_only_where_it_is_needed() -> None:
    """One of twenty people is one pair above the cap, or eight; five standard errors, a false alarm in 2 million."""
    question = OverflowQuestion(KEYS, Fraction(3), 2, 28)
    places = np.arange(40_000) % 20
    for most, reach in ((3, 4), (10, 28)):
        held = np.where(places == 19, most, np.minimum(places, 2))
        records = people_of_sizes(held, 30)
        told = question.surplus(question.tally(question.perturb_many(records, SeededCoins(6))))
        law = np.bincount(held, minlength=31) / len(held)
        assert told is not None and told.reach == reach == question.predicted_surplus(law, len(held)).reach
        assert abs(told.mean - np.maximum(held - 2, 0).mean()) < 5 * told.se


@pytest.mark.parametrize(
    ("epsilon", "cap", "d", "reach"),
    [
        *(("1", 3, 99, None), ("2.99", 3, 99, None), ("3", 3, 99, 24), ("4.5", 3, 99, 48), ("9", 3, 99, 96)),
        *(("4", 3, 11, 8), ("4", 3, 9, None), ("32", 1, 10**6, 10**6 - 1)),
    ],
)
def test_the_further_reach_doubles_with_every_unit_of_epsilon(
    epsilon: str, cap: int, d: int, reach: int | None
) -> None:
    question = OverflowQuestion.beside(Schema(keys=d), Fraction(epsilon), cap)
    assert question.reach == reach and question.reaches == ((2 * cap,) if reach is None else (2 * cap, reach))
    assert ("reach" in question.options) == (reach is not None)  # documents below ε = 3 are as they were
    assert (question.fingerprint == OverflowQuestion(Schema(keys=d), Fraction(epsilon), cap).fingerprint) == (not reach)


# -- the judgement --------------------------------------------------------------------------------------------------


def test_the_limit_holds_for_any_key_and_shrinks_with_the_surplus() -> None:
    """Whoever holds s pairs keeps a key with probability cap/s: a key of the busiest lacks most."""
    sizes = np.repeat([2, 3, 9], [700, 200, 100])
    lost = {cap: float(np.mean(np.where(sizes == 9, np.maximum(1 - cap / sizes, 0), 0))) for cap in (2, 3, 8)}
    for cap, worst in lost.items():
        mean, over = float(np.maximum(sizes - cap, 0).mean()), float((sizes > cap).mean())
        found = undercount(cap, Surplus(mean, 0.0, over, 0.0, 2.0 * cap), solution(np.full(30, 0.05)), 0.0)
        assert found.limit is not None and worst - 1e-12 <= found.limit <= min(over, mean / (cap + 1)) + 1e-12
        near = float(np.clip(sizes - cap, 0, 1).mean())  # answers that reach one pair above the cap, and no further
        found = undercount(cap, Surplus(near, 0.0, over, 0.0, 1.0), solution(np.full(30, 0.05)), 0.0)
        assert found.limit is not None and worst <= found.limit + 1e-12
    assert undercount(2, Surplus(-0.1, 0.01, -0.05, 0.01, 4.0), solution(np.ones(3)), 0.0).limit == 0


def test_a_correction_is_made_where_it_pays_and_reaches() -> None:
    told = Surplus(0.5, 0.05, 0.2, 0.01, 16.0)
    states = {
        "pays": undercount(8, told, solution(np.full(30, 0.1)), 0.0),
        "noise": undercount(8, told, solution(np.full(30, 0.1), variance=0.01), 0.0),
        "beyond reach": undercount(8, told._replace(over=0.05), solution(np.full(30, 0.1)), 0.0),
        "several caps": undercount(8, told, solution(np.full(30, 0.1)), 0.0, exact=False),
        "chance": undercount(8, told._replace(mean=0.07), solution(np.full(30, 0.1)), 0.0),
    }
    assert {name: one.state for name, one in states.items()} == {
        "pays": "corrected",
        "noise": "truncated",
        "beyond reach": "truncated",
        "several caps": "truncated",
        "chance": "none",
    }
    assert states["pays"].scale == states["pays"].kept == pytest.approx(3 / 3.5)
    assert states["noise"].scale == 1 and states["noise"].stretch == pytest.approx(3.5 / 3)
    nobody = undercount(8, told._replace(mean=-0.04), solution(np.full(30, 0.1)), 0.0)
    assert states["chance"].stretch > 1 == nobody.stretch  # upper limits allow for what is not ruled out
    f, variance = np.array([0.5, 0.01, 0.0]), np.full(3, 1e-4)
    assert truncated_keys(states["noise"], f, variance).tolist() == [True, False, False]
    assert not truncated_keys(states["pays"], f, variance).any()


def test_parts_with_one_cap_are_corrected_and_their_sums_have_the_error_of_what_is_corrected() -> None:
    """Forty keys, and half of the people hold half as many pairs again as the cap: uncorrected, all are flagged."""
    schema, sizes = Schema(keys=40), np.where(np.arange(40_000) % 2 == 0, 2, 6)
    rng = np.random.default_rng(1)
    keys = np.concatenate([rng.permutation(40)[:size] for size in sizes]).astype(np.int32)
    records = Records(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), keys, np.zeros_like(keys), 40)
    alike = create("split", schema, 4, groups="ssr:1,wsr:1", max_pairs=4, overflow="0.03")
    assert isinstance(alike, BesideOverflow) and cuts_alike(alike.main)
    assert not cuts_alike(create("split", schema, 4, groups="ssr:1,kvue:1", max_pairs=4))
    tally = alike.tally(alike.perturb_many(records, SeededCoins(2)))
    estimates = alike.estimate(tally)
    found, parts = estimates.header.undercount, alike.part_answers(tally)
    assert found is not None and found.corrected and not (estimates.frequency.flag >= FLAGS.index("truncated")).any()
    told = sum(one.frequency_weights * one.mechanism.estimate(one.tally).frequency.values for one in parts)
    assert told == pytest.approx(estimates.frequency.values)
    assert 4 in subset_sum(estimates, list(range(40)), mechanism=alike, tally=tally)
    noise, some = noise_alone(estimates), np.array([3, 4])
    variance = links(noise, alike, tally).variance(some, np.ones(2))
    assert variance == pytest.approx(float(np.sum(noise.frequency.se[some] ** 2)), rel=0.2)


# -- beside a mechanism ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("title", [title for title, one in forms() if can(one, Capped)])
def test_the_group_stands_beside_every_capped_mechanism(title: str) -> None:
    plain = dict(forms())[title]
    made = create(plain.name, plain.schema, 1, **plain.options, overflow="0.03")
    assert (made.name, made.title, made.estimated) == (plain.name, plain.title, plain.estimated)
    assert made.options == {**plain.options, "overflow": "0.03"} and made.ratio >= plain.ratio
    assert made.fingerprint != plain.fingerprint
    for again in (from_document(made.document()), pickle.loads(pickle.dumps(made))):
        assert again == made and again.fingerprint == made.fingerprint
    estimates = made.estimate(made.tally(made.perturb_many(people_of_sizes(np.arange(900) % 4, 3), SeededCoins(1))))
    assert estimates.header.undercount is not None and estimates.header.undercount.state != "unknown"
    assert Estimates.from_json(estimates.to_json()).header == estimates.header


def test_options_that_make_no_sense_are_refused_and_a_cap_that_cannot_bind_needs_no_group() -> None:
    assert create("ssr", KEYS, 1, max_pairs=30, overflow="0.03") == create("ssr", KEYS, 1, max_pairs=30)
    uncapped = {"groups": "kvue:1,privkv:1"}
    assert create("split", KEYS, 1, **uncapped, overflow="0.03") == create("split", KEYS, 1, **uncapped)
    for off in ("off", 0, "0", None):
        assert create("ssr", KEYS, 1, max_pairs=3, overflow=off) == create("ssr", KEYS, 1, max_pairs=3)
    wrong: list[tuple[str, dict[str, Any], str]] = [
        *((name, {"max_pairs": 0}, "max_pairs from 1 to 30") for name in ("ssr", "wsr", "wheel", "pckv-ue", "kv-sw")),
        ("ssr", {"max_pairs": 0, "overflow": "0.03"}, "max_pairs from 1 to 30"),
        ("ssr", {"max_pairs": 3, "overflow": "1"}, "between 0 and 1"),
        ("ssr", {"max_pairs": 3, "overflow": "many"}, "or off, not 'many'"),
        ("kvue", {"overflow": "0.03"}, "no option 'overflow'"),
        ("pckv-ue", {"max_pairs": 3, "overflow": "0.03", "estimator": "published"}, "unbiased"),
    ]
    for name, options, said in wrong:
        with pytest.raises(KeyveilError, match=said):
            create(name, KEYS, 1, **options)
    with pytest.raises(KeyveilError, match="can be exceeded"):
        create_round("overflow", KEYS, 1, max_pairs=30)
    for reach in (6, 31):
        with pytest.raises(KeyveilError, match=f"more than twice the cap, 6, and at most .* 30, not {reach}"):
            create_round("overflow", KEYS, 1, max_pairs=3, reach=reach)


def test_without_the_group_the_undercount_is_unknown_and_everything_says_so() -> None:
    estimates = simulate("ssr", people(), KEYS, 4, seed=1, max_pairs=2, overflow="off").estimates
    assert estimates.header.undercount == Undercount(2) and "unknown" in str(estimates.header.undercount)
    assert estimates.document()["undercount"]["state"] == "unknown"
    assert create("ssr", KEYS, 1, max_pairs=30).header(1).undercount is None


def people() -> Population:
    """4000 people with 1 to 5 of 30 keys each."""
    records = [{str((7 * who + step) % 30): 0.5 for step in range(1 + who % 5)} for who in range(4000)]
    return Population.from_records(records).keyed(KEYS)


def test_collections_have_the_usual_group_and_documents_say_so() -> None:
    result = simulate("ssr", people(), KEYS, 4, seed=1, max_pairs=2)
    assert result.document()["options"]["overflow"] == "0.03" and "3 of 100" in result.notes[0]
    usual: dict[str, Any] = dict.fromkeys(
        ("low", "high", "levels", "enough", "opens", "closes", "min_reports", "enrolment", "contact")
    )
    usual |= {"name": "snacks", "purpose": "To know.", "keys": "a,b,c", "epsilon": "1"}
    written = {
        name: drafted(mechanism=name, options=options, **usual)["protocol"]
        for name, options in {"ssr": {"max_pairs": 2}, "wsr": {"max_pairs": 3}, "kvue": {}, "pilot": {}}.items()
    }
    assert {name: one.get("overflow") for name, one in written.items()} == {
        "ssr": "0.03",
        "wsr": None,  # a cap of three keys out of three
        "kvue": None,
        "pilot": None,  # which asks for set sizes itself
    }
    assert "overflow" not in drafted(mechanism="ssr", options={"max_pairs": 2, "overflow": "off"}, **usual)["protocol"]


# -- people as they come --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def baskets() -> Dataset:
    return datasets.load("baskets", n=30_000, seed=4)


def covered(dataset: Dataset, epsilon: Any, mechanism: str, runs: int, **options: Any) -> tuple[float, list[Estimates]]:
    """How often intervals of the 20 most frequent keys hold the truth, or are flagged; and the estimates."""
    found, estimates = [], []
    for seed in range(runs):
        result = simulate(mechanism, dataset.population, dataset.schema, epsilon, seed=seed, shortcut=True, **options)
        column, truth = result.estimates.frequency, result.truth.frequency
        top = np.argsort(-truth)[:20]
        told = (column.low <= truth) & (truth <= column.high) | (column.flag == 4)
        found.append(told[top].mean())
        estimates.append(result.estimates)
    return float(np.mean(found)), estimates


def test_frequencies_are_corrected_and_covered_and_a_mutant_is_not(
    baskets: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty keys of six runs at ε 6: of 120 intervals of 95 % fewer than 105 hold with probability 1e-4 at most."""
    share, estimates = covered(baskets, 6, "wsr", 6)
    assert share > 0.87 and {one.header.undercount.state for one in estimates if one.header.undercount} == {"corrected"}
    dropped, plain = covered(baskets, 6, "wsr", 3, overflow="off")
    uncorrected = np.mean([[one.frequency.flag == 4] for one in plain])
    assert uncorrected > 0 and dropped > 0.87  # the lab knows the records, and flags what is missing
    with monkeypatch.context() as patched:
        patched.setattr(OverflowQuestion, "_states", Deaf._states)
        deaf, told = covered(baskets, 6, "wsr", 3)
    assert deaf < 0.8 and "corrected" not in {one.header.undercount.state for one in told if one.header.undercount}
    monkeypatch.setattr(judgement, "with_undercount", lambda solution, found: solution)  # the correction is dropped
    assert covered(baskets, 6, "wsr", 3)[0] < 0.8


@pytest.mark.parametrize("mutant", [False, True])
def test_keys_that_the_cap_surely_moves_are_flagged_and_a_mutant_that_says_ok_is_seen(
    mutant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People far above the cap, beyond what answers reach: nothing is corrected, and the 20 most frequent keys lack
    more than two standard errors each. Seeded; their estimates would have to be six standard errors off not to be seen.
    """
    monkeypatch.setattr(OverflowQuestion, "beside", ONE_REACH)
    if mutant:
        monkeypatch.setattr(judgement, "truncated_keys", lambda found, f, variance: np.zeros(len(f), dtype=bool))
    heavy = datasets.load("heavy", n=30_000, seed=4)
    _, (estimates,) = covered(heavy, 6, "wsr", 1)
    lost = missing(create("wsr", heavy.schema, 1, **{**estimates.header.options, "overflow": "off"}), heavy.population)
    much = lost > 2 * estimates.frequency.se
    assert much.sum() >= 20 and estimates.header.undercount is not None
    assert estimates.header.undercount.state == "truncated"
    assert (estimates.frequency.flag[much] == 4).all() != mutant


def test_people_far_above_the_cap_are_reached_and_frequencies_corrected() -> None:
    """At ε 4 answers reach eight times as far as at ε 1. Of 60 intervals of 95 % fewer than 46 hold by 1e-7."""
    share, estimates = covered(datasets.load("heavy", n=60_000, seed=4), 4, "wsr", 3)
    assert share >= 46 / 60
    for one in estimates:
        assert one.header.undercount is not None and one.header.undercount.corrected
        assert not (one.frequency.flag == 4).any()


def test_shrinkage_and_sums_know_what_all_keys_have_in_common(baskets: Dataset) -> None:
    _, (estimates,) = covered(baskets, 6, "wsr", 1)
    found = estimates.header.undercount
    assert found is not None and found.corrected and found.common > 0
    noise = without_undercount(estimates).frequency.se
    assert np.allclose(noise**2 + found.common * estimates.frequency.values**2, estimates.frequency.se**2)
    top = np.argsort(-estimates.frequency.values)[:20]
    shrunk, plain = bayes(estimates).frequency, estimates.frequency
    assert np.abs(shrunk.values - plain.values)[top].max() < 2 * noise[top].max()
    whole = links(estimates).variance(top, np.ones(20))
    assert whole > found.common * float(plain.values[top].sum()) ** 2


@pytest.mark.soak
@pytest.mark.parametrize("epsilon", [1, 4])
@pytest.mark.parametrize("mechanism", ["wsr", "pckv-grr", "ssr"])
@pytest.mark.parametrize("name", ["heavy", "activity", "baskets"])
def test_frequent_keys_are_covered_or_flagged_on_lifelike_people(name: str, mechanism: str, epsilon: int) -> None:
    """Of 400 intervals of 93 % or more fewer than 360 hold with probability 0.003; a flag is deserved in 80 %."""
    dataset = datasets.load(name, n=100_000, seed=11)
    share, estimates = covered(dataset, epsilon, mechanism, 20)
    assert share >= 0.9
    capped = create(mechanism, dataset.schema, 1, **{**estimates[0].header.options, "overflow": "off"})
    lost = missing(capped, dataset.population)
    flagged = np.concatenate([(lost > 0.25 * one.frequency.se)[one.frequency.flag == 4] for one in estimates])
    assert not len(flagged) or flagged.mean() >= 0.8


# -- sums and differences -------------------------------------------------------------------------------------------


def told(surplus: float, se: float, *, beyond: bool = False) -> Undercount:
    """A cap of 5 and 4 pairs a person that count, with so many above it."""
    reach = Surplus(surplus, se, 0.3, 0.01, 10.0)
    found = undercount(5, reach, solution(np.full(20, 0.2), 1.0), 0.0)
    return replace(found, beyond=beyond)


def test_a_sum_has_the_error_of_the_surplus_also_where_none_is_seen() -> None:
    """A quarter of all kept pairs lacks a quarter of the surplus: of 0 ± 0.8 a limit of 1.96·0.2."""
    found = told(0.0, 0.8)
    assert not found.seen and found.stretch == 1
    assert found.highest_sum(1.0, 0.0, 5, 1.96) == pytest.approx(1 + 1.96 * 0.2)
    assert found.highest_sum(1.0, 0.1, 5, 1.96) > 1 + 1.96 * np.hypot(0.1, 0.2)
    assert told(-0.8, 0.8).highest_sum(1.0, 0.1, 5, 1.96) < found.highest_sum(1.0, 0.1, 5, 1.96)
    assert told(-80.0, 0.8).highest_sum(1.0, 0.1, 5, 1.96) == pytest.approx(1.196)  # nothing can be hidden twice


def test_beyond_the_reach_of_answers_a_sum_may_lack_whatever_people_can_hide() -> None:
    """Limits 0.5 + 1.96·0.1 of pairs, 1/6 of it for each key; from ten keys on those above the reach may hide more."""
    found, most = told(0.5, 0.1, beyond=True), 0.5 + 1.96 * 0.1
    assert found.highest_sum(0.0, 0.0, 2, 1.96) == pytest.approx(2 * most / 6)
    assert found.highest_sum(0.0, 0.0, 8, 1.96) == pytest.approx(most)
    assert found.highest_sum(0.0, 0.0, 20, 1.96) == pytest.approx(2 * most)
    assert Undercount(5).highest_sum(1.0, 0.1, 5, 1.96) == pytest.approx(1.196)  # unknown, and said so


def test_sums_are_covered_where_the_cap_hides_much_and_a_mutant_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The 60 rarest keys of ``heavy`` lack half of their sum, many times its noise; seeded, three runs."""
    heavy = datasets.load("heavy", n=30_000, seed=4)
    rare = np.argsort(heavy.population.truth(heavy.schema).frequency)[:60].tolist()
    total = float(heavy.population.truth(heavy.schema).frequency[rare].sum())
    _, estimates = covered(heavy, 4, "pckv-ue", 3)
    assert all(total in subset_sum(one, rare) for one in estimates)
    monkeypatch.setattr(Undercount, "highest_sum", lambda found, total, noise_se, keys, z: total + z * noise_se)
    assert not all(total in subset_sum(one, rare) for one in estimates)


def test_what_is_hidden_widens_a_difference_and_weakens_its_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OverflowQuestion, "beside", ONE_REACH)
    heavy = datasets.load("heavy", n=30_000, seed=4)
    _, (estimates,) = covered(heavy, 8, "ssr", 1)
    hidden = estimates.header.undercount
    assert hidden is not None and hidden.widens and not hidden.corrected
    unseen = replace(hidden, stretch=1.0, raised=0.0)
    plain = replace(estimates, header=replace(estimates.header, undercount=unseen))
    now, before = (compare_keys(one, 0, 90) for one in (estimates, plain))
    assert now.difference.value == before.difference.value and now.difference.se == before.difference.se
    assert now.difference.high > before.difference.high and now.difference.low < before.difference.low
    assert 0 <= now.z < before.z and now.p_value > before.p_value
    assert top(nearly_exact(hidden), 5).candidates > top(nearly_exact(unseen), 5).candidates == 5


def nearly_exact(hidden: Undercount) -> Estimates:
    """Thirty keys that lie ten standard errors apart, under such a cap."""
    made = create("ssr", KEYS, 1, max_pairs=2)
    header = replace(made.header(1000), undercount=hidden)
    return solution(np.linspace(0.5, 0.21, 30)).estimates(header, respondents=np.full(30, 1000))
