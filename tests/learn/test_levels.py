"""Levels, points and cells: what their intervals promise, whatever the values are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import keyveil as kv
from keyveil.core.errors import KeyveilError
from keyveil.core.estimates import FLAGS
from keyveil.lab.aggregate import aggregate
from keyveil.lab.coins import SeededCoins
from keyveil.learn.distributions import Distributions, distribution
from keyveil.learn.places import Places
from keyveil.learn.questions import answer
from tests.sweeps import sampled

Floats = NDArray[np.float64]

RATINGS = kv.Schema(keys=["best", "mixed", "poor"], levels=[1, 2, 3, 4, 5])
RANGE = kv.Schema(keys=["bell", "ends", "peaks", "flat"], low=0, high=10)
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)
FORMS: list[tuple[str, dict[str, Any]]] = [
    ("kvue", {}),
    ("ssr", {"max_pairs": 3}),
    ("wsr", {"max_pairs": 3}),
    ("kv-sw", {"max_pairs": 3}),
]


def _population(schema: kv.Schema, values: Floats, rng: np.random.Generator) -> tuple[kv.Population, list[Floats]]:
    """Every second person holds each key, with these values [people, keys]; and the values of each key's holders."""
    held = rng.random(values.shape) < 0.5
    users, keys = np.nonzero(held)
    offsets = np.concatenate(([0], np.cumsum(held.sum(axis=1))))
    people = kv.Population(schema.keys, offsets, keys.astype(np.int32), values[users, keys])
    return people, [values[held[:, key], key] for key in range(values.shape[1])]


def _ratings(n: int, seed: int) -> tuple[kv.Population, list[Floats]]:
    rng = np.random.default_rng(seed)
    mixed = rng.choice([1, 2, 3, 4, 5], n, p=[0.1, 0.05, 0.1, 0.25, 0.5])
    poor = rng.choice([1, 2, 3, 4, 5], n, p=[0.3, 0.21, 0.2, 0.2, 0.09])
    return _population(RATINGS, np.stack([np.full(n, 5.0), mixed, poor], axis=1), rng)


def _any_values(n: int, seed: int) -> tuple[kv.Population, list[Floats]]:
    rng = np.random.default_rng(seed)
    peaks = np.where(rng.random(n) < 0.3, 0.83, 0.21) + 0.01 * rng.normal(size=n)
    return _population(
        RANGE, 10 * np.stack([rng.beta(2, 4, n), rng.beta(0.5, 0.2, n), peaks, rng.random(n)], axis=1), rng
    )


def _covered(found: Distributions, values: list[Floats], mean: bool = True) -> list[list[bool]]:
    """Whether the intervals hold the means, the quantiles and the variances of all keys."""
    held: list[list[bool]] = [[], [], []]
    for key, own in zip(found.schema.keys, values, strict=True):
        if mean:
            held[0].append(float(own.mean()) in found.mean(key))
        ranked = np.sort(own)
        for level in LEVELS:
            held[1].append(float(ranked[int(np.ceil(level * len(own))) - 1]) in found.quantile(level, key))
        held[2].append(float(own.var()) in found.variance(key))
    return held


@pytest.mark.parametrize(("name", "options"), FORMS)
def test_ratings_are_those_of_the_levels(name: str, options: dict[str, Any]) -> None:
    """60 collections of three keys: 180 means at 0.95 are above 0.86 but once in a million, quantiles are bounds."""
    people, values = _ratings(10_000, 5)
    mechanism, held = kv.mechanism(name, RATINGS, 2, **options), []
    for seed in range(60):
        found = distribution(mechanism, aggregate(mechanism, people.records(RATINGS), SeededCoins(seed)))
        held.append(_covered(found, values))
        law = found.of("mixed")
        assert law.kind == "levels" and law.values.tolist() == [1, 2, 3, 4, 5]
    means, quantiles, variances = (np.mean([one[what] for one in held]) for what in range(3))
    assert means > 0.86 and quantiles > 0.93 and variances > 0.86
    best = found.median("best")
    assert (best.value, best.low, best.high) == (5, 5, 5) and 5 in found.mean("best")
    assert 1.0 in found.share("best", 5, 5) and 0.0 in found.share("best", 1, 4)


