"""Plans: who is best for whom, wishes that are solved, and wishes that cannot be met."""

from __future__ import annotations

from typing import Any

import pytest

import keyveil as kv
from keyveil.core.errors import KeyveilError, PlanError
from keyveil.core.schema import Schema
from keyveil.mechanisms.registry import create
from keyveil.planning.candidates import JOINT, considered
from keyveil.planning.costs import cost, table
from keyveil.planning.goals import NAMES, goals
from keyveil.planning.people import invented
from keyveil.planning.predict import predict
from keyveil.planning.preview import epsilon_in_words
from keyveil.planning.wanted import CLOSE

SPARSE: dict[str, Any] = {"users": 20_000, "keys": 60, "pairs": 4}
DENSE: dict[str, Any] = {"users": 20_000, "keys": 12, "pairs": 9}


def test_dense_sets_and_sparse_sets_have_other_winners() -> None:
    sparse, dense = kv.plan(**SPARSE), kv.plan(**DENSE)
    assert sparse.line("ssr").error < sparse.line("kvue").error
    assert dense.line("kvue").error < dense.line("ssr").error
    assert "most people hold most keys" in dense.line("kvue").why
    assert [line.error for line in sparse.lines] == sorted(line.error for line in sparse.lines)


def test_a_plan_names_a_mechanism_with_all_its_options() -> None:
    found = kv.plan(**SPARSE, goal="frequency")
    made = kv.mechanism(found.best.name, found.schema, found.epsilon, **found.best.options)
    assert made.fingerprint == found.best.mechanism.fingerprint
    document = found.document()
    assert document["best"] == document["mechanisms"][0]["name"] == found.best.name
    assert {"name", "se_frequency", "se_mean", "bits", "rounds", "why"} <= set(document["mechanisms"][0])


@pytest.mark.parametrize("goal", ["frequency", "mean", "top:5", "rare", "fairness", "change"])
def test_every_goal_has_a_best_mechanism(goal: str) -> None:
    found = kv.plan(**SPARSE, goal=goal)
    assert len(found.lines) > 5
    assert found.best.method == "closed form"


def test_forms_with_weights_are_tried_with_other_caps() -> None:
    found = kv.plan(users=20_000, keys=20, pairs=4, goal="fairness")
    assert found.best.error <= min(line.error for line in found.lines)
    assert found.best.method == "closed form"


def test_a_cap_is_as_small_as_pays() -> None:
    """Where hardly anything is learnt of a key, a smaller cap has less error; where much is, a larger one."""
    rare, clear = (
        kv.plan(users=users, keys=200, pairs=8, epsilon=epsilon, goal="frequency", mechanisms=["ssr"]).best
        for users, epsilon in ((2_000, 1), (10**6, 4))
    )
    assert rare.options["max_pairs"] < clear.options["max_pairs"]


def test_a_change_of_a_key_that_is_cut_is_seen_less() -> None:
    """A cap of two leaves about half of every key and of its changes."""
    people = invented(10_000, 20, 4)
    cut, whole = (
        predict(create("pckv-grr", Schema(keys=20), 2, max_pairs=cap), people) for cap in (2, 20)
    )  # no overflow group corrects them
    share = people.kept(2).share[0]
    assert share < 0.6
    kept = people.frequency * share
    expected = (cut.frequency_se**2 + kept * (1 - kept) / people.n) ** 0.5 / share
    assert cut.changing_se == pytest.approx(expected)
    assert whole.changing_se == pytest.approx(
        (whole.frequency_se**2 + people.frequency * (1 - people.frequency) / 1e4) ** 0.5
    )


def test_a_wish_without_a_goal_is_the_goal() -> None:
    known: dict[str, Any] = {"users": 5_000, "keys": 10, "pairs": 3, "mechanisms": ["kvue"]}
    wishes: list[dict[str, Any]] = [{"smallest": 0.1}, {"change": 0.1}, {"error": 0.1}]
    assert [kv.plan(**known, **wish).goals[0].name for wish in wishes] == ["rare", "change", "both"]
    assert kv.plan(**known, change=0.1, goal="mean").goals[0].name == "mean"


