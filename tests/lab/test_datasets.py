from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.core.errors import PopulationError, SchemaError
from keyveil.lab import datasets
from keyveil.lab.datasets.crowds import fixed_size_sets, product_sets
from keyveil.lab.datasets.published import PUBLISHED

STATISTICS = {  # mean and variance over keys of the frequencies and of the means
    "gauss": (0.3000, 0.0401, 0.0206, 0.3081),
    "plaw": (0.1385, 0.0168, -0.0722, 0.0656),
    "lnr": (0.4003, 0.0005, 0.0, 0.334),
    "gauss-beta": (0.3000, 0.0401, 0.0207, 0.3080),
    "plaw-beta": (0.1384, 0.0167, -0.0723, 0.0656),
    "lnr-beta": (0.4003, 0.0005, 0.0010, 0.3330),
}

# Real sets may lie in a data folder beside the checkout; they are tested where they are.
FILES = [path for name in datasets.KNOWN for path in Path(__file__).parents[3].glob(f"*/data/{name}.parquet")]


@pytest.mark.parametrize("name", STATISTICS)
def test_recipes_have_the_published_statistics(name: str) -> None:
    frequencies, means = datasets.recipe(name).profile(seed=3)
    statistics = frequencies.mean(), frequencies.var(), means.mean(), means.var()
    assert np.allclose(statistics, STATISTICS[name], atol=0.001)


@pytest.mark.parametrize("name", PUBLISHED)
def test_people_follow_the_recipe(name: str) -> None:
    """Frequencies and sums of values of 6000 people, within six standard errors: false alarm below 1e-6 per name."""
    n = 6000
    frequencies, means = datasets.recipe(name).profile(seed=4)
    drawn = datasets.load(name, n=n, seed=4)
    truth = drawn.population.truth(drawn.schema)
    common = frequencies * n >= 50  # rarer keys are far from normal
    z = (truth.frequency - frequencies)[common] / np.sqrt(frequencies * (1 - frequencies) / n + 1e-9)[common]
    assert np.abs(z).max() < 6
    assert truth.n == n and drawn.schema.d == len(frequencies)
    assert np.abs(drawn.population.values).max() <= 1
    if name != "dependent":
        z = (truth.mean - means)[common] / (0.35 / np.sqrt(n * frequencies[common]))  # values spread by at most 0.34
        assert np.abs(z).max() < 6


@pytest.mark.parametrize(("name", "size"), [("linear-s", 5), ("linear-beta", 5), ("dependent", 5), ("zipf", 1)])
def test_sets_of_fixed_size_have_it(name: str, size: int) -> None:
    assert set(datasets.load(name, n=500, seed=1).population.sizes) == {size}


def test_a_seed_fixes_everything() -> None:
    one, same, other = (datasets.load("uniform", n=200, seed=seed).population for seed in (5, 5, 6))
    assert np.array_equal(one.keys, same.keys) and np.array_equal(one.values, same.values)
    assert not np.array_equal(one.keys[:500], other.keys[:500])


def test_grid_and_linear_have_options() -> None:
    frequencies, means = datasets.recipe("grid", frequency=0.6, mean=-0.8).profile()
    assert set(frequencies) == {0.6} and set(means) == {-0.8}
    frequencies, _ = datasets.recipe("linear-s", slope=0, size=2, keys=10).profile()
    assert np.allclose(frequencies, 0.2)


def test_beta_values_have_the_stated_second_moment() -> None:
    """E v² = m² + (1 - m²)/9; six standard errors."""
    drawn = datasets.load("linear-beta", n=20_000, seed=2)
    _, means = datasets.recipe("linear-beta").profile(seed=2)
    for key in (3, 19):
        values = drawn.population.values[drawn.population.keys == key]
        expected = means[key] ** 2 + (1 - means[key] ** 2) / 9
        assert abs((values**2).mean() - expected) < 6 * (values**2).std() / np.sqrt(len(values))


def test_dependent_values_lean_on_the_partner() -> None:
    drawn = datasets.load("dependent", n=4000, seed=2).population
    held = np.zeros((4000, 20), dtype=bool)
    held[np.repeat(np.arange(4000), drawn.sizes), drawn.keys] = True
    of_key = drawn.keys == 18
    with_partner = held[np.repeat(np.arange(4000), drawn.sizes)[of_key], 19]
    values = drawn.values[of_key]
    assert values[with_partner].min() > values[~with_partner].max()


