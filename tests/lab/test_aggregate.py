from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from keyveil.core.coins import Coins
from keyveil.core.epsilon import levels
from keyveil.core.records import Records
from keyveil.core.report import Reports
from keyveil.core.schema import Schema
from keyveil.lab import datasets
from keyveil.lab.aggregate import aggregate, has_aggregate
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import CountDraws
from keyveil.mechanisms.categorical.unary import OUE
from keyveil.mechanisms.families.categorical import Categorical
from keyveil.mechanisms.keyvalue.wsr import WSR
from keyveil.mechanisms.registry import create, find_mechanism, mechanism_names

D, PEOPLE, REPEATS = 6, 400, 600
ALARM = 1e-9  # per comparison; a test makes fewer than 900 of them

# Who must have one, as docs/simulate.md says: bits that are noisy one by one, tables, and symbols that are the truth or
# ignore it.
EXPECTED = {
    *("grr", "sue", "oue", "rappor", "ioh", "marginals", "moments", "krr-harmony", "block"),
    *("kvue", "privkv", "f2m", "kvoh", "pckv-ue", "pckv-grr", "kv-sw", "wsr"),
    *("hierarchy", "coordinates"),
}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in sorted(EXPECTED - {"hierarchy", "coordinates"})),  # those of a split
    ("ioh", {"oracle": "grr"}),
    ("marginals", {"oracle": "oue"}),
    ("marginals", {"size": 3, "members": 4}),
    ("block", {"width": 2, "states": 4}),
    ("moments", {"order": 3}),
    ("wsr", {"bins": 3}),
    ("wsr", {"weights": "1,1,2,3,5,9"}),
    ("topsel", {"mode": "direct", "set_sizes": None}),
    ("rappor", {"permanent": "0.1"}),
    ("split", {"groups": "kvue:1,wsr:2"}),
]
FEWER = {"ioh": 3}  # keys, where a tally has a cell for every set of them


def made(name: str, epsilon: str = "4", **given: Any) -> Mechanism:
    """At a large epsilon: what people hold, and not noise alone, must have the right law."""
    own = {field.name for field in fields(find_mechanism(name))}
    usual = {"max_pairs": 2, "cells": 4, "set_sizes": "2"}
    if name == "rappor":
        usual |= {"bits": 6, "cohorts": 3}
    options: dict[str, Any] = {option: value for option, value in usual.items() if option in own}
    return create(name, Schema(keys=FEWER.get(name, D)), epsilon, **{**options, **given})


def people(mechanism: Mechanism) -> Records:
    d = mechanism.schema.d
    means = np.linspace(-0.8, 0.6, d)
    if isinstance(mechanism, Categorical):
        return datasets.one_key(PEOPLE, np.arange(1.0, d + 1), means, 3).records(mechanism.schema)
    return datasets.independent(PEOPLE, np.linspace(0.1, 0.7, d), means, 3).records(mechanism.schema)


def reported(mechanism: Mechanism, records: Records) -> NDArray[Any]:
    """Tallies of many collections from the same people, by reports; all are drawn at once."""
    starts = (records.offsets[:-1] + len(records.keys) * np.arange(REPEATS)[:, None]).reshape(-1)
    offsets = np.append(starts, len(records.keys) * REPEATS)
    again = Records(offsets, np.tile(records.keys, REPEATS), np.tile(records.values, REPEATS), records.d)
    reports = mechanism.perturb_many(again, SeededCoins(5))
    parts = (slice(start, start + records.n) for start in range(0, len(reports), records.n))
    return np.array([mechanism.tally(Reports(reports.publics[p], reports.payloads[p])).counts.ravel() for p in parts])


def same_law(one: NDArray[Any], other: NDArray[Any]) -> None:
    """Means of all cells, and the distribution of cells and of random sums of cells, which see their dependence."""
    spread = np.sqrt((one.var(axis=0) + other.var(axis=0)) / len(one))
    z = np.abs(one.mean(axis=0) - other.mean(axis=0)) / np.maximum(spread, 1e-9)
    assert z.max() < stats.norm.isf(ALARM), f"another mean in cell {z.argmax()}"
    rng = np.random.default_rng(7)
    sums = np.hstack([np.eye(one.shape[1]), rng.normal(size=(one.shape[1], 8))])
    for left, right in zip((one @ sums).T, (other @ sums).T, strict=True):
        assert stats.ks_2samp(left, right, method="asymp").pvalue > ALARM
        assert stats.levene(left, right).pvalue > ALARM


