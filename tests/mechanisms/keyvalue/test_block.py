"""Blocks of keys: the numbers of the specification, a second rendering of the device, answers within a block."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from keyveil.core.errors import KeyveilError
from keyveil.core.public import public_index
from keyveil.core.schema import GRID, Schema
from keyveil.lab import datasets
from keyveil.lab.aggregate import aggregate
from keyveil.lab.coins import SeededCoins
from keyveil.learn.conditionals import Conditionals
from keyveil.mechanisms.keyvalue.block import Block, Form, best_form
from keyveil.mechanisms.keyvalue.kvue import KVUE
from tests.mechanisms.keyvalue.exact import expected_counts


@pytest.mark.parametrize(
    ("states", "width", "epsilon", "kept", "chance"),
    [
        (2, 2, 2, 0.614979459, 0.192510271),
        (3, 2, 4, 0.856225783, 0.047924739),
        (4, 2, 4, 0.770108832, 0.057472792),
        (3, 4, 6, 0.832446885, 0.055851038),
    ],
)
def test_how_often_the_truth_is_told(states: int, width: int, epsilon: int, kept: float, chance: float) -> None:
    block = Block(Schema(keys=12), Fraction(epsilon), width, states)
    assert block.kept == pytest.approx(kept, abs=1e-9)
    assert (1 - block.kept) / states == pytest.approx(chance, abs=1e-9)


# n·Var f and n·Var U of these people at d = 12, f = 0.75, mean square of values 0.47
STATED = {
    (3, 1): (1, 18.9, 62),
    (3, 3): (2, 2.4, 8.9),
    (3, 4): (2, 1.39, 5.5),
    (3, 6): (4, 0.65, 2.8),
    (3, 8): (5, 0.35, 1.7),
    (4, 2): (1, 5.8, 14),
    (4, 4): (2, 1.7, 4.0),
    (4, 6): (3, 0.82, 1.9),
    (4, 8): (4, 0.48, 1.1),
}


@pytest.mark.parametrize(("states", "epsilon"), STATED)
def test_widths_and_variances_are_those_that_were_stated(states: int, epsilon: int) -> None:
    """The stated variances of f·m are those of values of many sizes, and take off how much people differ in them: at
    most 0.47·f. Ours are for values of one size, which have to be rounded further: up to 30 % more."""
    width, of_f, of_u = STATED[states, epsilon]
    form = best_form(12, Fraction(epsilon), None, states)
    assert form == Form(width, states)
    gain, f = math.expm1(epsilon), np.array([0.75])
    square = f * form.square(np.array([math.sqrt(0.47)]))
    asked = np.array([width / 12])
    spread = form.spread(gain / (gain + form.cells), f, np.zeros(1), square, asked, these=1)
    assert spread.frequency[0] == pytest.approx(of_f, rel=0.03)
    assert spread.product[0] == pytest.approx(of_u + 0.75 * 0.47, rel=0.3)


def test_one_key_and_three_states_are_kvue() -> None:
    block, kvue = Block(Schema(keys=5), Fraction(1), 1, 3), KVUE(Schema(keys=5), Fraction(1))
    assert block.ratio == kvue.ratio
    pairs = [(0, GRID), (1, -GRID // 3), (3, 0)]
    mine, theirs = (expected_counts(one, pairs) for one in (block, kvue))
    assert np.array_equal(mine.T, theirs)


def told(pairs: list[tuple[int, int]], word: int, coins: SeededCoins, d: int, width: int, states: int) -> int:
    """The combination that a device puts into randomised response, written a second time from its description."""
    values, number = dict(pairs), 0
    for place in range(width - 1, -1, -1):
        key = (public_index(word, d) + place) % d
        state = 0
        if key in values:
            steps = (values[key] + GRID) * (states - 2)
            state = 1 + steps // (2 * GRID)
            rest = steps % (2 * GRID)
            if rest and coins.chance(rest, 2 * GRID):
                state += 1
        number = number * states + state
    return number


def test_the_device_agrees_with_a_second_rendering() -> None:
    rng, d = np.random.default_rng(3), 7
    for states, width in ((2, 3), (3, 2), (4, 3), (5, 2)):
        block = Block(Schema(keys=d), Fraction(2), width, states)
        for run in range(2500):
            held = np.flatnonzero(rng.random(d) < 0.5)
            pairs = [(int(key), int(rng.integers(-GRID, GRID + 1))) for key in held]
            word = int(rng.integers(1 << 63)) * 2
            again = SeededCoins(5, run)
            true = told(pairs, word, again, d, width, states)
            expected = block.inner.respond([(true, 0)], word, again)
            assert block.respond(pairs, word, SeededCoins(5, run)) == expected


def test_keys_of_one_block_are_told_together() -> None:
    """Intervals of joint shares and of conditional means hold the truth; 40 runs x 8 keys: fewer than 280 of 320 would
    have probability below 1e-6."""
    schema, inside, of_means = Schema(keys=8), 0, 0
    people = datasets.independent(20_000, np.linspace(0.5, 0.9, 8), np.linspace(-0.6, 0.6, 8), 1)
    records = people.records(schema)
    block = Block(schema, Fraction(4), 3, 4)
    held = np.zeros((records.n, 8))
    held[np.repeat(np.arange(records.n), records.sizes), records.keys] = 1
    values = np.zeros((records.n, 8))
    values[np.repeat(np.arange(records.n), records.sizes), records.keys] = records.values / GRID
    for run in range(40):
        asked = Conditionals(block, block.tally(block.perturb_many(records, SeededCoins(9, run))))
        for key in range(8):
            other = (key + 2) % 8
            both = held[:, key] * held[:, other]
            joint = asked.share({str(key): True, str(other): True})
            inside += joint.low <= both.mean() <= joint.high
            mean = asked.mean(str(key), {str(other): True})
            of_means += mean.low <= (values[:, key] * both).sum() / both.sum() <= mean.high
    assert inside >= 280 and of_means >= 280
    with pytest.raises(KeyveilError) as refused:
        asked.share({"0": True, "4": True})
    assert refused.value.code == "question/not-covered"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"states": 1}, "mechanism/option"),
        ({"states": 6}, "mechanism/option"),
        ({"width": 0}, "mechanism/option"),
        ({"width": 13}, "mechanism/option"),
        ({"width": 12, "states": 5}, "mechanism/too-many-keys"),
    ],
)
def test_forms_that_cannot_be_are_refused(options: dict[str, Any], code: str) -> None:
    with pytest.raises(KeyveilError) as refused:
        Block(Schema(keys=12), Fraction(1), **options)
    assert refused.value.code == code and str(refused.value).count(".") <= 2


def test_products_of_rare_keys_err_as_much_as_they_say() -> None:
    """Noise of a rare key's product far exceeds its frequency. Taken as it comes, it would be taken off the variance.

    480 scores, whose mean square has a standard deviation of 0.065; stated so, it was 20.
    """
    people = datasets.independent(4000, np.full(8, 0.02), np.full(8, 0.5), 5)
    block, scores = Block(Schema(keys=8), Fraction(1, 2), 2, 4), []
    truth = people.truth(block.schema)
    for run in range(60):
        found = block.estimate(aggregate(block, people.records(block.schema), SeededCoins(5, run)))
        assert found.product is not None and found.product_se is not None
        scores.append((found.product - truth.frequency * truth.mean) / found.product_se)
    assert 0.7 < float(np.mean(np.square(scores))) < 1.35


def test_two_states_tell_no_means() -> None:
    block = Block(Schema(keys=4), Fraction(3), 2, 2)
    estimates = block.estimate(
        block.tally(
            block.perturb_many(
                datasets.independent(500, np.full(4, 0.7), np.zeros(4), 1).records(block.schema), SeededCoins(1)
            )
        )
    )
    assert estimates.mean.absent and not estimates.frequency.absent


def test_a_huge_width_is_refused_before_anything_is_computed() -> None:
    with pytest.raises(KeyveilError) as refused:
        Block(Schema(keys=65_536), Fraction(1), width=65_536)
    assert refused.value.code == "mechanism/too-many-keys"
