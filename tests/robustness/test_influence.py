"""Limits of what crafted reports can do: from the estimator itself, proved, and reached."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.lab import datasets
from keyveil.lab.attacks.found import thinned
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.overflow import reach as overflow_reach
from keyveil.mechanisms.registry import create, forms
from keyveil.robustness.influence import influence, with_influence
from keyveil.testing.capabilities import effects_are_true
from keyveil.testing.people import people

FORMS = dict(forms())


def counted(mechanism: Mechanism, n: int = 2000) -> Tally:
    crowd = people(mechanism, n, 5)
    return mechanism.tally(mechanism.perturb_many(crowd.records(mechanism.schema), SeededCoins(3)))


@pytest.mark.parametrize("title", FORMS)
def test_every_mechanism_says_how_far_reports_move_it_and_it_is_true(title: str) -> None:
    effects_are_true(FORMS[title])


def test_an_unary_oracle_moves_by_the_closed_form() -> None:
    """m/n · 1/(p - q): a report supports a key or not."""
    oracle, tally = create("oue", Schema(keys=8), 1), counted(create("oue", Schema(keys=8), 1))
    p, q = (float(rate) for rate in oracle.support_rates())  # type: ignore[attr-defined]
    limits, estimates = influence(oracle, tally, 20), oracle.estimate(tally)
    assert limits.frequency_high - estimates.frequency.values == pytest.approx(np.full(8, 20 / 2000 / (p - q)))
    assert limits.frequency_kind == "bound" and limits.mean_kind == "none"


@pytest.mark.parametrize("name", ["kvue", "privkv", "ssr", "wsr", "pckv-ue", "moments", "apart", "split"])
def test_limits_grow_with_attackers_and_hold_the_estimates(name: str) -> None:
    options: dict[str, Any] = {} if name in ("kvue", "privkv", "moments") else {"max_pairs": 2}
    mechanism = FORMS["split"] if name == "split" else create(name, Schema(keys=3), 2, **options)
    tally = counted(mechanism, 4000)
    estimates = mechanism.estimate(tally)
    nobody, few, many = (influence(mechanism, tally, m) for m in (0, 4, 40))
    assert nobody.frequency_low == pytest.approx(estimates.frequency.values)
    for less, more in ((nobody, few), (few, many)):
        assert (less.frequency_high <= more.frequency_high + 1e-12).all()
        assert (less.frequency_low >= more.frequency_low - 1e-12).all()
        assert (less.mean_high <= more.mean_high + 1e-12).all() and (less.mean_low >= more.mean_low - 1e-12).all()
    best, worst = many.ranks(estimates.frequency.values)
    true = 1 + np.argsort(np.argsort(-estimates.frequency.values))
    assert (best <= true).all() and (true <= worst).all()


def test_the_mean_of_a_key_that_can_vanish_can_be_anything() -> None:
    mechanism = create("kvue", Schema(keys=3), 1)
    limits = influence(mechanism, counted(mechanism, 600), 300)
    assert (limits.mean_low == -1).all() and (limits.mean_high == 1).all()


def test_everybody_can_be_an_attacker_and_no_more() -> None:
    mechanism = create("grr", Schema(keys=4), 1)
    tally = counted(mechanism, 500)
    least, largest = mechanism.report_effects(tally)[0].range(1.0, 0.0)  # type: ignore[attr-defined]
    limits = influence(mechanism, tally, 500)
    assert limits.frequency_low == pytest.approx(least) and limits.frequency_high == pytest.approx(largest)
    for attackers in (-1, 501):
        with pytest.raises(MechanismError, match="can be crafted") as refused:
            influence(mechanism, tally, attackers)
        assert refused.value.code == "attack/attackers"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("pckv-ue", {"max_pairs": 2, "estimator": "published"}),
        ("privkv", {"estimator": "published"}),
        ("f2m", {"estimator": "mle"}),
    ],
)
def test_a_mechanism_without_a_bound_is_refused_in_one_sentence(name: str, options: dict[str, Any]) -> None:
    mechanism = create(name, Schema(keys=3), 1, **options)
    with pytest.raises(MechanismError, match="how far crafted reports can move") as refused:
        influence(mechanism, counted(mechanism, 100), 1)
    assert refused.value.code == "attack/no-bound" and "\n" not in refused.value.sentence


def test_an_overflow_group_is_a_lever_and_is_in_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of a hundred people correct all frequencies: half of the attackers there and half at a key do most."""
    mechanism, m = create("ssr", Schema(keys=6), 2, max_pairs=2, overflow="0.03"), 200
    crowd = datasets.independent(4000, np.full(6, 0.2), np.linspace(-0.5, 0.6, 6), 3)
    tally = mechanism.tally(mechanism.perturb_many(crowd.records(mechanism.schema), SeededCoins(2)))
    limits, now = influence(mechanism, tally, m), mechanism.estimate(tally).frequency.values[0]
    assert limits.frequency_kind == limits.mean_kind == "bound"
    main, group = (mechanism.part_tally(tally, number) for number in (0, 1))  # type: ignore[attr-defined]
    kept = thinned(mechanism.main, main, main.reports - m)  # type: ignore[attr-defined]
    plus, far = np.array([[0], [1]]) * (np.arange(6) == 0), np.eye(len(group.counts), dtype=np.int64)[-1]

    def raised(there: int) -> float:
        """The frequency if so many answer in the group that they exceed the cap by far."""
        new = Tally(main.fingerprint, main.reports - there, kept.counts + (m - there) * plus)
        answers = Tally(group.fingerprint, group.reports + there, group.counts + there * far)
        return float(mechanism.estimate(mechanism.whole_tally([new, answers])).frequency.values[0])  # type: ignore[attr-defined]

    by_key, parted, by_group = (raised(there) for there in (0, m // 2, m))
    assert parted > now + 1.5 * max(by_key - now, by_group - now), "neither alone is the most"
    # Worse: those of the group who do not exceed the cap by far are replaced, and all crafted reports name the key.
    gone = int(group.counts[:-1].sum())
    rest = thinned(mechanism.main, main, main.reports - (m - gone))  # type: ignore[attr-defined]
    new = Tally(main.fingerprint, rest.reports + m, rest.counts + m * plus)
    answers = Tally(group.fingerprint, group.reports - gone, group.counts * far)
    worst = float(mechanism.estimate(mechanism.whole_tally([new, answers])).frequency.values[0])  # type: ignore[attr-defined]
    assert now + 0.4 * (limits.frequency_high[0] - now) < worst < limits.frequency_high[0]
    assert parted < limits.frequency_high[0]
    for name, instead in (("largest_correction", lambda *_: 1.0), ("SHARES", (0.0,))):
        with monkeypatch.context() as changed:
            changed.setattr(overflow_reach, name, instead)
            assert influence(mechanism, tally, m).frequency_high[0] < worst, f"without {name} the limit is broken"


def test_people_who_hide_what_they_exceed_the_cap_by_are_in_the_limits() -> None:
    """Those who are replaced may be the ones in the group who exceed the cap: then no frequency is corrected."""
    mechanism = create("ssr", Schema(keys=6), 4, max_pairs=1, overflow="0.03")
    crowd = datasets.independent(4000, np.full(6, 0.5), np.linspace(-0.5, 0.6, 6), 3)
    tally = mechanism.tally(mechanism.perturb_many(crowd.records(mechanism.schema), SeededCoins(2)))
    main, group = (mechanism.part_tally(tally, number) for number in (0, 1))  # type: ignore[attr-defined]
    gone = min(60, int(group.counts[-1]))
    answers = group.counts - gone * np.eye(len(group.counts), dtype=np.int64)[-1]
    answers[0] += gone
    moved = mechanism.estimate(mechanism.whole_tally([main, Tally(group.fingerprint, group.reports, answers)]))  # type: ignore[attr-defined]
    before, low = mechanism.estimate(tally).frequency.values, influence(mechanism, tally, gone).frequency_low
    assert (moved.frequency.values < before).all() and (low <= moved.frequency.values + 1e-9).all()


def test_a_part_that_nobody_was_in_is_one_that_attackers_may_be_in() -> None:
    """Where only one part was heard, its weight is one as long as nobody answers in another; attackers may."""
    mechanism = create("split", Schema(keys=3), 2, groups="ssr:1,moments:1", max_pairs=2, overflow="off")
    parts = [Tally.empty(one.fingerprint, one.tally_shape) for one in mechanism.parts]  # type: ignore[attr-defined]
    parts[0] = counted(mechanism.parts[0], 500)  # type: ignore[attr-defined]
    limits = influence(mechanism, mechanism.whole_tally(parts), 10)  # type: ignore[attr-defined]
    assert limits.frequency_kind == limits.mean_kind == "bound"
    alone = influence(mechanism.parts[0], parts[0], 10)  # type: ignore[attr-defined]
    assert (limits.frequency_high > alone.frequency_high + 0.3).all() and (limits.mean_high == 1).all()


def test_limits_travel_with_the_estimates() -> None:
    mechanism = create("kvue", Schema(keys=3, low=-2, high=2), 2)
    tally = counted(mechanism)
    estimates = with_influence(mechanism.estimate(tally), mechanism, tally, 20)
    again = Estimates.from_json(estimates.to_json())
    assert again.attacked is not None and estimates.attacked is not None
    assert again.attacked.mean_high == pytest.approx(estimates.attacked.mean_high)
    row = again.rows()[0]
    assert row["frequency_attacked_low"] < row["frequency"] < row["frequency_attacked_high"]  # type: ignore[operator]
    assert -2 <= row["mean_attacked_low"] <= row["mean"] <= row["mean_attacked_high"] <= 2  # type: ignore[operator]
    assert "20 crafted reports" in str(estimates.attacked)
    page = estimates._repr_html_()
    assert page.count('fill-opacity=".15"') == 6, "a paler interval for every frequency and mean"
