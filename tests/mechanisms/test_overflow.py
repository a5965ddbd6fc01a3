"""The overflow group: what a cap hides is measured, limited, flagged and, where it pays, corrected."""

from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from keyveil.cli.campaign_files import drafted
from keyveil.core.coins import Coins
from keyveil.core.errors import KeyveilError, PrivacyError
from keyveil.core.estimates import FLAGS, Estimates
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.core.undercount import Undercount
from keyveil.frames.population import Population
from keyveil.lab.aggregate import aggregate
from keyveil.lab.coins import SeededCoins
from keyveil.lab.simulate import simulate
from keyveil.learn.comparisons import subset_sum
from keyveil.learn.dependence import links
from keyveil.learn.noise import noise_alone
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.capabilities import Capped, can
from keyveil.mechanisms.overflow.beside import BesideOverflow
from keyveil.mechanisms.overflow.undercount import Surplus, cuts_alike, truncated_keys, undercount
from keyveil.mechanisms.registry import create, create_round, forms, from_document
from keyveil.mechanisms.responses import Solution, Spread
from keyveil.mechanisms.rounds.overflow import OverflowQuestion
from keyveil.privacy.certify import certify
from keyveil.privacy.enumerate import law

KEYS = Schema(keys=30)
ONE = Fraction(1)


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


class Told(OverflowQuestion):
    """A mutant: who is beyond the first reach says so for certain."""

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        return 3 if len(pairs) - self.max_pairs > self.reaches[0] else super().respond(pairs, word, coins)


def test_four_answers_keep_epsilon_and_a_mutant_does_not() -> None:
    """All records of four keys, cap 1: only who holds four is beyond the first reach, in one of two draws."""
    question = create_round("overflow", Schema(keys=30), 4, max_pairs=3, reach=24).reduced()
    assert isinstance(question, OverflowQuestion) and question.reaches == (2, 4)
    certificate = certify(question)
    assert certificate.certified and certificate.method == "enumeration"
    everything = tuple((key, 0) for key in range(4))
    beyond, channel = law(lambda coins: question.respond(everything, 0, coins))[3], question.channel
    assert beyond == (channel.probability(3, 3) + channel.probability(2, 3)) / 2
    with pytest.raises(PrivacyError, match="more than its closed form"):
        certify(Told(question.schema, question.epsilon, 1, 4))


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


def test_a_correction_is_made_where_it_pays() -> None:
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
        "beyond reach": "corrected",  # as far as answers reach, and with an upper limit that holds for any key
        "several caps": "truncated",
        "chance": "none",
    }
    assert states["pays"].scale == states["pays"].kept == pytest.approx(3 / 3.5)
    assert states["pays"].raised == pytest.approx(2 * 0.5 / 30) and "upper limits" not in str(states["pays"])
    assert states["beyond reach"].raised == states["beyond reach"].limit and "may be less" in str(
        states["beyond reach"]
    )
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
