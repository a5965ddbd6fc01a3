"""The attack bench: gains never exceed the bound, and the strongest attack comes near it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from keyveil.core.errors import KeyveilError, MechanismError
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.lab.attacks import ids
from keyveil.lab.attacks.added import single_counts, weighed
from keyveil.lab.attacks.bench import KINDS, Attack, attack
from keyveil.lab.attacks.found import largest_found, protocol_limits, thinned
from keyveil.lab.attacks.goals import Goal, Quantity, usual_target
from keyveil.lab.attacks.ids import id_search
from keyveil.lab.coins import SeededCoins
from keyveil.lab.simulate import simulate
from keyveil.learn import postprocess
from keyveil.mechanisms.counting import counts_of_each
from keyveil.mechanisms.registry import create, forms
from keyveil.protocols.base import Round
from keyveil.protocols.registry import as_protocol
from keyveil.robustness.influence import influence
from keyveil.testing.people import people

FORMS = dict(forms())


@pytest.mark.parametrize("title", FORMS)
def test_no_attack_exceeds_the_bound_and_the_strongest_on_averages_reaches_it(title: str) -> None:
    """Up and down, where the coins of those who are replaced fell as badly as they can.

    An honest device can send every report. So each of two collections that differ in a few reports, the strongest for
    and those against a key, may be the honest one: from the one the key is raised, from the other it is lowered.
    """
    mechanism, few = FORMS[title], 8
    quantity: Quantity = "frequency" if "frequency" in mechanism.estimated else "mean"
    crowd = people(mechanism, 100 * few, 5)
    honest = mechanism.perturb_many(crowd.records(mechanism.schema), SeededCoins(3))
    raised, lowered = (
        mechanism.tally(
            Attack(as_protocol(mechanism), Goal(0, quantity, up), "maximal", 0.01, 3, judged=60)(
                (), Round(1, mechanism), 0, honest
            )
        )
        for up in (True, False)
    )
    high, low = mechanism.estimate(raised), mechanism.estimate(lowered)
    for start, end, tally, up in ((low, high, lowered, True), (high, low, raised, False)):
        limits, goal = influence(mechanism, tally, few, start), Goal(0, quantity, up)
        gain, bound = goal.gain(start, end), goal.bound(start, limits)
        kind = limits.frequency_kind if quantity == "frequency" else limits.mean_kind
        assert kind == "bound"
        near = 0.1 if title.startswith("split") else 0.9  # what is proved of a merge holds for any weights
        assert near * bound <= gain <= bound + 1e-9, (up, gain, bound)


@pytest.mark.parametrize("title", ["kvue", "ssr", "oue"])
def test_reports_as_they_fell_out_give_an_attacker_less(title: str) -> None:
    """Whoever is replaced has sent what coins made of his record; the worst of these are less than the worst of all."""
    mechanism = FORMS[title]
    crowd = people(mechanism, 800, 5)
    asked = {"shares": (0.01,), "kinds": ("maximal",), "quantities": ("frequency",), "directions": (True, False)}
    plain, worst = (attack(mechanism, crowd, worst=how, seed=3, **asked).gains for how in (False, True))  # type: ignore[arg-type]
    for one, other in zip(plain, worst, strict=True):
        assert other.bound is not None and 0 < one.gain < other.gain + 1e-9 and other.gain <= other.bound + 1e-9


@pytest.mark.parametrize("name", ["kvue", "ssr", "pckv-ue"])
def test_every_kind_of_attack_stays_below_the_bound(name: str) -> None:
    mechanism = create(name, Schema(keys=6), 2, **({} if name == "kvue" else {"max_pairs": 2}))
    study = attack(mechanism, people(mechanism, 600, 7), shares=(0.02,), quantities=("frequency", "mean"), seed=1)
    assert {one.kind for one in study.gains} == set(KINDS) - (set() if name == "pckv-ue" else {"bare"})
    for one in study.gains:
        assert one.bound is not None and one.gain <= one.bound + 1e-9
    gained = {one.kind: one.gain for one in study.gains if one.quantity == "frequency" and one.up}
    assert gained["maximal"] >= max(gained.values()) - 1e-9 and gained["maximal"] > gained["random messages"]


def test_a_protocol_is_attacked_in_one_round_and_nothing_is_claimed() -> None:
    schema = Schema(keys=4)
    crowd = people(create("kvue", schema, 1), 1200, 3)
    study = attack("privkvm", crowd, schema, 2, shares=(0.05,), kinds=("maximal",), round=1, seed=2)
    assert {one.quantity for one in study.gains} == {"frequency", "mean", "rank"}
    assert all(one.bound is None and one.round == 1 for one in study.gains)
    frequency = next(one for one in study.gains if one.quantity == "frequency")
    assert frequency.gain > 0.05
    later = attack("privkvm", crowd, schema, 2, shares=(0.05,), kinds=("maximal",), round=2, seed=2)
    assert abs(next(one for one in later.gains if one.quantity == "frequency").gain) < frequency.gain / 2


def test_the_same_seed_gives_the_same_study_and_without_attackers_nothing_moves() -> None:
    mechanism = create("kvue", Schema(keys=5), 1)
    crowd = people(mechanism, 600, 3)
    first, again = (attack(mechanism, crowd, shares=(0.03,), seed=9).document() for _ in range(2))
    assert first == again
    nobody = attack(mechanism, crowd, shares=(0.0001,), kinds=("maximal",), seed=9)
    assert all(one.gain == 0 for one in nobody.gains)


def test_the_usual_target_is_the_rarest_key_that_is_told() -> None:
    mechanism = create("grr", Schema(keys=3), 4)
    crowd = people(mechanism, 3000, 4)
    study = attack(mechanism, crowd, shares=(0.01,), kinds=("random messages",), seed=1)
    frequency = study.estimates.frequency.values
    told = study.estimates.told
    assert study.target == study.estimates.schema.keys[int(np.where(told, frequency, np.inf).argmin())]
    assert usual_target(study.estimates) == int(study.target)


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"shares": (1.5,)}, "attack/share"),
        ({"shares": (float("nan"),)}, "attack/share"),
        ({"shares": (0.0,)}, "attack/share"),
        ({"target": "nobody"}, "schema/unknown-key"),
        ({"round": 2}, "attack/round"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(changed: dict[str, object], code: str) -> None:
    mechanism = create("grr", Schema(keys=3), 1)
    with pytest.raises(KeyveilError) as refused:
        attack(mechanism, people(mechanism, 50, 1), **changed)  # type: ignore[arg-type]
    assert refused.value.code == code and "\n" not in refused.value.sentence


def test_what_is_not_estimated_cannot_be_moved() -> None:
    mechanism = create("grr", Schema(keys=3), 1)
    with pytest.raises(MechanismError, match="gives no means"):
        attack(mechanism, people(mechanism, 50, 1), quantities=("mean",))


def test_trying_ids_pays_only_where_something_follows_from_them() -> None:
    schema = Schema(keys=8)
    gains = {}
    for name, options in (("kvue", {}), ("olh", {}), ("ssr", {"max_pairs": 2}), ("duchi", {})):
        mechanism = create(name, schema, 1, **options)
        crowd = people(mechanism, 1000, 3)
        tally = mechanism.tally(mechanism.perturb_many(crowd.records(schema), SeededCoins(2)))
        gains[name] = id_search(mechanism, tally, 10, [(0,)], 400, SeededCoins(4))
    assert not gains["ssr"], "nothing is derived from the id"
    ((kvue,), (olh,), (duchi,)) = gains["kvue"], gains["olh"], gains["duchi"]
    assert kvue.searched > 4 * kvue.given and duchi.searched > 4 * duchi.given > 0
    assert olh.searched == pytest.approx(olh.given, rel=0.01)


@pytest.mark.parametrize(("name", "judged"), [("wheel", 4096), ("wheel", 40), ("rappor", 4096), ("split", 100)])
def test_of_tried_ids_the_best_is_found_whether_reports_are_judged_or_taken_as_linear(
    name: str, judged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside every id and every message that the search tries, judged one by one."""
    monkeypatch.setattr(ids, "MOST_KINDS", judged)
    monkeypatch.setattr(ids, "IDS", 3)
    options = {"bits": 16, "cohorts": 4} if name == "rappor" else {"max_pairs": 2}
    mechanism = create(name, Schema(keys=4), 1, **options)
    tally = mechanism.tally(mechanism.perturb_many(people(mechanism, 600, 3).records(mechanism.schema), SeededCoins(2)))
    seen, plain = [], counts_of_each

    def noted(*given: Any) -> Any:
        seen.append(plain(*given))
        return seen[-1]

    monkeypatch.setattr(ids, "counts_of_each", noted)
    (found,) = id_search(mechanism, tally, 30, [(0, 1)], 300, SeededCoins(4))
    before = mechanism.estimate(tally).frequency.values[:2].sum()
    gains = [
        mechanism.estimate(tally + Tally(tally.fingerprint, 30, 30 * row.reshape(tally.counts.shape)))
        .frequency.values[:2]
        .sum()
        - before
        for row in np.unique(np.concatenate(seen), axis=0)
    ]
    assert 0 < found.given <= found.searched + 1e-9
    assert 0.97 * max(gains) <= found.searched <= max(gains) + 1e-9


