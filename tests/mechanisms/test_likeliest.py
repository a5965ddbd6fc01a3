"""PrivKV with ``estimator="em"``: what EM over the three states of a key converges to."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from keyveil.core.estimates import FLAGS
from keyveil.core.schema import Schema
from keyveil.lab import datasets
from keyveil.lab.aggregate import aggregate
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.keyvalue.privkv import PrivKV
from keyveil.mechanisms.likeliest import likeliest


@pytest.mark.parametrize(("epsilon", "rounds"), [("4", 400), ("1", 20_000)])
def test_it_is_the_limit_of_em(epsilon: str, rounds: int) -> None:
    matrix = PrivKV(Schema(keys=1), Fraction(epsilon)).channel.matrix()
    counts = np.random.default_rng(1).multinomial(60, [0.7, 0.25, 0.05], size=40).T
    shares = np.full(counts.shape, 1 / 3)
    for _ in range(rounds):
        shares = shares * (matrix.T @ (counts / (matrix @ shares))) / counts.sum(axis=0)
    found = likeliest(matrix, counts)
    assert (np.linalg.solve(matrix, counts / 60) < 0).any()  # some keys have no shares that fit their counts
    np.testing.assert_allclose(found, shares, atol=2e-3)
    likelihood = (counts * np.log(matrix @ found)).sum(axis=0)
    assert (likelihood >= (counts * np.log(matrix @ shares)).sum(axis=0) - 1e-9).all()
    np.testing.assert_allclose(found.sum(axis=0), 1)
    assert found.min() >= 0 and np.isnan(likeliest(matrix, np.zeros((3, 2), dtype=np.int64))).all()


def test_frequencies_and_means_are_confined_and_flagged() -> None:
    people = datasets.independent(3000, np.array([0.9, 0.5, 0.02, 0.01]), np.array([0.9, -0.5, 0.9, -0.9]), seed=1)
    schema = Schema(keys=4)
    plain, em = (PrivKV(schema, Fraction(1), estimator=one) for one in ("unbiased", "em"))
    raw, likely = (one.estimate(aggregate(one, people.records(schema), SeededCoins(2))) for one in (plain, em))
    assert likely.frequency.values.min() >= 0 and np.abs(np.nan_to_num(likely.mean.values)).max() <= 1
    assert raw.product is not None
    inside = (raw.frequency.values > 0) & (np.abs(raw.product) < raw.frequency.values)
    inside &= raw.frequency.values < 1
    assert 0 < inside.sum() < 4
    np.testing.assert_allclose(likely.frequency.values[inside], raw.frequency.values[inside], atol=1e-9)
    assert np.isnan(likely.frequency.se).all() and set(likely.frequency.flag) == {FLAGS.index("shrunk")}
    assert np.isnan(em.predicted_spread(np.array([0.5]), np.array([0.0]), np.array([2.0]), 1000).frequency).all()
