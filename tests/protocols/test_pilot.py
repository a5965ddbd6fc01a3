"""Pilot: a disjoint group decides the cap, the weights or the law of sizes of everybody else."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from keyveil import testing as checks
from keyveil.core.epsilon import keeps
from keyveil.core.errors import KeyveilError, ProtocolError
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.frames.population import Population
from keyveil.lab import datasets
from keyveil.mechanisms.rounds.set_size import SizeQuestion
from keyveil.protocols.base import Finished, history_document, most_spent, resume
from keyveil.protocols.pilot import Pilot
from keyveil.protocols.weights import rare_first
from tests.protocols.rounds import finish

SCHEMA = Schema(keys=8)
SHARES, MEANS = np.linspace(0.1, 0.5, 8), np.linspace(-0.6, 0.7, 8)


def people(n: int, seed: int) -> Population:
    return datasets.independent(n, SHARES, MEANS, seed)


@pytest.mark.parametrize(
    "check",
    [
        checks.privacy_by_enumeration,
        checks.tightness,
        checks.single_draws_have_the_law,
        checks.bulk_draws_have_the_law,
        checks.reports_travel,
        checks.parts_add_up,
    ],
)
def test_the_question_about_sizes_is_a_mechanism_like_any_other(check) -> None:  # type: ignore[no-untyped-def]
    check(SizeQuestion(SCHEMA, Fraction(1), 8).reduced())


def test_the_cap_is_the_quantile_of_the_sizes_that_the_pilot_tells() -> None:
    """4,000 people of the pilot find the size law within 0.06 in total, so the quantile is off by at most one."""
    pilot, crowd = Pilot(SCHEMA, Fraction(2), share=Fraction(1, 5)), people(20_000, 2)
    finished = finish(pilot, crowd, 2)
    true = int(np.quantile(crowd.sizes, 0.9, method="inverted_cdf"))
    assert abs(getattr(finished[1].round.mechanism, "max_pairs", 0) - true) <= 1
    assert finished[1].tally.reports > 3.9 * finished[0].tally.reports


def test_a_cap_that_the_pilot_chose_is_one_that_it_can_judge() -> None:
    """Nine of ten people hold all eight keys, and the pilot counts four: who holds more is still told."""
    sizes = np.where(np.arange(6000) % 10 == 0, 1, 8)
    keys = np.concatenate([np.arange(size) for size in sizes])
    crowd = Population.from_columns(np.repeat(np.arange(6000), sizes), keys, np.zeros(len(keys)))
    for most, cap in ((4, 3), (8, 8)):
        pilot = Pilot(SCHEMA, Fraction(4), share=Fraction(1, 5), most=most)
        finished = finish(pilot, crowd, 2)
        found = pilot.estimate(finished).header.undercount
        assert getattr(finished[1].round.mechanism, "max_pairs", 0) == cap
        assert found is None if most == 8 else found is not None and found.seen


def test_everybody_answers_once_with_the_whole_budget() -> None:
    pilot = Pilot(SCHEMA, Fraction(1), "wsr", theta=Fraction(1, 4))
    finished = finish(pilot, people(3000, 1), 1)
    assert [one.round.mechanism.name for one in finished] == ["set-size", "ssr", "wsr"]
    assert most_spent([one.round for one in finished]) == 1
    assert sum(one.tally.reports for one in finished) == 3000
    assert all(keeps(one.round.mechanism.certificate().ratio, Fraction(1)) for one in finished)


def test_rare_keys_get_the_larger_weights() -> None:
    pilot = Pilot(SCHEMA, Fraction(2), "wsr", theta=Fraction(1, 2), share=Fraction(1, 2), max_pairs=8)
    weights: tuple[int, ...] = pilot.weights(finish(pilot, people(20_000, 3), 3)) or ()
    assert weights[0] > 2 * weights[-1]
    assert max(weights) == 1000 and min(weights) >= 1


def test_erratum_E3_an_estimate_at_or_below_zero_gives_a_finite_weight() -> None:  # noqa: N802
    pilot = Pilot(SCHEMA, Fraction(1), "wsr", theta=Fraction(1), max_pairs=8)
    asked = pilot.next_round([])
    assert asked is not None
    empty = Finished(asked, Tally(asked.mechanism.fingerprint, 100, np.zeros(asked.mechanism.tally_shape, np.int64)))
    assert (empty.estimates().frequency.values < 0).all()
    assert rare_first(empty.estimates(), 2.0) == (1000,) * 8
    following = pilot.next_round([empty])
    assert following is not None and following.mechanism.name == "wsr"


def test_topsel_gets_the_law_of_sizes() -> None:
    pilot, crowd = Pilot(SCHEMA, Fraction(2), "topsel", share=Fraction(1, 4)), people(20_000, 4)
    finished = finish(pilot, crowd, 4)
    topsel = finished[1].round.mechanism
    assert topsel.name == "topsel" and getattr(topsel, "padding", 0) > 0  # sets are dense here
    estimates, truth = pilot.estimate(finished), crowd.truth(SCHEMA)
    assert np.abs((estimates.frequency.values - truth.frequency) / estimates.frequency.se).max() < 6


def test_the_answer_has_the_error_that_it_states() -> None:
    """Standardised errors over 150 runs and 8 keys; the bounds hold for a correct merge but once in 1e7 runs."""
    pilot = Pilot(SCHEMA, Fraction(1), "wsr", theta=Fraction(1, 4), share=Fraction(1, 10), max_pairs=8)
    crowd = people(4000, 5)
    truth = crowd.truth(SCHEMA)
    runs = [pilot.estimate(finish(pilot, crowd, 500 + run)) for run in range(150)]
    z = np.array([(one.frequency.values - truth.frequency) / one.frequency.se for one in runs])
    u = np.array([(one.product - truth.frequency * truth.mean) / one.product_se for one in runs])  # type: ignore[operator]
    for scores in (z, u):
        assert np.abs(scores.mean(axis=0) * math.sqrt(len(scores))).max() < 5.5
        assert abs((scores**2).mean() - 1) < 5.5 * math.sqrt(2 / scores.size)


def test_a_pilot_that_was_stopped_goes_on_and_a_changed_answer_is_noticed() -> None:
    pilot = Pilot(SCHEMA, Fraction(1))
    finished = finish(pilot, people(2000, 1), 1)
    assert resume(pilot, history_document(finished)) == finished
    other = replace(finished[0], tally=Tally(finished[0].tally.fingerprint, 90, 10 * np.eye(9, dtype=np.int64)[8]))
    with pytest.raises(ProtocolError, match="would not have planned"):
        pilot.next_round([other, finished[1]])


@pytest.mark.parametrize(
    "wrong",
    [{"share": 0}, {"share": 1}, {"theta": 1}, {"then": "kvue"}, {"max_pairs": 3}, {"most": 9}, {"quantile": 2}],
    ids=str,
)
def test_a_pilot_that_makes_no_sense_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(KeyveilError):
        Pilot(SCHEMA, Fraction(1), **wrong)  # type: ignore[arg-type]
