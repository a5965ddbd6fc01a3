from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from keyveil.core.errors import MechanismError, SchemaError
from keyveil.core.records import Records
from keyveil.core.schema import GRID, Schema
from keyveil.core.tally import Tally
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.keyvalue.ioh import IOH
from tests.mechanisms.keyvalue.exact import RECORDS, expected_counts, spent, truth, two_keys
from tests.sweeps import sampled

ORACLES = pytest.mark.parametrize("oracle", ["sue", "oue", "grr"])
KEYS = ["tea", "milk", "sugar"]


def index(*digits: int) -> int:
    return int("".join(map(str, digits)), 3)


def crowd(people: list[tuple[int, dict[int, int]]], d: int) -> Records:
    """So many people with each record, values in units of the grid's end."""
    rows = [sorted(record.items()) for count, record in people for _ in range(count)]
    offsets = np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int64)
    flat = [pair for row in rows for pair in row]
    keys, values = np.array(flat, dtype=np.int32).reshape(-1, 2).T
    return Records(offsets, keys.copy(), values * GRID, d)


# 0: tea, 1: milk, 2: sugar; of the tea drinkers with milk half like it, without milk all do
PEOPLE = [(300, {0: 1, 1: 1}), (300, {0: -1, 1: 1}), (200, {0: 1}), (100, {2: -1}), (100, {})]


def answered(oracle: str, coins: int = 1, epsilon: int = 8) -> tuple[IOH, Tally]:
    mechanism = IOH(Schema(keys=KEYS), Fraction(epsilon), oracle)
    return mechanism, mechanism.tally(mechanism.perturb_many(crowd(PEOPLE, 3), SeededCoins(coins)))


def test_erratum_B7_a_cell_is_a_number_in_base_three() -> None:  # noqa: N802
    """(+, absent, -) is 210 in base 3, that is 21 of 27 cells; every bit goes through randomised response with ε/2."""
    mechanism = IOH(Schema(keys=3), Fraction(32), "grr")  # so large an ε practically tells the cell
    assert mechanism.respond([(0, GRID), (2, -GRID)], 0, SeededCoins(1)) == 21 == index(2, 1, 0)
    assert mechanism.digits[:, 21].tolist() == [2, 1, 0]
    assert mechanism.tally_shape == (27,)
    published = IOH(Schema(keys=2), Fraction(1), "sue")
    assert float(published.inner.response.holder.support) == pytest.approx(1 / (1 + np.exp(-0.5)), abs=1e-9)


@ORACLES
@pytest.mark.parametrize("pairs", RECORDS, ids=str)
def test_cells_are_exactly_unbiased(oracle: str, pairs: Pairs) -> None:
    mechanism = two_keys("ioh", oracle=oracle)
    response, digits = mechanism.inner.response, mechanism.digits - 1
    gain = response.holder.support - response.stranger.support
    cells = [(count - response.stranger.support) / gain for count in expected_counts(mechanism, pairs)]
    assert sum(cells) == 1
    for key, (frequency, product) in enumerate(truth(pairs)):
        assert sum(cell for cell, digit in zip(cells, digits[key], strict=True) if digit) == frequency
        assert sum(int(digit) * cell for cell, digit in zip(cells, digits[key], strict=True)) == product


@ORACLES
@pytest.mark.parametrize("epsilon", ["0.5", "3"])
def test_every_oracle_spends_exactly_epsilon(oracle: str, epsilon: str) -> None:
    assert spent(two_keys("ioh", epsilon, oracle=oracle)) == pytest.approx(float(epsilon), abs=1e-8)


@ORACLES
def test_conditionals_of_a_small_crowd(oracle: str) -> None:
    """At ε = 8 a thousand people are enough to see who holds what with whom (tolerances are over six errors wide)."""
    mechanism, tally = answered(oracle)
    assert mechanism.cells(tally).sum() == pytest.approx(1, abs=0.5)
    given_milk = mechanism.conditional_frequency(tally, {"milk": True})
    assert given_milk["tea"].value == pytest.approx(1, abs=0.3)
    assert given_milk["milk"].value == pytest.approx(1) and given_milk["milk"].se == pytest.approx(0, abs=1e-6)
    assert mechanism.conditional_frequency(tally, {"milk": False})["milk"].value == 0
    assert mechanism.conditional_mean(tally, {"milk": True})["tea"].value == pytest.approx(0, abs=0.4)
    assert mechanism.conditional_mean(tally, {"milk": False})["tea"].value == pytest.approx(1, abs=0.4)
    unconditional, estimates = mechanism.conditional_mean(tally, {}), mechanism.estimate(tally)
    assert np.array_equal(unconditional.values, estimates.mean.values, equal_nan=True)
    assert np.allclose(mechanism.conditional_frequency(tally, {}).values, estimates.frequency.values, atol=0.5)


