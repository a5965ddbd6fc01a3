from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import keyveil as kv
from keyveil.core.errors import MechanismError
from keyveil.core.schema import GRID, Schema
from keyveil.frames.population import Population
from keyveil.lab import datasets
from keyveil.lab import rounds as module
from keyveil.lab.datasets import Dataset
from keyveil.lab.public_options import with_public, with_typical
from keyveil.lab.rounds import Blocks, ask
from keyveil.lab.simulate import simulate
from keyveil.protocols.privkvm import PrivKVM
from keyveil.protocols.registry import as_protocol

FIELDS = {"mechanism", "epsilon", "users", "keys", "seconds", "bits_per_report", "metrics", "estimates"}


@pytest.fixture(scope="module")
def five() -> Dataset:
    return datasets.load("linear-s", n=4000, seed=1)


def _blocks(data: Dataset) -> Blocks:
    return Blocks.of(data.population, data.schema)


def test_the_document_has_what_the_command_line_promises(five: Dataset) -> None:
    result = simulate("kvue", five.population, five.schema, 1, seed=2)
    document = result.document()
    assert set(document) >= FIELDS
    assert (document["users"], document["keys"], document["epsilon"]) == (4000, 20, 1.0)
    assert set(document["estimates"][0]) >= {"key", "frequency", "mean_low", "true_mean", "flag"}
    json.dumps(document, allow_nan=False)


@pytest.mark.parametrize("name", ["kvue", "ssr", "pilot"])
def test_rows_are_those_of_the_estimates_and_counts_are_called_n(five: Dataset, name: str) -> None:
    result = simulate(name, five.population, five.schema, 1, seed=2)
    document = result.document()
    assert document["estimates"] == result.estimates.rows()
    assert {"flag", "frequency_flag", "mean_flag"} <= set(document["estimates"][0])
    assert document["n"] == document["users"] == sum(one["n"] for one in document["rounds"]) == 4000
    assert document["exact_epsilon"] == document["rounds"][-1]["spent"] <= 1


def test_a_mechanism_is_a_protocol_of_one_round(five: Dataset) -> None:
    """By name, as an object, and as a round that a protocol asks: the same coins, the same counts."""
    mechanism = kv.mechanism("ssr", five.schema, 1, max_pairs=5)
    named = simulate("ssr", five.population, five.schema, 1, seed=2, max_pairs=5, overflow="off")
    made, driven = (simulate(one, five.population, seed=2) for one in (mechanism, as_protocol(mechanism)))
    assert named.tally == made.tally == driven.tally == ask(as_protocol(mechanism), _blocks(five), 2)[0].tally
    assert made.mechanism == mechanism and made.protocol.single == mechanism
    assert (driven.document()["mechanism"], driven.document()["options"]) == ("ssr", mechanism.options)


def test_a_round_draws_other_coins_than_the_next_and_another_run_others_than_the_first(five: Dataset) -> None:
    protocol = PrivKVM(five.schema, Fraction(4), rounds=1)
    first, second = (ask(protocol, _blocks(five), 2, run)[0].tally for run in (0, 1))
    assert first != second and first == simulate(protocol, five.population, seed=2, repeats=2).tally


def test_what_is_made_already_takes_nothing_else(five: Dataset) -> None:
    mechanism = kv.mechanism("kvue", five.schema, 1)
    assert simulate(mechanism, five.population, five.schema, 1, seed=1).truth.n == 4000
    wrong: list[tuple[Schema | None, int | None, dict[str, Any]]] = [
        (kv.Schema(keys=3), 1, {}),
        (None, 2, {}),
        (None, None, {"bins": 4}),
    ]
    for schema, epsilon, options in wrong:
        with pytest.raises(MechanismError) as refused:
            simulate(mechanism, five.population, schema, epsilon, **options)
        assert refused.value.code == "simulate/object"


@pytest.mark.parametrize(("name", "options"), [("privkvm-star", {}), ("pilot", {"then": "pckv-ue"})])
def test_tallies_of_every_round_may_come_from_their_law(five: Dataset, name: str, options: dict[str, Any]) -> None:
    """Errors are as large: each is a mean of 400 squares, so a ratio of 2.5 is nine standard errors away from 1."""
    drawn, reported = (
        simulate(name, five.population, five.schema, 4, seed=3, repeats=20, shortcut=shortcut, **options)
        for shortcut in (True, False)
    )
    ratio = float(drawn.metrics["mse_frequency"] or 0) / float(reported.metrics["mse_frequency"] or 1)
    assert 0.4 < ratio < 2.5
    assert [one.tally.reports for one in drawn.history] == [one.tally.reports for one in reported.history]
    assert drawn.tally != reported.tally


