"""The pilot of topsel-project: how large values are, how many pairs people hold, and all groups side by side."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from keyveil import testing as checks
from keyveil.core.coins import Coins
from keyveil.core.epsilon import keeps
from keyveil.core.errors import KeyveilError, ProtocolError
from keyveil.core.schema import GRID, Schema
from keyveil.frames.population import Population
from keyveil.lab import datasets
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import create_round
from keyveil.mechanisms.rounds.energy import EnergyQuestion
from keyveil.mechanisms.rounds.set_size import SizeClasses
from keyveil.mechanisms.rounds.topsel_pilot import TopSelPilot
from keyveil.privacy.enumerate import law

SCHEMA, ONE = Schema(keys=8), Fraction(1)


@pytest.mark.parametrize("kind", [EnergyQuestion, SizeClasses, TopSelPilot])
@pytest.mark.parametrize(
    "check",
    [
        checks.privacy_by_enumeration,
        checks.tightness,
        partial(checks.single_draws_have_the_law, draws=1000),
        checks.bulk_draws_have_the_law,
        checks.reports_travel,
        checks.parts_add_up,
    ],
    ids=["private", "tight", "single", "bulk", "travel", "add"],
)
def test_the_pilot_and_its_questions_are_mechanisms_like_any_other(
    kind: type[Mechanism], check: Callable[[Mechanism], None]
) -> None:
    check(kind(SCHEMA, ONE).reduced())


def test_the_answer_about_values_has_the_law_of_two_draws() -> None:
    """Values 1, -1/2 and 1/4: r = (1 + 1/4 + 1/16)/3 = 7/16, exactly; without pairs it is 0."""
    question = EnergyQuestion(SCHEMA, ONE)
    hit, miss = question.channel.hit, question.channel.miss
    r = Fraction(7, 16)
    for pairs, drawn in (
        ([(0, GRID), (3, -GRID // 2), (7, GRID // 4)], [(1 - r) ** 2, 2 * r * (1 - r), r**2]),
        ([], [Fraction(1), Fraction(0), Fraction(0)]),
    ):
        told = law(partial(question.respond, pairs, 0))
        assert [told[answer] for answer in range(3)] == [miss + (hit - miss) * share for share in drawn]


def test_energy_and_its_variance_between_people_are_found() -> None:
    """Half of the people have values ±1, the others 0: r is 1 or 0. 40,000 people know both within 6 standard errors.

    A question of one draw would tell the first alone: the squares are what the second is for.
    """
    records = Population.from_records([{"0": 1.0, "3": -1.0}, {"5": 0.0}, {"1": 1.0}, {"2": 0.0, "4": 0.0}] * 10_000)
    question = EnergyQuestion(SCHEMA, Fraction(2))
    found = question.energy(
        question.tally(question.perturb_many(records.keyed(SCHEMA).records(SCHEMA), SeededCoins(1)))
    )
    assert found.mean == pytest.approx(0.5, abs=0.02)
    assert found.square == pytest.approx(0.5, abs=0.02)  # not 0.25, as if all were alike
    with pytest.raises(ProtocolError) as refused:
        question.energy(question.tally([]))
    assert refused.value.code == "protocol/few"


@pytest.mark.parametrize(("d", "classes", "width"), [(3, 3, 1), (16, 16, 1), (17, 9, 2), (100, 15, 7), (1000, 16, 63)])
def test_classes_part_all_sizes_alike(d: int, classes: int, width: int) -> None:
    question = SizeClasses(Schema(keys=d), ONE)
    assert (question.most, question.width) == (classes, width)
    middles = [question.stands_for(told) for told in range(classes + 1)]
    assert middles[0] == 0 and sorted(set(middles)) == middles and middles[-1] <= d
    certain = SizeClasses(Schema(keys=d), Fraction(32))  # at this ε the answer is as good as certain
    for size in (0, 1, width, d):
        told = certain.respond([(key, 0) for key in range(size)], 0, Coins())
        assert told == -(-size // width)


def test_classes_find_the_law_of_sizes() -> None:
    people = datasets.independent(100_000, np.full(40, 0.2), np.zeros(40), seed=1)
    question = SizeClasses(Schema(keys=40), Fraction(2))
    records = people.records(question.schema)
    found = question.law(question.tally(question.perturb_many(records, SeededCoins(2))))
    assert found.mean == pytest.approx(float(np.mean(-(-records.sizes // 3) * 3 - 1)), abs=0.2)  # the middles of threes


@pytest.mark.parametrize(("asks", "shares"), [(True, [1 / 2, 1 / 4, 1 / 4]), (False, [3 / 4, 1 / 4])])
def test_a_quarter_answers_each_question_about_sets(asks: bool, shares: list[float]) -> None:
    """Of 20,000 people the parts are within 6 standard errors, 0.02; the parting follows from public bytes alone."""
    pilot = TopSelPilot(SCHEMA, ONE, {"set_sizes": "4"}, asks_sizes=asks)
    assert keeps(pilot.ratio, ONE) and pilot.certificate().certified
    tally = pilot.tally(
        pilot.perturb_many(
            datasets.independent(20_000, np.full(8, 0.5), np.zeros(8), 1).records(SCHEMA), SeededCoins(3)
        )
    )
    parts = [pilot.part_tally(tally, number).reports / 20_000 for number in range(len(pilot.parts))]
    assert parts == pytest.approx(shares, abs=0.02)
    assert (pilot.law(tally) is not None) == asks and pilot.energy(tally) is not None


@pytest.mark.parametrize("wrong", [5, {"padding": 99}, {"schema": 1}, {"mode": "other"}], ids=str)
def test_options_of_topsel_that_make_no_sense_are_refused(wrong: object) -> None:
    with pytest.raises(KeyveilError):
        create_round("topsel-pilot", SCHEMA, 1, topsel=wrong)
