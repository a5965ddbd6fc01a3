"""Limits of conditionals and quantiles: no replaced reports go beyond them, and some come near."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest

from keyveil.core.report import Reports
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.lab import datasets
from keyveil.lab.attacks.crafting import thought_of
from keyveil.lab.coins import SeededCoins
from keyveil.learn.conditionals import Conditionals
from keyveil.learn.distributions import distribution
from keyveil.learn.places import Within
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.counting import counts_of_each
from keyveil.mechanisms.registry import create
from keyveil.robustness.answers import conditional_limits, quantile_limits
from keyveil.robustness.influence import most_moved

N = 1500
Ask = Callable[[Tally], float]


def collected(mechanism: Mechanism, held: float = 0.5) -> tuple[Tally, np.ndarray, np.ndarray]:
    """A tally, what each of its reports adds, and what reports add that an attacker thinks of."""
    d = mechanism.schema.d
    crowd = datasets.independent(N, np.full(d, held), np.linspace(-0.5, 0.6, d), 3)
    honest = mechanism.perturb_many(crowd.records(mechanism.schema), SeededCoins(2))
    crafted = thought_of(mechanism, 0, SeededCoins(1), 120)

    def each(reports: Reports) -> np.ndarray:
        return counts_of_each(mechanism, reports.payloads, mechanism.read_words(reports.publics))

    return mechanism.tally(honest), each(honest), np.unique(each(crafted), axis=0)


def extremes(mechanism: Mechanism, ask: Ask, m: int) -> tuple[float, float]:
    """The least and the largest answer if those reports leave that stand most against it, and the best one comes."""
    tally, honest, crafted = collected(mechanism)
    rng, found = np.random.default_rng(5), []

    def after(gone: np.ndarray, come: np.ndarray) -> float:
        counts = tally.counts.reshape(-1) - honest[gone].sum(axis=0) + come
        return ask(Tally(tally.fingerprint, N, counts.reshape(tally.counts.shape)))

    kinds, owners = np.unique(honest, axis=0, return_inverse=True)
    looked_at = rng.permutation(len(kinds))[:60]
    for sign in (1, -1):
        anybody = rng.permutation(N)[:m]
        values = np.nan_to_num(np.array([after(anybody, m * row) for row in crafted]), nan=-np.inf)
        best, against = crafted[int(np.argmax(sign * values))], np.full(len(kinds), -np.inf)
        for kind in looked_at:
            less = tally.counts - kinds[kind].reshape(tally.counts.shape)
            against[kind] = sign * ask(Tally(tally.fingerprint, N - 1, less))
        order = np.argsort(-np.nan_to_num(against)[owners], kind="stable")
        found += [after(order[:m], m * best), after(anybody, m * best), after(order[: m // 2], m // 2 * best)]
        mixed = crafted[rng.integers(len(crafted), size=(5, m))].sum(axis=1)
        found += [after(rng.permutation(N)[:m], row) for row in mixed]
    known = [one for one in found if np.isfinite(one)]
    return min(known), max(known)


@pytest.mark.parametrize("of", ["frequency", "mean"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("moments", {}),
        ("marginals", {"size": 2, "oracle": "grr"}),
        ("marginals", {"size": 2, "oracle": "oue"}),
        ("ioh", {"oracle": "grr"}),
        ("block", {"width": 2}),
        ("split", {"groups": "ssr:1,moments:3", "max_pairs": 2}),
    ],
)
def test_no_reports_move_a_conditional_beyond_its_limits(
    name: str, options: dict[str, Any], of: Literal["frequency", "mean"]
) -> None:
    mechanism, m = create(name, Schema(keys=3), 4, **options), 10
    tally, _, _ = collected(mechanism)
    limits = conditional_limits(mechanism, tally, m, of, "0", {"1": True})
    assert limits is not None and -1 <= limits[0] < limits[1] <= 1

    def ask(counts: Tally) -> float:
        return float(np.clip(getattr(Conditionals(mechanism, counts), of)("0", {"1": True}).value, -1, 1))

    low, high = extremes(mechanism, ask, m)
    assert limits[0] - 1e-9 <= max(low, 0.0 if of == "frequency" else -1.0)
    assert min(high, 1.0) <= limits[1] + 1e-9
    assert high - low > 0.15 * (limits[1] - limits[0]), (low, high, limits)


@pytest.mark.parametrize(
    ("name", "options", "schema", "level", "within"),
    [
        ("kvue", {"bins": 5}, Schema(keys=3), 0.2, "any"),
        ("kvue", {"bins": 4, "rounding": "cell"}, Schema(keys=3), 0.5, "any"),
        ("kvue", {"bins": 5}, Schema(keys=3, low=1, high=5, levels=[1, 2, 3, 4, 5]), 0.8, "any"),
        ("kvue", {"bins": 4, "rounding": "cell"}, Schema(keys=3), 0.5, "uniform"),
        ("wsr", {"bins": 4, "max_pairs": 2}, Schema(keys=3), 0.5, "any"),
        ("ssr", {"bins": 4, "max_pairs": 2, "size": 2}, Schema(keys=3), 0.8, "any"),
    ],
)
def test_no_reports_move_a_quantile_beyond_its_limits(
    name: str, options: dict[str, Any], schema: Schema, level: float, within: Within
) -> None:
    mechanism, m = create(name, schema, 5, **options), 10
    tally, _, _ = collected(mechanism)
    limits = quantile_limits(mechanism, tally, m, "0", level, within)
    assert limits is not None

    def ask(counts: Tally) -> float:
        value = distribution(mechanism, counts, within=within).quantile(level, "0").value
        return float(schema.to_unit(np.array([0]), np.array([value]))[0])

    low, high = extremes(mechanism, ask, m)
    assert limits[0] - 1e-9 <= low <= high <= limits[1] + 1e-9, (limits, low, high)
    assert high - low >= 0.15 * (limits[1] - limits[0]), (limits, low, high)


def test_what_is_not_proved_is_not_claimed() -> None:
    window = create("kv-sw", Schema(keys=3), 4, max_pairs=2)
    tally, _, _ = collected(window)
    assert quantile_limits(window, tally, 10, "0", 0.5) is None, "EM"
    assert conditional_limits(window, tally, 10, "frequency", "0", {"1": True}) is None, "tells nothing of two keys"


def test_limits_are_all_there_is_where_too_few_people_are_left() -> None:
    mechanism = create("marginals", Schema(keys=3), 4, size=2)
    tally, _, _ = collected(mechanism)
    assert conditional_limits(mechanism, tally, N // 2, "frequency", "0", {"1": True}) == (0.0, 1.0)
    assert conditional_limits(mechanism, tally, N // 2, "mean", "0", {"1": True}) == (-1.0, 1.0)
    cells = create("kvue", Schema(keys=3), 4, bins=5)
    tally, _, _ = collected(cells)
    assert quantile_limits(cells, tally, N // 2, "0", 0.5) == (-1.0, 1.0)
    value = distribution(cells, tally).quantile(0.5, "0").value
    assert quantile_limits(cells, tally, 0, "0", 0.5) == pytest.approx((value, value), abs=1e-9)


def test_a_few_people_can_turn_several_small_averages_at_once() -> None:
    """Of three averages over ten people each, fifteen who leave and come elsewhere turn all three."""
    ranges, people = np.ones((4, 1)), np.array([[10.0], [10.0], [10.0], [1000.0]])
    assert most_moved(ranges, people, 15)[0] == pytest.approx(3 + 15 / 985)
    assert most_moved(ranges[3:], people[3:], 15)[0] == pytest.approx(15 / 1000)
