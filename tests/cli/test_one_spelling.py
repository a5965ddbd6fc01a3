"""Estimates have one spelling, whoever is asked: HTTP, the command line, simulations, exports and frames."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from keyveil.cli.app import run
from keyveil.collector.models import EstimatesView
from keyveil.collector.models import Row as DescribedRow
from keyveil.core.estimates import Estimates
from keyveil.frames.results import AS_OF
from tests.collector.running import Collector, running

Output = pytest.CaptureFixture[str]
Row = dict[str, Any]

ROW = [
    "key", "frequency", "frequency_se", "frequency_low", "frequency_high", "selected_low",
    "selected_high", "mean", "mean_se", "mean_low", "mean_high", "true_frequency",
    "true_mean", "flag", "frequency_flag", "mean_flag",
]  # fmt: skip
TEXTS = ("key", "flag", "frequency_flag", "mean_flag")


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    with running(tmp_path) as one:
        one.filled(400)
        yield one


def printed(output: Output, *arguments: str) -> Any:
    assert run([*arguments, "--json"]) == 0, output.readouterr().err
    return json.loads(output.readouterr().out)


def rows_of(text: str) -> list[Row]:
    """The rows of a CSV as JSON has them."""

    def cell(name: str, value: str) -> Any:
        return value if name in TEXTS else None if value == "" else float(value)

    return [{name: cell(name, value) for name, value in row.items()} for row in csv.DictReader(io.StringIO(text))]


def test_a_campaign_says_the_same_over_http_on_the_command_line_and_in_exports(
    collector: Collector, tmp_path: Path, capsys: Output
) -> None:
    database, tally, table = str(tmp_path / "keyveil.db"), str(tmp_path / "t.tally"), tmp_path / "e.csv"

    def fetched(form: str) -> bytes:
        return collector.ask("GET", "/v1/campaigns/snacks/estimates", token=collector.analyst, Accept=form).body

    over_http = json.loads(fetched("application/json"))
    command = printed(capsys, "campaign", "estimates", "snacks", "--csv", str(table), "--database", database)
    assert run(["campaign", "export", "snacks", "--tally", "--out", tally, "--database", database]) == 0
    capsys.readouterr()
    exported = printed(capsys, "estimate", tally)
    with pyarrow.ipc.open_stream(fetched("application/vnd.apache.arrow.stream")) as stream:
        arrow = stream.read_all().to_pylist()

    assert command == over_http
    assert list(over_http["estimates"][0]) == ROW == list(DescribedRow.model_fields)
    assert set(over_http) == set(EstimatesView.model_fields)
    assert over_http["n"] == over_http["reports"] == exported["n"] == 400
    shared = set(exported) & set(over_http)
    assert {"mechanism", "epsilon", "options", "n", "confidence", "population", "estimates", "exact"} <= shared
    assert {name: exported[name] for name in shared} == {name: over_http[name] for name in shared}
    rows = [{**row, **dict.fromkeys(AS_OF)} for row in over_http["estimates"]]  # of a campaign without dates
    assert over_http["as_of"] is None and arrow == rows
    assert rows_of(fetched("text/csv").decode()) == rows_of(table.read_text()) == rows


@pytest.mark.parametrize("mechanism", ["kvue", "privkvm"])
def test_a_simulation_has_the_same_rows_and_the_truth_in_them(mechanism: str, tmp_path: Path, capsys: Output) -> None:
    tally = str(tmp_path / "t.tally")
    several = mechanism == "privkvm"
    options = ["--mechanism", mechanism, "--epsilon", "2", "--seed", "3", *([] if several else ["--tally", tally])]
    simulated = printed(capsys, "simulate", "synthetic:uniform:500", *options)

    assert list(simulated["estimates"][0]) == ROW
    assert simulated["n"] == simulated["users"] == 500
    assert Estimates.from_document(simulated).rows() == simulated["estimates"]
    if not several:
        found = printed(capsys, "estimate", tally)
        unknown = {"true_frequency": None, "true_mean": None}
        assert [row | unknown for row in simulated["estimates"]] == found["estimates"]
        assert (float(found["epsilon"]), found["exact"]) == (simulated["epsilon"], without_truth(simulated["exact"]))
        told = ("schema", "mechanism", "options", "n", "confidence", "population")
        assert {name: found[name] for name in told} == {name: simulated[name] for name in told}


def without_truth(exact: dict[str, Any]) -> dict[str, Any]:
    return {name: numbers for name, numbers in exact.items() if name != "truth"}