def test_single_reports_are_kept_as_the_few_cells_that_they_touch() -> None:
    for title in ("kvue", "ssr", "oue", "olh", "split", "rappor"):
        mechanism = FORMS[title]
        reports = mechanism.perturb_many(people(mechanism, 40, 5).records(mechanism.schema), SeededCoins(3))
        single = single_counts(mechanism, reports)
        assert np.array_equal(sum(one.times(1) for one in single), mechanism.tally(reports).counts), title
        weights = np.random.default_rng(1).normal(size=mechanism.tally_shape)
        found = weighed(single, np.arange(weights.size), weights.reshape(-1))
        assert found == pytest.approx([float((one.times(1) * weights).sum()) for one in single])
    large = create("olh", Schema(keys=100_000), 4)
    reports = large.perturb_many(people(large, 5, 5).records(large.schema), SeededCoins(3))
    taken = sum(one.cells.nbytes + one.numbers.nbytes for one in single_counts(large, reports))
    assert taken < 0.1 * 5 * 8 * np.prod(large.tally_shape)


def test_fewer_reports_of_side_by_side_mechanisms_still_add_up() -> None:
    mechanism = FORMS["split"]
    tally = mechanism.tally(mechanism.perturb_many(people(mechanism, 301, 5).records(mechanism.schema), SeededCoins(3)))
    for left in (0, 1, 77, 150, 223, 301):
        fewer = thinned(mechanism, tally, left)
        mechanism.estimate(fewer)  # refused if parts do not add up
        assert fewer.reports == left
    assert np.array_equal(thinned(mechanism, tally, 301).counts, tally.counts)