def test_the_curves_of_a_wish_go_through_what_meets_it() -> None:
    found = kv.plan(**SPARSE, change=0.05, at=0.1, mechanisms=["ssr", "kvue"])
    assert found.solved is not None
    for curve in found.solved.curves:
        assert curve.solved is not None
        reached = curve.reached[curve.places.index(curve.solved)]
        assert 0.9 * 0.05 < reached <= CLOSE * 0.05
        assert list(curve.reached) == sorted(curve.reached, reverse=True)


@pytest.mark.parametrize("name", ["ssr", "kvue", "apart"])
def test_what_a_report_costs_is_between_what_was_measured(name: str) -> None:
    row = table()["mechanisms"][name]
    small, large = (kv.plan(users=9_000, keys=d, pairs=4, mechanisms=[name]).best.prediction.cost for d in (100, 300))
    assert small is not None and large is not None
    assert small == pytest.approx((row["device"][1], row["server"][1]), rel=1e-9)
    assert min(row["device"][1:3]) <= large.device <= max(row["device"][1:3])


def test_every_mechanism_that_plans_consider_was_measured() -> None:
    assert set(considered(goals("both")[0])) | set(JOINT) <= set(table()["mechanisms"])


def test_an_epsilon_is_told_by_exact_probabilities() -> None:
    """From the rates at which reports support a key, or from the worst report of the certificate."""
    told = epsilon_in_words(create("kvue", Schema(keys=5), 1))
    holds, lacks = create("kvue", Schema(keys=5), 1).support_rates()  # type: ignore[attr-defined]
    assert f"{100 * float(holds):.4g} %" in told and f"{100 * float(lacks):.4g} %" in told
    both = epsilon_in_words(create("block", Schema(keys=5), 1))
    assert "57.61 %" in both and "21.19 %" in both  # e/(e + 2) and 1/(e + 2)
    assert "if they have one key" in both and "at most 2.72" in both


def test_the_cost_of_a_split_is_that_of_its_groups() -> None:
    split = create("split", Schema(keys=100), 1, groups="kvue:3,block:1")
    kvue, block = (table()["mechanisms"][name]["device"][1] for name in ("kvue", "block"))
    found = cost(split)
    assert found is not None and found.device == pytest.approx(0.75 * kvue + 0.25 * block)
    assert cost(create("grr", Schema(keys=5), 1)) is None


def test_goals_without_a_closed_form_are_tried() -> None:
    found = kv.plan(users=3_000, keys=8, pairs=2, goal="distribution", mechanisms=["kv-sw", "kvue", "block"])
    assert {line.name for line in found.lines} == {"kv-sw", "kvue"}
    assert found.best.method == "simulation"
    assert "does not tell" in found.left_out["block"]


def test_several_goals_part_the_people() -> None:
    found = kv.plan(users=5_000, keys=8, pairs=2, goal="frequency,conditional", mechanisms=["ssr", "moments"])
    assert {line.name for line in found.lines} == {"split", "moments"}
    assert found.line("split").mechanism.options["groups"].startswith("ssr:")


def test_bits_are_a_limit() -> None:
    found = kv.plan(**SPARSE, bits=8)
    assert max(line.mechanism.bits_per_report for line in found.lines) <= 8
    assert "ssr" not in {line.name for line in found.lines}