@given(st.integers(1, 4), st.integers(0, 1000))
def test_systematic_sampling_takes_exactly_the_size(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 1.5, 12)
    users, keys = fixed_size_sets(40, size * weights / weights.sum(), rng)
    assert np.array_equal(np.bincount(users, minlength=40), np.full(40, size))
    assert len(set(zip(users.tolist(), keys.tolist(), strict=True))) == 40 * size


def test_rare_keys_are_drawn_in_the_same_law_as_common_ones() -> None:
    """Mean and variance of the number of holders over 400 draws of one rare and one common key; six standard errors."""
    n, shares = 2000, np.array([0.01, 0.3])
    counts = np.array(
        [np.bincount(product_sets(n, shares, np.random.default_rng(s))[1], minlength=2) for s in range(400)]
    )
    variance = n * shares * (1 - shares)
    assert (np.abs(counts.mean(axis=0) - n * shares) < 6 * np.sqrt(variance / 400)).all()
    assert (np.abs(counts.var(axis=0) / variance - 1) < 6 * np.sqrt(2 / 400)).all()


def test_pairs_come_sorted_and_once() -> None:
    users, keys = product_sets(300, np.array([0.5, 0.01, 0.9, 0.005]), np.random.default_rng(1))
    codes = users * 4 + keys
    assert (np.diff(codes) > 0).all()


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: datasets.load("gaus"), "population/unknown-recipe"),
        (lambda: datasets.load("gauss", n=0), "population/size"),
        (lambda: datasets.load("gauss", n=99_999_999_999_999), "population/size"),
        (lambda: datasets.load("zipf", n=10**17), "population/size"),
        (lambda: datasets.load("gauss", n=10, slope=2), "population/option"),
        (lambda: datasets.load("grid", n=10, frequency=2), "population/option"),
        (lambda: datasets.load("linear-s", n=10, size=19), "population/option"),
        (lambda: datasets.real("people.xlsx"), "population/format"),
        (lambda: datasets.real("nowhere.csv"), "population/file"),
    ],
)
def test_mistakes_have_a_code(call: object, code: str) -> None:
    assert callable(call)
    with pytest.raises(PopulationError) as caught:
        call()
    assert caught.value.code == code


def test_a_file_with_a_known_name_has_its_public_range(tmp_path: Path) -> None:
    path = tmp_path / "msnbc_page_categories.csv"
    path.write_text("user,key,value\na,news,1\na,tech,400\nb,news,20\n")
    known = datasets.real(path)
    assert (float(str(known.schema.low)), float(str(known.schema.high))) == (1, 20)
    assert np.allclose(known.population.truth(known.schema).mean, [0, 1])  # 400 counts as 20
    wide = datasets.real(path, low=1, high=400)
    assert wide.schema.high == 400
    with pytest.raises(SchemaError):
        datasets.real(path, low=5, high=5)


def test_retail_units_are_taken_on_a_logarithmic_scale(tmp_path: Path) -> None:
    path = tmp_path / "online_retail_units.csv"
    path.write_text("user,key,value\na,x,1\nb,y,200\nc,z,14.142135623730951\n")
    units = datasets.real(path)
    assert np.allclose(units.population.truth(units.schema).mean, [-1, 1, 0])


@pytest.mark.parametrize("path", [None, *FILES], ids=lambda path: path.stem if path else "made here")
def test_known_sets_fit_their_range(path: Path | None, tmp_path: Path) -> None:
    if path is None:
        path = tmp_path / "complete_journey_sample.csv"
        path.write_text("user,key,value\n1,milk,3.5\n1,tea,412.79\n2,milk,0\n")
    drawn = datasets.real(path)
    truth = drawn.population.truth(drawn.schema)
    assert truth.n == drawn.population.n and (truth.count > 0).all()
    assert truth.mean.min() >= -1 and truth.mean.max() <= 1


def test_a_crowd_that_fits_into_the_memory_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keyveil.lab.datasets.recipes._memory", lambda: 5 * 1000 * 40)  # 1000 people with 5 pairs
    assert datasets.load("linear-s", n=1000).population.n == 1000
    with pytest.raises(PopulationError, match="1,001 people of linear-s") as refused:
        datasets.load("linear-s", n=1001)
    assert refused.value.code == "population/size"
    monkeypatch.setattr("keyveil.lab.datasets.recipes._memory", lambda: None)
    assert datasets.load("linear-s", n=1001).population.n == 1001
