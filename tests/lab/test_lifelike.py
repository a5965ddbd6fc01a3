from __future__ import annotations

import numpy as np
import pytest

from keyveil.frames.population import Population
from keyveil.lab import datasets
from keyveil.lab.datasets.lifelike import FIVE_POINTS, LIFELIKE

N = 4000


def people(name: str, seed: int = 1) -> Population:
    return datasets.load(name, n=N, seed=seed).population


def held(population: Population, d: int) -> np.ndarray:
    matrix = np.zeros((population.n, d))
    matrix[np.repeat(np.arange(population.n), population.sizes), population.keys] = 1
    return matrix


@pytest.mark.parametrize("name", LIFELIKE)
def test_values_lie_in_the_range_and_on_the_levels(name: str) -> None:
    recipe, population = datasets.recipe(name), people(name)
    assert population.n == N and np.abs(population.values).max() <= 1
    if recipe.levels is not None:
        assert set(np.unique(population.values)) <= set(recipe.levels)


@pytest.mark.parametrize("name", LIFELIKE)
def test_a_seed_fixes_the_people(name: str) -> None:
    one, same, other = people(name, 5), people(name, 5), people(name, 6)
    assert np.array_equal(one.keys, same.keys) and np.array_equal(one.values, same.values)
    assert not np.array_equal(one.values[:500], other.values[:500])


@pytest.mark.parametrize("name", ["activity", "baskets", "ratings", "peaks"])
def test_keys_of_one_interest_go_together(name: str) -> None:
    """Correlations of holding two keys, beside those of keys drawn on their own, which have a spread of 0.016."""
    d = datasets.recipe(name).profile()[0].size
    table = np.corrcoef(held(people(name), d)[:, :16].T)
    same = np.mean([table[key, key + 8] for key in range(8)])
    others = np.mean([table[key, key + 4] for key in range(8)])
    assert same > 0.15 and same > others + 0.05 and others > 0.02


def test_answers_of_one_person_go_together() -> None:
    population = people("survey")
    table = np.full((N, 12), np.nan)
    table[np.repeat(np.arange(N), population.sizes), population.keys] = population.values
    both = ~np.isnan(table[:, :2]).any(axis=1)
    assert np.corrcoef(table[both, 0], table[both, 1])[0, 1] > 0.2
    assert np.mean(population.sizes) > 8 and (population.sizes < 5).mean() > 0.02


def test_a_few_hold_very_much_and_have_other_values() -> None:
    population = people("heavy")
    sizes = np.repeat(population.sizes, population.sizes)
    assert np.median(population.sizes) <= 2 and population.sizes.max() > 80
    assert population.values[sizes > 20].mean() > population.values[sizes < 5].mean() + 0.3


def test_most_keys_of_the_tail_are_rare() -> None:
    counts = np.bincount(people("tail").keys, minlength=5000)
    assert (counts * 100_000 / N < 10).mean() > 0.5 and counts.max() > N / 2


def test_some_keys_get_nothing_but_the_best_rating() -> None:
    recipe = datasets.recipe("ratings")
    _, means = recipe.profile(seed=1)
    population = people("ratings")
    assert recipe.levels == FIVE_POINTS
    for key in np.flatnonzero(means == 1):
        assert set(population.values[population.keys == key]) == {1.0}