@pytest.mark.parametrize(("oracle", "population"), sampled([("sue",), ("oue",), ("grr",)], [False, True]))
def test_conditional_intervals_cover(oracle: str, population: bool) -> None:
    """300 seeded repeats: 0.075 is six standard deviations of a coverage, 0.28 seven of a root mean square."""
    mechanism = IOH(Schema(keys=KEYS), Fraction(3), oracle)
    records, rng = crowd([(20 * count, record) for count, record in PEOPLE], 3), np.random.default_rng(8)
    covered, scores = [], []
    for repeat in range(300):
        asked = resampled(records, rng) if population else records
        tally = mechanism.tally(mechanism.perturb_many(asked, SeededCoins(9, repeat)))
        share = mechanism.conditional_frequency(tally, {"sugar": False}, population=population)["tea"]
        mean = mechanism.conditional_mean(tally, {"sugar": False}, population=population)["tea"]
        covered.append([8 / 9 in share, 0.25 in mean])
        scores.append([(share.value - 8 / 9) / share.se, (mean.value - 0.25) / mean.se])
    assert np.mean(covered, axis=0) == pytest.approx([0.95, 0.95], abs=0.075)
    assert np.sqrt(np.mean(np.square(scores), axis=0)) == pytest.approx([1, 1], abs=0.28)


def resampled(records: Records, rng: np.random.Generator) -> Records:
    """As many people, drawn from these with replacement."""
    chosen = np.sort(rng.integers(records.n, size=records.n))
    sizes = records.sizes[chosen]
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    rows = np.repeat(records.offsets[chosen] - offsets[:-1], sizes) + np.arange(offsets[-1])
    return Records(offsets, records.keys[rows], records.values[rows], records.d)


def test_nothing_collected_is_insufficient() -> None:
    mechanism = IOH(Schema(keys=KEYS), Fraction(1))
    nothing = Tally.empty(mechanism.fingerprint, mechanism.tally_shape)
    assert mechanism.estimate(nothing).flag == ("insufficient",) * 3
    share = mechanism.conditional_frequency(nothing, {"tea": True})["milk"]
    assert (share.low, share.high, share.flag) == (0, 1, "insufficient")


@pytest.mark.parametrize(
    ("keys", "options", "code"),
    [(11, {}, "mechanism/too-many-keys"), (3, {"oracle": "olh"}, "mechanism/option")],
)
def test_what_it_cannot_do_is_refused(keys: int, options: dict[str, Any], code: str) -> None:
    with pytest.raises(MechanismError) as refused:
        IOH(Schema(keys=keys), Fraction(1), **options)
    assert refused.value.code == code


def test_a_condition_on_an_unknown_key_is_refused() -> None:
    mechanism, tally = answered("oue")
    with pytest.raises(SchemaError) as refused:
        mechanism.conditional_mean(tally, {"coffee": True})
    assert refused.value.code == "schema/unknown-key"


def test_eight_keys_are_one_of_6561_cells() -> None:
    """Everybody holds all keys with plus: the last cell; its share within six standard errors of one."""
    mechanism = IOH(Schema(keys=8), Fraction(4))
    people = crowd([(2000, dict.fromkeys(range(8), 1))], 8)
    tally = mechanism.tally(mechanism.perturb_many(people, SeededCoins(3)))
    cells = mechanism.cells(tally)
    assert cells.shape == (6561,) and np.argmax(cells) == 6560
    own, other = (float(one.support) for one in (mechanism.inner.response.holder, mechanism.inner.response.stranger))
    assert abs(cells[6560] - 1) < 6 * np.sqrt(own * (1 - own) / 2000) / (own - other)
    frequency = mechanism.estimate(tally).frequency
    assert (abs(frequency.values - 1) < 6 * frequency.se).all()