def test_a_round_that_asks_few_people_may_hold_attackers_only() -> None:
    schema = Schema(keys=4)
    crowd = people(create("kvue", schema, 1), 3000, 3)
    result = simulate("pilot", crowd, schema, epsilon=2, seed=2)
    history = result.history
    few = history[0].tally.reports
    limits = protocol_limits(result.protocol, history, few + 50, SeededCoins(1), [0])
    assert few < 400 and limits.frequency_high[0] > result.estimates.frequency.values[0] + 0.05
    with pytest.raises(MechanismError, match="can be crafted"):
        protocol_limits(result.protocol, history, 3001, SeededCoins(1), [0])


def test_the_largest_change_of_any_answer_is_found_and_named_so() -> None:
    """Empirical Bayes has no bound; on an average the search comes near the bound and not beyond it."""
    mechanism = create("kvue", Schema(keys=5), 2)
    crowd = people(mechanism, 3000, 3)
    tally = mechanism.tally(mechanism.perturb_many(crowd.records(mechanism.schema), SeededCoins(2)))
    limits = influence(mechanism, tally, 30)

    def frequency(counts: Tally) -> float:
        return float(mechanism.estimate(counts).frequency.values[0])

    def shrunk(counts: Tally) -> float:
        return float(postprocess.estimates("bayes", mechanism.estimate(counts)).frequency.values[0])

    plain = largest_found(mechanism, tally, 30, frequency, [0], SeededCoins(5))
    bayes = largest_found(mechanism, tally, 30, shrunk, [0], SeededCoins(5), judged=12)
    assert plain.kind == bayes.kind == "largest found"
    assert limits.frequency_low[0] - 1e-3 <= plain.low < plain.value < plain.high <= limits.frequency_high[0] + 1e-3
    assert plain.high - plain.value > 0.3 * (limits.frequency_high[0] - plain.value)
    assert bayes.low < bayes.value < bayes.high