def test_variances_at_the_ends_of_what_is_possible_are_covered() -> None:
    """40 collections of three keys of which all values are at one end, or half at each.

    120 variances at 0.95 are above 0.83 but once in a million; a normal interval about the projected law holds fewer.
    """
    rng = np.random.default_rng(11)
    ends = np.stack([rng.choice([1.0, 5.0], 3_000), np.full(3_000, 5.0), rng.choice([1.0, 5.0], 3_000)], axis=1)
    people, values = _population(RATINGS, ends, rng)
    mechanism, records = kv.mechanism("split", RATINGS, 4, max_pairs=3), people.records(RATINGS)
    held = [
        _covered(distribution(mechanism, aggregate(mechanism, records, SeededCoins(seed))), values)[2]
        for seed in range(40)
    ]
    assert np.mean(held) > 0.83


def test_values_are_told_of_keys_that_are_told_from_absent() -> None:
    """Of 400 keys 390 are held by nobody: on their own one in forty of them would have quantiles."""
    schema = kv.Schema(keys=400, levels=[1, 2, 3])
    rng = np.random.default_rng(12)
    held = [{str(key): 1 + int(rng.integers(3)) for key in np.flatnonzero(rng.random(10) < 0.3)} for _ in range(20_000)]
    mechanism = kv.mechanism("ssr", schema, 4, max_pairs=4)
    tally = aggregate(mechanism, kv.Population.from_records(held).records(schema), SeededCoins(3))
    estimates, flags = mechanism.estimate(tally), distribution(mechanism, tally).flag
    assert estimates.told[:10].all() and (flags[:10] == 0).all()
    assert np.array_equal(flags == FLAGS.index("insufficient"), ~estimates.told)
    alone = distribution(mechanism, tally, per_key=True).flag
    assert np.count_nonzero(alone == 0) > np.count_nonzero(flags == 0)
    named = next(schema.keys[key] for key in np.flatnonzero((alone == 0) & ~estimates.told))
    asked = {"kind": "quantiles", "quantiles": ["0.5"]}
    rows = {row["key"]: row for row in answer(asked, mechanism, tally, estimates)}
    (row,) = answer({**asked, "keys": [named]}, mechanism, tally, estimates)
    assert (rows[named]["value"]["flag"], row["value"]["flag"]) == ("insufficient", "ok")


def test_the_picture_of_levels_has_no_values_between_them() -> None:
    people, values = _ratings(20_000, 5)
    mechanism = kv.mechanism("kvue", RATINGS, 3)
    found = distribution(mechanism, aggregate(mechanism, people.records(RATINGS), SeededCoins(5)))
    below = found.plot("poor").axes[1].lines[0]
    at, shares = (np.asarray(one, dtype=float) for one in below.get_data())
    assert below.get_drawstyle() == "steps-post" and at[1:-1].tolist() == [1, 2, 3, 4, 5]
    assert shares[1:-1] == pytest.approx([np.mean(values[2] <= level) for level in (1, 2, 3, 4, 5)], abs=0.05)
    assert (shares[0], shares[-1]) == (0, pytest.approx(1))


def test_where_a_frequency_is_wide_so_are_values() -> None:
    people, _ = _ratings(300, 5)
    mechanism = kv.mechanism("kvue", RATINGS, 1)
    tally = aggregate(mechanism, people.records(RATINGS), SeededCoins(4))
    found, wide = distribution(mechanism, tally, per_key=True), mechanism.estimate(tally).frequency.longer(0.5)
    assert wide.all() and set(found.flag) <= {FLAGS.index("wide"), FLAGS.index("insufficient")}
    told = RATINGS.keys[int(np.flatnonzero(found.flag == FLAGS.index("wide"))[0])]
    answers = found.median(told), found.share(told, 5, 5), found.variance(told)
    assert {one.flag for one in answers} == {"wide"}


@pytest.mark.parametrize(
    ("name", "options", "n"), sampled([("kvue", {"bins": 6}), ("ssr", {"bins": 6, "max_pairs": 4})], [80_000, 5_000])
)
def test_intervals_hold_for_any_law_as_people_grow(name: str, options: dict[str, Any], n: int) -> None:
    """Means are unbiased and bounds are bounds, so more people make neither worse: 120 means at 0.95, as above."""
    people, values = _any_values(n, 6)
    mechanism = kv.mechanism(name, RANGE, 3, **options)
    records = people.records(RANGE)
    held = [
        _covered(distribution(mechanism, aggregate(mechanism, records, SeededCoins(seed))), values)
        for seed in range(30)
    ]
    means, quantiles, variances = (np.mean([one[what] for one in held]) for what in range(3))
    assert means > 0.84 and quantiles > 0.97 and variances > 0.97