def test_a_law_of_set_sizes_in_its_short_spelling_is_not_replaced(five: Dataset) -> None:
    result = simulate("topsel", five.population, five.schema, 1, seed=1, sizes="4")
    assert result.protocol.parameters["set_sizes"] == "4" and not result.notes


@pytest.mark.soak
def test_a_million_people_in_half_a_gigabyte(record_property: Callable[[str, object], None]) -> None:
    """Memory is that of a process of its own: people, one block of records, and the compiler's code."""
    code = """
import resource
import numpy as np
import keyveil as kv
n, rng = 1_000_000, np.random.default_rng(7)
keys = rng.integers(0, 200, (n, 5), dtype=np.int32) + 200 * np.arange(5, dtype=np.int32)
people = kv.Population(1000, np.arange(n + 1, dtype=np.int64) * 5, keys.reshape(-1), np.ones(5 * n))
for name in ("ssr", "adaptive"):
    kv.simulate(name, people, kv.Schema(keys=1000), 1, seed=1, max_pairs=5, threads=2)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    record_property("GB", round(float(done.stdout), 2))
    assert float(done.stdout) < 0.5


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


def test_how_large_values_are_is_taken_from_the_data_and_said(five: Dataset) -> None:
    people = five.population.keyed(five.schema)
    square = float(np.mean((people.records(five.schema).values / GRID) ** 2))
    options, notes = with_typical("apart", people, five.schema, {"mode": "dense"})
    assert options == {"mode": "dense", "typical": f"{square**0.5:.2f}"} and "root mean square" in notes[0]
    assert with_typical("apart", people, five.schema, {"typical": "0.3"}) == ({"typical": "0.3"}, ())
    assert with_typical("ssr", people, five.schema, {}) == ({}, ())
    told = simulate("apart", five.population, five.schema, 1, seed=1)
    assert as_protocol(told.protocol).parameters["typical"] == f"{square**0.5:.2f}" and any(
        "typical" in note for note in told.notes
    )


def test_a_missing_law_of_sizes_is_that_of_the_data() -> None:
    sizes = np.array([0] + [1] * 3 + [4] * 4)
    assert with_public("topsel", sizes, 20, {})[0] == {"set_sizes": "0:0.125,1:0.375,4:0.5"}
    assert with_public("topsel", sizes, 20, {"mode": "direct"}) == ({"mode": "direct"}, ())


def test_keys_of_people_above_the_cap_are_flagged() -> None:
    people = Population.from_records([{"a": 1}, {"a": 0, "b": 1}, {"c": -1}] * 50)
    result = simulate("pckv-ue", people, Schema(keys=["a", "b", "c"]), 4, seed=1, max_pairs=1, overflow="off")
    flags = dict(zip("abc", result.estimates.flag, strict=True))
    assert flags["a"] in ("truncated", "insufficient") and flags["b"] != "ok"
    assert result.estimates.frequency["a"].flag == "truncated"
    assert result.estimates.frequency["c"].flag == "ok"
    assert "33.3%" in result.notes[0]


def test_nobody_above_the_cap_means_no_flag(five: Dataset) -> None:
    result = simulate("pckv-ue", five.population, five.schema, 1, seed=1, max_pairs=5, overflow="off")
    assert "truncated" not in result.estimates.flag and result.notes == ()


def test_runs_must_be_positive(five: Dataset) -> None:
    with pytest.raises(MechanismError):
        simulate("kvue", five.population, five.schema, 1, repeats=0)


@pytest.mark.parametrize("name", ["privkvm", "privkvm-harmony", "privkvm-meanest", "privkvm-star"])
def test_rounds_of_privkvm_have_a_cost(name: str) -> None:
    """How far the published means are off, at most 2, and a fifth for each round."""
    people = datasets.independent(400, [0.5, 0.8], [0.5, -0.5], 1)
    options: dict[str, Any] = {} if name == "privkvm-star" else {"rounds": 2}  # which has two groups
    result = simulate(name, people, epsilon=2, seed=1, **options)
    rounds = len(result.history)
    assert 0.2 * rounds < float(result.metrics["cost"] or 0)
    assert result.cost(rounds) == result.metrics["cost"] and result.cheapest is not None


@pytest.mark.parametrize(
    ("name", "options"), [("kvue", {"bins": 4}), ("kv-sw", {"max_pairs": 2}), ("privkvm-star", {})]
)
def test_whatever_tells_distributions_has_the_error_of_their_variances(name: str, options: dict[str, Any]) -> None:
    people = datasets.independent(3000, [0.5, 0.8], [0.5, -0.5], 1)
    found = simulate(name, people, epsilon=8, seed=1, **options).metrics
    assert 0 < float(found["wasserstein"] or 0) < 0.5 and 0 < float(found["mse_variance"] or 0) < 0.1
    assert float(found["mse_subset"] or 0) > 0