def test_a_wish_is_solved_for_people_and_for_epsilon() -> None:
    found = kv.plan(**SPARSE, goal="frequency", error=0.02, mechanisms=["ssr", "kvue"])
    assert found.solved is not None
    assert found.solved.people is not None and found.solved.epsilon is not None
    more = kv.plan(found.solved.people, 60, 4, goal="frequency", mechanisms=["ssr", "kvue"])
    less = kv.plan(found.solved.people // 2, 60, 4, goal="frequency", mechanisms=["ssr", "kvue"])
    assert more.best.error <= 0.02 * CLOSE < less.best.error
    larger = kv.plan(**SPARSE, epsilon=found.solved.epsilon, goal="frequency", mechanisms=["ssr", "kvue"])
    assert larger.best.error <= 0.02 * CLOSE


def test_what_is_impossible_is_answered_with_what_is_possible() -> None:
    found = kv.plan(100, 60, 4, goal="change", change=0.01, at=0.1, mechanisms=["ssr"])
    assert found.solved is not None
    assert found.solved.epsilon is None
    assert "is possible" in " ".join(found.solved.sentences(100, found.epsilon))


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ({"goal": "moods"}, "plan/goal", "there are frequency"),
        ({"goal": "rare:3"}, "plan/goal", "top:10"),
        ({"goal": "top:0"}, "plan/goal", "top:10"),
        ({"goal": "top:" + "9" * 5000}, "plan/goal", "top:10"),
        ({"goal": ""}, "plan/goal", "has a goal"),
        ({"epsilon": 0}, "epsilon/invalid", "greater than zero"),
        ({"users": None}, "plan/people", "how many people"),
        ({"keys": None}, "plan/people", "how many keys"),
        ({"pairs": None}, "plan/people", "on average"),
        ({"bits": 0}, "plan/bits", "more than 0 bits"),
        ({"bits": 0.5}, "plan/bits", "with 2 bits"),
        ({"error": 0.1, "smallest": 0.1}, "plan/wish", "one wish"),
        ({"error": 3}, "plan/wish", "between 0 and 1"),
        ({"at": 0.1}, "plan/wish", "belongs to a wish for a change"),
        ({"mechanisms": ["olh"], "goal": "mean"}, "plan/goal", "No mechanism"),
        ({"mechanisms": ["block"], "goal": "distribution"}, "plan/goal", "Possible are, for .*kv-sw"),
        ({"keys": 30_000, "goal": "frequency,distribution"}, "plan/keys", "most frequent of the 30,000"),
        ({"mechanisms": ["nobody"]}, "mechanism/unknown", "nobody"),
        ({"sample": "synthetic:baskets"}, "plan/people", "give either"),
        ({"schema": kv.Schema(keys=3)}, "plan/people", "3 keys"),
    ],
)
def test_wishes_that_contradict_are_one_sentence(given: dict[str, Any], code: str, said: str) -> None:
    with pytest.raises(KeyveilError, match=said) as refused:
        kv.plan(**{**SPARSE, **given})
    assert refused.value.code == code


def test_goals_are_named_once() -> None:
    assert [goal.name for goal in goals("both, top:3,both")] == ["both", "top"]
    assert all(make(None).meaning for make in NAMES.values())


def test_a_plan_for_a_schema_of_other_keys_is_refused() -> None:
    from keyveil.planning.plan import ranked

    with pytest.raises(PlanError, match="planned for"):
        ranked(invented(10, 3, 1), schema=kv.Schema(keys=4))


def test_two_rounds_are_tried_where_they_are_allowed() -> None:
    found = kv.plan(users=3_000, keys=8, pairs=6, epsilon=4, rounds=2, mechanisms=["kvue", "pilot", "privkvm"])
    assert {line.name: line.rounds for line in found.lines} == {"kvue": 1, "pilot": 2}
    assert found.line("pilot").method == "simulation"
    assert "rounds" in found.left_out["privkvm"]
    assert [line.name for line in kv.plan(**DENSE, mechanisms=["kvue", "pilot"]).lines] == ["kvue"]
    with pytest.raises(PlanError, match="one round or more"):
        kv.plan(**DENSE, rounds=0)


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"bits": "long"}, "number for the bits of a report, not 'long'"),
        ({"rounds": 1.5}, "one round or more, not 1.5"),
        ({"error": "small"}, "number for a wish, not 'small'"),
        ({"change": 0.1, "at": "fries"}, "number for the share of the people, not 'fries'"),
        ({"mechanisms": ["privkvm"]}, "privkvm: It takes several rounds, and one is allowed"),
        ({"users": 10**13}, "from 1 to 1,000,000,000,000"),
    ],
)
def test_what_is_no_number_is_said(told: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PlanError, match=sentence):
        kv.plan(**{**DENSE, **told})


def test_goals_and_mechanisms_may_be_lists_or_texts() -> None:
    listed = kv.plan(**SPARSE, goal=["frequency", "mean"], mechanisms=["ssr", "kvue"])
    written = kv.plan(**SPARSE, goal="frequency,mean", mechanisms="ssr, kvue")
    assert listed.document() == written.document()


def test_one_key_that_everybody_holds_is_planned_for() -> None:
    """Its frequency has no error with mechanisms that know how many pairs people hold."""
    found = kv.plan(users=1_000, keys=1, pairs=1, sizes="1")
    assert found.best.error == 0 and found.best.why.startswith("least error")
    assert found.lines[-1].error > 0 and found.lines[-1].why.startswith("more error than none")
    assert kv.plan(users=1_000, keys=1, pairs=1, goal="mean,frequency").best.error >= 1