@pytest.mark.soak
@pytest.mark.parametrize(("name", "options"), [("kvue", {"bins": 6}), ("ssr", {"bins": 6, "max_pairs": 4})])
def test_intervals_hold_for_any_law_at_a_million_people(
    name: str, options: dict[str, Any], record_property: Callable[[str, object], None]
) -> None:
    """120 means: 0.95 gives more than 0.84 but once in a million."""
    people, values = _any_values(10**6, 7)
    mechanism, records = kv.mechanism(name, RANGE, 3, **options), people.records(RANGE)
    held = [
        _covered(distribution(mechanism, aggregate(mechanism, records, SeededCoins(seed))), values)
        for seed in range(30)
    ]
    means, quantiles, variances = (float(np.mean([one[what] for one in held])) for what in range(3))
    record_property("means", means)
    record_property("quantiles", quantiles)
    assert means > 0.84 and quantiles > 0.97 and variances > 0.97


def test_cells_bound_quantiles_for_any_law_and_tell_no_mean() -> None:
    people, values = _any_values(20_000, 8)
    mechanism = kv.mechanism("kvue", RANGE, 3, bins=6, rounding="cell")
    held = []
    for seed in range(20):
        tally = aggregate(mechanism, people.records(RANGE), SeededCoins(seed))
        held.append(_covered(distribution(mechanism, tally), values, mean=False))
    assert np.mean([one[1] for one in held]) > 0.97 and np.mean([one[2] for one in held]) > 0.97
    for told in (mechanism.estimate(tally).mean, distribution(mechanism, tally).means):
        with pytest.raises(KeyveilError, match="does not tell means") as refused:
            told["flat"]
        assert refused.value.code == "estimate/no-mean"


def test_the_middles_of_cells_are_no_mean() -> None:
    """A mean from the middles of cells misses where everybody is at the end: that is why cells give none."""
    people = kv.Population.from_records([{"bell": 10.0}] * 3000)
    mechanism = kv.mechanism("kvue", RANGE, 4, bins=5, rounding="cell")
    law = distribution(mechanism, aggregate(mechanism, people.records(RANGE), SeededCoins(1))).of("bell")
    assert law.shares @ law.values < 9.5
    points = kv.mechanism("kvue", RANGE, 4, bins=5)
    assert 10.0 in distribution(points, aggregate(points, people.records(RANGE), SeededCoins(1))).mean("bell")


