from __future__ import annotations

import json

import numpy as np
import pytest

from keyveil.core.errors import MechanismError
from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.lab import datasets
from keyveil.lab import rounds as module
from keyveil.lab.datasets import Dataset
from keyveil.lab.public_options import with_public
from keyveil.lab.simulate import simulate

FIELDS = {"mechanism", "epsilon", "users", "keys", "seconds", "bits_per_report", "metrics", "estimates"}


@pytest.fixture(scope="module")
def five() -> Dataset:
    return datasets.load("linear-s", n=4000, seed=1)


def test_the_document_has_what_the_command_line_promises(five: Dataset) -> None:
    result = simulate("kvue", five.population, five.schema, 1, seed=2)
    document = result.document()
    assert set(document) >= FIELDS
    assert (document["users"], document["keys"], document["epsilon"]) == (4000, 20, 1.0)
    assert set(document["estimates"][0]) >= {"key", "frequency", "mean_low", "true_mean", "flag"}
    json.dumps(document, allow_nan=False)


def test_a_seed_fixes_all_but_the_seconds(five: Dataset) -> None:
    one, same, other = (simulate("kvue", five.population, five.schema, 1, seed=seed).document() for seed in (2, 2, 3))
    for document in (one, same, other):
        del document["seconds"]
    assert one == same and one["estimates"] != other["estimates"]


@pytest.mark.parametrize("shortcut", [False, True])
def test_threads_do_not_change_the_result(five: Dataset, shortcut: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 500)
    tallies = [
        simulate("kvue", five.population, five.schema, 1, seed=2, threads=threads, shortcut=shortcut).tally
        for threads in (1, 3)
    ]
    assert tallies[0] == tallies[1] and tallies[0].reports == 4000


def test_progress_counts_everybody_in_every_run(five: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 1500)
    seen: list[int] = []
    simulate("kvue", five.population, five.schema, 1, seed=1, repeats=2, progress=seen.append)
    assert seen == [1500, 1500, 1000] * 2


def test_repeats_are_averaged(five: Dataset) -> None:
    single = [simulate("kvue", five.population, five.schema, 4, seed=9).metrics["mse_frequency"]]
    both = simulate("kvue", five.population, five.schema, 4, seed=9, repeats=2)
    assert both.metrics["mse_frequency"] != single[0] and both.repeats == 2
    assert both.metrics["fairness_frequency"] is None  # two runs say nothing about single keys


def test_a_hundred_runs_tell_fairness() -> None:
    small = datasets.load("linear-s", n=300, seed=1)
    result = simulate("kvue", small.population, small.schema, 4, seed=1, repeats=100, shortcut=True)
    assert 0 < float(result.metrics["fairness_frequency"] or 0) <= 1


def test_cells_tell_how_far_the_distribution_is_off(five: Dataset) -> None:
    cells = [simulate("kvue", five.population, five.schema, epsilon, seed=1, bins=4) for epsilon in (1, 8)]
    rough, fine = (float(one.metrics["wasserstein"] or 0) for one in cells)
    assert 0 < fine < rough
    assert simulate("kvue", five.population, five.schema, 1, seed=1).metrics["wasserstein"] is None


def test_a_missing_cap_is_taken_from_the_sizes_and_said() -> None:
    sizes = np.array([1] * 89 + [3] * 6 + [9] * 5)
    options, notes = with_public("pckv-ue", sizes, 20, {})
    assert options == {"max_pairs": 3} and "90%" in notes[0]
    assert with_public("pckv-ue", sizes, 20, {"max_pairs": 5}) == ({"max_pairs": 5}, ())
    assert with_public("pckv-ue", sizes, 2, {})[0] == {"max_pairs": 2}
    assert with_public("kvue", sizes, 20, {}) == ({}, ())


def test_a_missing_law_of_sizes_is_that_of_the_data() -> None:
    sizes = np.array([0] + [1] * 3 + [4] * 4)
    assert with_public("topsel", sizes, 20, {})[0] == {"set_sizes": "0:0.125,1:0.375,4:0.5"}
    assert with_public("topsel", sizes, 20, {"mode": "direct"}) == ({"mode": "direct"}, ())


def test_keys_of_people_above_the_cap_are_flagged() -> None:
    people = Population.from_records([{"a": 1}, {"a": 0, "b": 1}, {"c": -1}] * 50)
    result = simulate("pckv-ue", people, Schema(keys=["a", "b", "c"]), 4, seed=1, max_pairs=1)
    flags = dict(zip("abc", result.estimates.flag, strict=True))
    assert flags["a"] in ("truncated", "insufficient") and flags["b"] != "ok"
    assert result.estimates.frequency["a"].flag == "truncated"
    assert result.estimates.frequency["c"].flag == "ok"
    assert "33.3%" in result.notes[0]


def test_nobody_above_the_cap_means_no_flag(five: Dataset) -> None:
    result = simulate("pckv-ue", five.population, five.schema, 1, seed=1, max_pairs=5)
    assert "truncated" not in result.estimates.flag and result.notes == ()


def test_runs_must_be_positive(five: Dataset) -> None:
    with pytest.raises(MechanismError):
        simulate("kvue", five.population, five.schema, 1, repeats=0)