def test_the_families_that_have_a_law_are_known() -> None:
    found = {name for name in mechanism_names() if has_aggregate(made(name))}
    assert found == EXPECTED


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=str)
def test_a_drawn_tally_has_the_law_of_counted_reports(name: str, options: dict[str, Any]) -> None:
    mechanism = made(name, **options)
    assert has_aggregate(mechanism)
    records = people(mechanism)
    drawn = [aggregate(mechanism, records, SeededCoins(6, run)) for run in range(REPEATS)]
    assert all(tally.reports == PEOPLE and tally.fingerprint == mechanism.fingerprint for tally in drawn)
    same_law(np.array([tally.counts.ravel() for tally in drawn]), reported(mechanism, records))


def test_the_comparison_notices_a_law_that_only_has_the_right_mean() -> None:
    """Binomial numbers at the average rate forget that everybody is asked exactly once: too much variance."""
    mechanism = made("oue")
    assert isinstance(mechanism, OUE)
    records = people(mechanism)
    hot = np.bincount(records.keys, minlength=D) / PEOPLE
    own, other = (float(mechanism.factor.probability(state, 1)) for state in (1, 0))
    rng = np.random.default_rng(8)
    careless = rng.binomial(PEOPLE, hot * own + (1 - hot) * other, size=(REPEATS, D))
    with pytest.raises(AssertionError):
        same_law(careless, reported(mechanism, records))


def test_the_comparison_notices_symbols_of_one_person_that_are_drawn_apart() -> None:
    """Everybody says one symbol only: with the right law for each of them, their sums still vary too much."""
    mechanism = made("wsr")
    assert isinstance(mechanism, WSR)
    records, rng, (high, low) = people(mechanism), np.random.default_rng(8), levels(mechanism.epsilon)
    public = np.append(np.full(mechanism.null, low / mechanism.total), 1 - mechanism.null * low / mechanism.total)
    careless = np.empty((REPEATS, mechanism.null + 1))
    for run, row in enumerate(careless):
        holders = np.bincount(mechanism.held(records, SeededCoins(6, run)).symbols, minlength=mechanism.null)
        row[:] = rng.multinomial(PEOPLE, public)
        row[:-1] += rng.binomial(holders, (high - low) / mechanism.total)
        row[-1] = PEOPLE - row[:-1].sum()
    with pytest.raises(AssertionError):
        same_law(careless, reported(mechanism, records))


def test_mechanisms_without_a_law_are_counted_report_by_report() -> None:
    mechanism = made("olh")
    assert not has_aggregate(mechanism)
    assert aggregate(mechanism, people(mechanism), SeededCoins(1)).reports == PEOPLE


def test_who_reports_or_counts_otherwise_than_the_law_says_has_none() -> None:
    """A law below which ``respond_many`` or ``fold`` was changed would be wrong without anybody noticing."""

    @dataclass(frozen=True)
    class Inverted(OUE):
        def fold(self, payloads: NDArray[Any], words: NDArray[Any]) -> NDArray[np.int64]:
            return len(payloads) - super().fold(payloads, words)

    @dataclass(frozen=True)
    class Stubborn(OUE):
        def respond_many(self, records: Records, words: NDArray[Any], coins: Coins) -> NDArray[Any]:
            return super().respond_many(records, words, coins) * 0

    @dataclass(frozen=True)
    class Inheriting(Inverted):
        pass

    @dataclass(frozen=True)
    class Explained(Inverted):
        def draw_tally(self, records: Records, coins: Coins, draws: CountDraws) -> NDArray[np.int64]:
            return records.n - super().draw_tally(records, coins, draws)

    plain = made("oue")
    for kind, has_law in ((OUE, True), (Inverted, False), (Stubborn, False), (Inheriting, False), (Explained, True)):
        mechanism = kind(plain.schema, plain.epsilon)
        assert has_aggregate(mechanism) == has_law
    records = people(plain)
    assert not aggregate(Stubborn(plain.schema, plain.epsilon), records, SeededCoins(1)).counts.any()