@pytest.mark.parametrize("kind", ["points", "cells"])
def test_rows_bound_the_share_up_to_a_place_for_any_value(kind: str) -> None:
    """Each row, taken at a single value rounded to points or cut into cells, is at least whether the value counts."""
    at = np.linspace(-1, 1, 6)
    places = Places.at_points(at, levels=False) if kind == "points" else Places.in_cells(at)
    values, looked = np.linspace(-1, 1, 241), np.linspace(-0.97, 0.99, 97)
    if kind == "points":
        masses = np.maximum(1 - np.abs(values[:, None] - at) / 0.4, 0)
    else:
        masses = (np.minimum((values + 1) // 0.4, 4)[:, None] == np.arange(5)).astype(np.float64)
    for row in places.rows(looked, "any"):
        assert (masses @ row.T >= (values[:, None] <= looked) - 1e-9).all()
    uniform = places.rows(looked, "uniform")[0]
    assert (masses @ uniform.T < (values[:, None] <= looked) - 1e-9).any()  # which a wrong assumption breaks


def test_uniform_rows_hold_for_values_evenly_spread_between_points() -> None:
    at = np.linspace(-1, 1, 6)
    places, looked = Places.at_points(at, levels=False), np.linspace(-1, 1, 201)
    for cell in range(5):
        values = np.linspace(at[cell], at[cell + 1], 20_001)
        masses = np.maximum(1 - np.abs(values[:, None] - at) / 0.4, 0).mean(axis=0)
        share = (values[:, None] <= looked).mean(axis=0)
        assert (places.rows(looked, "uniform")[0] @ masses >= share - 1e-3).all()
        mirrored = places.mirrored.rows(-looked[::-1], "uniform")[0][::-1, ::-1]
        assert (mirrored @ masses >= 1 - share - 1e-3).all()


def test_keys_may_have_levels_of_their_own() -> None:
    schema = kv.Schema(keys=["liked", "stars", "hours"], low=0, high={"liked": 1, "stars": 10, "hours": 24},
                       levels={"liked": [0, 1], "stars": [0, 1, 3, 10]})  # fmt: skip
    people = kv.Population.from_records([{"liked": 1, "stars": 3}, {"stars": 10, "hours": 7.7}, {"liked": 0}] * 4000)
    for name, options in (("kvue", {}), ("ssr", {"max_pairs": 2}), ("kv-sw", {"max_pairs": 2})):
        mechanism = kv.mechanism(name, schema, 3, **options)
        found = distribution(
            mechanism, aggregate(mechanism, people.records(schema), SeededCoins(3)), confidence=0.999999
        )
        assert [len(found.of(key).shares) for key in ("liked", "stars")] == [2, 4]
        for key, mean in (("liked", 0.5), ("stars", 6.5), ("hours", 7.7)):
            assert mean in found.mean(key)
        assert 0.5 in found.share("stars", 3, 3) and 7.7 in found.median("hours")


def test_values_between_levels_are_rounded_without_bias() -> None:
    """Half of the people with 3.5 count as 3 and half as 4, so the mean stays and the shares are smeared."""
    people = kv.Population.from_records([{"mixed": 3.5}] * 20_000)
    mechanism = kv.mechanism("kvue", RATINGS, 4)
    found = distribution(mechanism, aggregate(mechanism, people.records(RATINGS), SeededCoins(2)), confidence=0.999999)
    assert 3.5 in found.mean("mixed") and 0.5 in found.share("mixed", 3, 3) and 0.5 in found.share("mixed", 4, 4)


def test_a_square_wave_tells_levels_of_a_value_that_everybody_has() -> None:
    """A false alarm in one of 200,000 runs; the coins are seeded."""
    stars = kv.Schema(keys=["stars"], levels=[1, 2, 3, 4, 5])
    mechanism = kv.mechanism("square-wave", stars, 3)
    people = kv.Population.from_records([{"stars": 5}] * 6000 + [{"stars": 2.5}] * 2000)
    tally = mechanism.tally(mechanism.perturb_many(people.records(stars), SeededCoins(2)))
    found = distribution(mechanism, tally, confidence=0.999999)
    assert found.of("stars").kind == "levels" and mechanism.options == {"cells": 5}
    assert [share in found.share("stars", level, level) for level, share in ((2, 1 / 8), (3, 1 / 8), (5, 3 / 4))] == [
        True
    ] * 3
    assert found.median("stars").value == 5 and (3 * 5 + 2.5) / 4 in found.mean("stars")
    assert kv.mechanism("square-wave", RANGE, 3).options == {"cells": 1024}


def test_levels_that_no_report_tells_are_unknown_and_say_so() -> None:
    mechanism = kv.mechanism("kvue", RATINGS, 1)
    found = distribution(mechanism, mechanism.tally([]))
    for one in (found.share("best", 5, 5), found.median("best"), found.mean("best")):
        assert one.flag == "insufficient" and np.isnan(one.value)


def test_signs_can_still_be_asked_for() -> None:
    signs = kv.mechanism("ssr", RATINGS, 1, max_pairs=2, bins=2)
    assert signs.labels.count == 2  # type: ignore[union-attr]
    assert kv.mechanism("ssr", RATINGS, 1, max_pairs=2).options["bins"] == 5


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda: kv.mechanism("kvue", RATINGS, 1, bins=4), "have 5 levels"),
        (lambda: kv.mechanism("kvue", RATINGS, 1, rounding="cell"), "have 5 levels"),
        (lambda: kv.mechanism("kvue", RANGE, 1, rounding="cell"), "only with bins"),
        (lambda: kv.mechanism("kvue", RANGE, 1, bins=4, rounding="up"), "rounding grid or cell"),
        (lambda: _ratings_found().share("mixed", 2.2, 2.8), "No level of 'mixed' lies from 2.2 to 2.8"),
        (lambda: _ratings_found().share("mixed", 4, 2), "from low to high"),
        (lambda: _ratings_found(within="normal"), "any law or a uniform one"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(ask: Any, told: str) -> None:
    with pytest.raises(KeyveilError, match=told) as refused:
        ask()
    assert str(refused.value).count("\n") == 0


def _ratings_found(**options: Any) -> Distributions:
    people, _ = _ratings(500, 1)
    mechanism = kv.mechanism("kvue", RATINGS, 2)
    return distribution(mechanism, aggregate(mechanism, people.records(RATINGS), SeededCoins(1)), **options)
