"""The overflow group on people as they come: intervals cover what a cap hides, or say that they do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from keyveil.core.estimates import Estimates
from keyveil.core.records import Records
from keyveil.core.schema import Schema
from keyveil.core.undercount import Undercount
from keyveil.frames.population import Population
from keyveil.lab import datasets
from keyveil.lab.caps import missing
from keyveil.lab.coins import SeededCoins
from keyveil.lab.datasets.dataset import Dataset
from keyveil.lab.simulate import simulate
from keyveil.learn.comparisons import compare_keys, subset_sum
from keyveil.learn.dependence import links
from keyveil.learn.noise import without_undercount
from keyveil.learn.ranking import top
from keyveil.learn.shrinkage import bayes
from keyveil.mechanisms.overflow import beside
from keyveil.mechanisms.overflow import undercount as judgement
from keyveil.mechanisms.overflow.undercount import Surplus, undercount
from keyveil.mechanisms.registry import create
from keyveil.mechanisms.rounds.overflow import OverflowQuestion
from tests.mechanisms.test_overflow import KEYS, Deaf, solution


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


def truth_of(dataset: Dataset) -> Any:
    return dataset.population.truth(dataset.schema).frequency


def share_of_truth(dataset: Dataset, estimates: list[Estimates]) -> float:
    """What is estimated of the 20 most frequent keys, over their true sum."""
    truth = truth_of(dataset)
    top = np.argsort(-truth)[:20]
    return float(np.mean([one.frequency.values[top].sum() for one in estimates]) / truth[top].sum())


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
    assert share_of_truth(baskets, estimates) > 0.97
    monkeypatch.setattr(judgement, "with_undercount", lambda solution, found: solution)  # the correction is dropped
    assert share_of_truth(baskets, covered(baskets, 6, "wsr", 3)[1]) < 0.93


@pytest.mark.parametrize("mutant", [False, True])
def test_keys_that_the_cap_surely_moves_are_flagged_and_a_mutant_that_says_ok_is_seen(
    mutant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People far above a cap that is taken to cut some only, so that nothing is corrected: the 20 most frequent keys
    lack more than four standard errors of noise each. Seeded; no estimate is that far off by chance.
    """
    monkeypatch.setattr(beside, "cuts_alike", lambda main: False)
    if mutant:
        monkeypatch.setattr(judgement, "truncated_keys", lambda found, f, variance: np.zeros(len(f), dtype=bool))
    heavy = datasets.load("heavy", n=30_000, seed=4)
    _, (estimates,) = covered(heavy, 6, "wsr", 1)
    lost = missing(create("wsr", heavy.schema, 1, **{**estimates.header.options, "overflow": "off"}), heavy.population)
    much = np.argsort(-truth_of(heavy))[:20]
    assert (lost[much] > 4 * without_undercount(estimates).frequency.se[much]).all()
    assert estimates.header.undercount is not None
    assert estimates.header.undercount.state == "truncated"
    assert (estimates.frequency.flag[much] == 4).all() != mutant


def test_people_far_above_the_cap_are_reached_and_frequencies_corrected() -> None:
    """At ε 4 answers reach eight times as far as at ε 1. Of 60 intervals of 95 % fewer than 46 hold by 1e-7."""
    share, estimates = covered(datasets.load("heavy", n=60_000, seed=4), 4, "wsr", 3)
    assert share >= 46 / 60
    for one in estimates:
        assert one.header.undercount is not None and one.header.undercount.corrected
        assert not (one.frequency.flag == 4).any()


def everything(n: int, d: int) -> tuple[Population, Schema]:
    """One of fifty people holds every key, all others two: rare keys are those of people whose pairs hardly count."""
    busy, rng = np.arange(n) % 50 == 0, np.random.default_rng(1)
    keys = [np.arange(d) if all_of_them else np.array([0, 1 + rng.binomial(d - 2, 0.1)]) for all_of_them in busy]
    users = np.repeat(np.arange(n), [len(own) for own in keys])
    flat = np.concatenate(keys)
    return Population.from_columns(users, flat.astype(str), np.zeros(len(flat)), people=n), Schema(keys=d)


