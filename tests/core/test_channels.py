from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.core.channels import Product, Subset, Table, TwoLevel, binary, randomised_response, subset, two_level
from keyveil.core.epsilon import keeps
from keyveil.core.errors import PrivacyError
from keyveil.privacy.enumerate import law

ONE = Fraction(1)
epsilons = st.fractions(min_value=Fraction(1, 20), max_value=6, max_denominator=100)


@given(epsilons, st.integers(2, 50), st.data())
def test_two_levels_keep_epsilon_and_use_it(epsilon: Fraction, outputs: int, data: st.DataObject) -> None:
    channel = two_level(outputs, data.draw(st.integers(1, outputs - 1)), epsilon)
    assert keeps(channel.ratio, epsilon)
    assert channel.marked * channel.hit + (outputs - channel.marked) * channel.miss == 1
    assert channel.hit / channel.miss == channel.ratio


def test_two_levels_draw_what_they_say() -> None:
    channel = TwoLevel(outputs=5, marked=2, high=7, low=2)
    drawn = law(channel.draw)
    assert {drawn[True, rank] for rank in range(2)} == {channel.hit} == {Fraction(7, 20)}
    assert {drawn[False, rank] for rank in range(3)} == {channel.miss} == {Fraction(2, 20)}


def test_marking_everything_or_nothing_tells_nothing() -> None:
    assert TwoLevel(4, 0, 9, 1).ratio == TwoLevel(4, 4, 9, 1).ratio == 1


def test_vector_of_randomised_response() -> None:
    assert float(randomised_response(ONE).probability(1, 1)) == pytest.approx(0.7310585786, abs=1e-9)


def test_vector_of_a_marked_bucket() -> None:
    channel = two_level(4, 1, ONE)
    assert float(channel.hit) == pytest.approx(0.475367, abs=5e-7)
    assert float(channel.miss) == pytest.approx(0.174878, abs=5e-7)


def test_a_table_knows_its_worst_ratio() -> None:
    table = Table(((4, 4, 2), (1, 4, 5), (3, 3, 4)))
    assert table.ratio_between(0, 1) == 4
    assert table.ratio == 4
    assert law(lambda coins: table.draw(1, coins)) == {0: Fraction(1, 10), 1: Fraction(4, 10), 2: Fraction(5, 10)}
    assert table.matrix().sum(axis=0) == pytest.approx([1, 1, 1])


def test_an_impossible_output_has_no_bound() -> None:
    assert Table(((1, 1), (2, 0))).ratio == math.inf
    assert Product(Table(((1, 1), (0, 2))), length=4).ratio == math.inf


@pytest.mark.parametrize("rows", [((1, 2), (2, 2)), ((0, 0), (0, 0)), ((3, -1), (1, 1))])
def test_rows_must_have_one_positive_total(rows: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(PrivacyError):
        Table(rows)


@pytest.mark.parametrize(("length", "hot"), [(4, 1), (4, 2), (3, 2), (1, 1), (2, 2)])
def test_a_product_is_worst_on_disjoint_coordinates_if_there_is_room(length: int, hot: int) -> None:
    channel = Product(Table(((5, 2, 1), (2, 5, 1), (1, 2, 5))), length=length, hot=hot)
    inputs = [states for states in product(range(3), repeat=length) if sum(map(bool, states)) <= hot]
    outputs = list(product(range(3), repeat=length))

    def probability(states: tuple[int, ...], output: tuple[int, ...]) -> Fraction:
        return math.prod((channel.factor.probability(s, o) for s, o in zip(states, output, strict=True)), start=ONE)

    worst = max(max(column) / min(column) for o in outputs if (column := [probability(states, o) for states in inputs]))
    assert worst == channel.ratio


def test_binary_tables_say_what_becomes_of_a_one() -> None:
    table = binary(truth_of_one=3, truth_of_zero=1, resolution=4)
    assert table.probability(1, 1) == Fraction(3, 4)
    assert table.probability(0, 1) == Fraction(1, 4)


@pytest.mark.parametrize(("symbols", "size", "held"), [(5, 2, 1), (6, 3, 2), (4, 4, 2), (5, 1, 3), (3, 2, 3)])
def test_subsets_are_drawn_by_what_they_meet(symbols: int, size: int, held: int) -> None:
    channel = Subset(symbols, size, held, high=3, low=1)
    mine = [1, 3, 0][:held] if symbols > 3 else list(range(held))
    drawn = law(lambda coins: channel.draw(mine, coins))
    weights = {chosen: 3 if set(chosen) & set(mine) else 1 for chosen in combinations(range(symbols), size)}
    total = sum(weights.values())
    assert drawn == {chosen: Fraction(weight, total) for chosen, weight in weights.items()}
    foreign = [symbol for symbol in range(symbols) if symbol not in mine]

    def inside(*wanted: int) -> Fraction:
        return sum((share for chosen, share in drawn.items() if set(wanted) <= set(chosen)), Fraction(0))

    assert channel.own == inside(mine[0])
    if foreign:
        assert channel.other == inside(foreign[0])
        assert channel.own_and_other == inside(mine[0], foreign[0])
    if len(foreign) > 1:
        assert channel.two_others == inside(*foreign[:2])


@pytest.mark.parametrize(
    ("size", "own", "other"),
    [(1, 0.0507223429, 0.0186597071), (2, 0.0885408136, 0.0389323983), (3, 0.1190738590, 0.0601157676)],
)
def test_vectors_of_signed_subsets(size: int, own: float, other: float) -> None:
    channel = subset(symbols=45, size=size, held=5, epsilon=ONE)
    assert float(channel.own) == pytest.approx(own, abs=1e-9)
    assert float(channel.other) == pytest.approx(other, abs=1e-9)


def test_bulk_and_single_tables_agree() -> None:
    from keyveil.lab.coins import SeededCoins

    table, inputs = Table(((8, 1, 1), (1, 1, 8))), np.repeat([0, 1], 50_000)
    outputs = table.draw_many(inputs, SeededCoins(1))
    shares = np.bincount(outputs[:50_000], minlength=3) / 50_000
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.012)  # 6 standard errors
    assert np.bincount(outputs[50_000:], minlength=3) / 50_000 == pytest.approx([0.1, 0.1, 0.8], abs=0.012)
