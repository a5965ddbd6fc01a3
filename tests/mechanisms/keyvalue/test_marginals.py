from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from keyveil.core.errors import MechanismError
from keyveil.core.schema import GRID, Schema
from keyveil.core.tally import Tally
from keyveil.lab import datasets
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.categorical.grr import GRR
from keyveil.mechanisms.joint.cells import pooled
from keyveil.mechanisms.joint.statistics import share
from keyveil.mechanisms.keyvalue.marginals import Marginals, balanced_family
from keyveil.mechanisms.registry import create
from tests.mechanisms.keyvalue.exact import spent


def marginals(d: int, epsilon: str = "1", **options: Any) -> Marginals:
    made = create("marginals", Schema(keys=d), epsilon, **options)
    assert isinstance(made, Marginals)
    return made


def test_the_cheaper_oracle_is_chosen() -> None:
    """GRR below 3·e^ε + 2 cells: nine cells at ε = 1 (10.15), but not at ε = 0.5 (6.9)."""
    assert (marginals(8, "1").oracle, marginals(8, "0.5").oracle) == ("grr", "oue")
    assert (marginals(8, "3", size=3).oracle, marginals(8, "1", size=3).oracle) == ("grr", "oue")
    assert marginals(8).members == 28


def test_a_cell_has_the_digits_of_ioh() -> None:
    mechanism = marginals(3, "32", size=3)  # so large an ε practically tells the cell
    assert mechanism.family.tolist() == [[0, 1, 2]]
    assert mechanism.respond([(0, GRID), (2, -GRID)], 0, SeededCoins(1)) == 21  # plus, absent, minus: 210 in base 3


@pytest.mark.parametrize(("options", "epsilon"), [({}, "2"), ({"oracle": "oue", "size": 1}, "0.5")])
def test_the_whole_epsilon_is_spent(options: dict[str, Any], epsilon: str) -> None:
    assert spent(marginals(3, epsilon, **options)) == pytest.approx(float(epsilon), abs=1e-8)


def test_pairs_of_a_hundred_keys() -> None:
    """n·Var(P[k, j]) is 4.5·10⁴ with GRR on nine cells, where nobody holds anything."""
    mechanism, each = marginals(100), 10**6
    assert isinstance(mechanism.inner, GRR)
    cells = np.full(9, round(each * mechanism.inner.channel.miss))
    cells[4] += each - cells.sum()  # both absent
    tally = Tally(mechanism.fingerprint, 4950 * each, np.tile([each, *cells], (4950, 1)))
    answers = mechanism.answer_jointly(tally, np.array([[3, 7]]), [share({0: True, 1: True})], population=True)
    assert answers.values[0, 0] == pytest.approx(0, abs=1e-4)
    assert tally.reports * answers.covariance[0, 0, 0] == pytest.approx(4.5e4, rel=0.01)


def test_members_are_pooled_in_the_order_of_the_question() -> None:
    family = np.array([[0, 1, 2], [0, 2, 3]])
    tables = np.zeros((2, 28), dtype=np.int64)
    tables[:, 0] = 5, 7
    tables[0, 1 + int("210", 3)] = 5  # key 0 plus, 1 absent, 2 minus
    tables[1, 1 + int("202", 3)] = 7  # key 0 plus, 2 minus, 3 plus
    both = pooled(family, tables, np.array([[2, 0], [0, 2], [3, 1]]))
    assert both[0].tolist() == [12, *(12 if cell == int("02", 3) else 0 for cell in range(9))]
    assert both[1].tolist() == [12, *(12 if cell == int("20", 3) else 0 for cell in range(9))]
    assert not both[2].any(), "no member holds keys 1 and 3"


@pytest.mark.parametrize(("d", "size", "members"), [(9, 3, 20), (30, 4, 130), (7, 3, 34)])
def test_a_smaller_family_is_balanced(d: int, size: int, members: int) -> None:
    family = balanced_family(d, size, members)
    assert len({tuple(row) for row in family.tolist()}) == members
    assert (np.diff(family, axis=1) > 0).all()
    used = np.bincount(family.ravel(), minlength=d)
    assert used.min() >= members * size // d - 2 and used.max() <= members * size / d + 2
    mechanism = marginals(d, size=size, members=members)
    pairs = np.array(list(combinations(range(d), 2)))
    assert mechanism.covering(pairs).min() >= 1


def test_shares_add_up_with_grr() -> None:
    mechanism = marginals(4)
    records = datasets.independent(5000, np.full(4, 0.4), np.zeros(4), 3).records(mechanism.schema)
    shares = mechanism.shares(mechanism.tally(mechanism.perturb_many(records, SeededCoins(4))))
    assert shares.shape == (6, 9)
    assert shares.sum(axis=1) == pytest.approx(np.ones(6))


def test_nobody_reported() -> None:
    mechanism = marginals(3)
    nothing = Tally.empty(mechanism.fingerprint, mechanism.tally_shape)
    assert mechanism.estimate(nothing).flag == ("insufficient",) * 3
    assert np.isnan(mechanism.shares(nothing)).all()


@pytest.mark.parametrize(
    ("d", "options", "code"),
    [
        (3, {"size": 4}, "mechanism/option"),
        (9, {"size": 3, "members": 2}, "mechanism/option"),
        (9, {"size": 3, "members": 85}, "mechanism/option"),
        (9, {"oracle": "olh"}, "mechanism/option"),
        (1000, {"size": 3}, "mechanism/too-many-keys"),
    ],
)
def test_what_it_cannot_do_is_refused(d: int, options: dict[str, Any], code: str) -> None:
    with pytest.raises(MechanismError) as refused:
        Marginals(Schema(keys=d), Fraction(1), **options)
    assert refused.value.code == code