@pytest.mark.parametrize("mutant", [False, True])
def test_rare_keys_that_busy_people_hold_are_covered_and_a_mutant_is_not(
    mutant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They lack five standard errors, and share one limit of 95 %; seeded, so that it holds in three runs."""
    if mutant:
        monkeypatch.setattr(judgement, "EVEN", 0.0)
        monkeypatch.setattr(Undercount, "highest", lambda found, f, se, z: found.stretch * (f + z * se))
    people, schema = everything(120_000, 100)
    truth = people.truth(schema).frequency
    for seed in range(3):
        column = simulate("ssr", people, schema, 4, seed=seed, shortcut=True, max_pairs=2).estimates.frequency
        share = float(np.mean((column.low <= truth) & (truth <= column.high)))
        assert (share > 0.9) == (not mutant)


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


def test_a_single_key_has_the_error_of_the_surplus_where_none_is_seen_and_never_more_than_the_limit() -> None:
    """Of 0 ± 0.8 above 4 pairs a quarter lacks 0.05, and a key of busy people 2·0.8/20 more."""
    found, f, none = replace(told(0.0, 0.8), limit=0.3), np.array([0.25, 0.0]), np.zeros(2)
    assert found.highest(f, none, 1.96) == pytest.approx([0.25 + 1.96 * 0.13, 1.96 * 0.08])
    assert found.highest(f, np.full(2, 0.05), 1.96)[1] == pytest.approx(1.96 * np.hypot(0.05, 0.08))
    limit = replace(found, limit=0.1)
    assert limit.highest(f, none, 1.96) == pytest.approx([0.35, 0.1])
    seen = replace(found, seen=True)
    assert seen.highest(f, none, 1.96) == pytest.approx(f)


def test_two_keys_that_few_people_hold_both_are_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of twenty people holds both, the cap is one, and few answer how far they exceed it; 20 runs each, seeded."""
    rng = np.random.default_rng(5)

    def share() -> float:
        inside = []
        for n in (300, 3000):
            held = rng.random((n, 1)) < [[0.5, 0.05]]
            held |= np.hstack([np.zeros((n, 1), bool), rng.random((n, 1)) < 0.05])
            keys = np.nonzero(held)[1].astype(np.int32)
            offsets = np.concatenate([[0], np.cumsum(held.sum(axis=1))]).astype(np.int64)
            people = Records(offsets, keys, np.zeros_like(keys), 2)
            made = create("ssr", Schema(keys=2), 4, max_pairs=1, overflow="0.03")
            for run in range(20):
                column = made.estimate(made.tally(made.perturb_many(people, SeededCoins(run)))).frequency
                truth, plain = held.mean(axis=0), column.flag <= 1
                inside += ((column.low <= truth) & (truth <= column.high))[plain].tolist()
        return float(np.mean(inside))

    assert share() >= 0.95
    monkeypatch.setattr(Undercount, "highest", lambda found, f, se, z: found.stretch * (f + z * se) + found.raised)
    assert share() < 0.85


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
    monkeypatch.setattr(beside, "cuts_alike", lambda main: False)
    heavy = datasets.load("heavy", n=30_000, seed=4)
    _, (estimates,) = covered(heavy, 8, "ssr", 1)
    hidden = estimates.header.undercount
    assert hidden is not None and hidden.widens and not hidden.corrected
    unseen = replace(hidden, stretch=1.0, raised=0.0)
    plain = replace(estimates, header=replace(estimates.header, undercount=unseen))
    now, before = (compare_keys(one, 0, 90) for one in (estimates, plain))
    assert now.difference.value == before.difference.value and now.difference.se == before.difference.se
    assert now.difference.high >= before.difference.high and now.difference.low < before.difference.low
    assert 0 <= now.z < before.z and now.p_value > before.p_value
    assert top(nearly_exact(hidden), 5).candidates > top(nearly_exact(unseen), 5).candidates == 5


def nearly_exact(hidden: Undercount) -> Estimates:
    """Thirty keys that lie ten standard errors apart, under such a cap."""
    made = create("ssr", KEYS, 1, max_pairs=2)
    header = replace(made.header(1000), undercount=hidden)
    return solution(np.linspace(0.5, 0.21, 30)).estimates(header, respondents=np.full(30, 1000))
