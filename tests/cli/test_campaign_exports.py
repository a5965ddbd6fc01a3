"""What ``campaign estimates`` prints and writes when values of one key are logarithmic and those of another linear.

A collector tells means in the schema's units and exactly on [-1, 1]; files and tables have the units.
"""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest

from keyveil.cli.app import run
from keyveil.collector.service import Service
from tests.collector.campaigns import batch_of, started

Output = pytest.CaptureFixture[str]
Row = dict[str, Any]

SCHEMA = {"keys": ["income", "rating"], "low": [1, 1], "high": [10_000, 5], "map": ["log", "linear"]}
PEOPLE = ({"income": 10, "rating": 2}, {"income": 1000, "rating": 2}, {"income": 1000, "rating": 5}, {"rating": 5})
INCOME = 10 ** (7 / 3)  # the geometric mean of those who have one
RATING = 3.5
NUMBERS = ("frequency", "frequency_se", "mean", "mean_se", "mean_low", "mean_high")


@pytest.fixture(scope="module")
def estimated(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Row]]:
    """A database with a campaign that is over, and what its mechanism says of the tally, in the schema's units."""
    path = str(tmp_path_factory.mktemp("log") / "collector.db")
    service = Service(f"sqlite:///{path}")
    document = started(service, schema=SCHEMA, protocol={"name": "kvue", "epsilon": "4"}, min_reports=100)
    service.submit("snacks", batch_of(document, 4000, PEOPLE)).result(60)
    service.act("snacks", "stop")
    service.settle()
    mechanism, tally = service.tally("snacks")
    service.close()
    return path, mechanism.estimate(tally).rows()


def test_means_come_out_in_the_units_that_values_went_in(estimated: tuple[str, list[Row]], capsys: Output) -> None:
    path, direct = estimated
    assert run(["campaign", "estimates", "snacks", "--database", path, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["estimates"]

    assert [{name: row[name] for name in NUMBERS} for row in rows] == [
        {name: row[name] for name in NUMBERS} for row in direct
    ]
    income, rating = rows
    assert abs(math.log(income["mean"] / INCOME)) < 7 * income["mean_se"] / income["mean"] < 1  # 10^-11
    assert abs(rating["mean"] - RATING) < 7 * rating["mean_se"] < 1


def test_files_and_the_table_say_what_the_collector_said(
    estimated: tuple[str, list[Row]], tmp_path: Path, capsys: Output
) -> None:
    path, direct = estimated
    table = tmp_path / "e.csv"
    assert run(["campaign", "estimates", "snacks", "--database", path, "--csv", str(table)]) == 0

    with table.open(newline="") as lines:
        written = list(csv.DictReader(lines))
    for row, known in zip(written, direct, strict=True):
        assert [float(row[name]) for name in NUMBERS] == pytest.approx([known[name] for name in NUMBERS])
    income = direct[0]["mean"], direct[0]["mean_low"], direct[0]["mean_high"]
    places = 0 if direct[0]["mean_high"] - direct[0]["mean_low"] >= 100 else 1
    mean, low, high = (f"{number:.{places}f}" for number in income)
    assert f"{mean} [{low}, {high}]" in capsys.readouterr().out


@pytest.mark.parametrize(("options", "shown"), [({"bins": 3}, True), ({}, False)], ids=["bins", "signs"])
def test_a_report_has_distributions_where_reports_tell_them(
    tmp_path: Path, options: dict[str, int], shown: bool, capsys: Output
) -> None:
    service = Service(f"sqlite:///{tmp_path / 'collector.db'}")
    document = started(service, protocol={"name": "kvue", "epsilon": "4", **options}, min_reports=100)
    service.submit("snacks", batch_of(document, 2000)).result(60)
    service.act("snacks", "stop")
    service.settle()
    service.close()
    page = tmp_path / "page.html"
    where = ["--database", str(tmp_path / "collector.db"), "--report", str(page)]
    assert run(["campaign", "estimates", "snacks", *where]) == 0, capsys.readouterr().err
    assert ("the share in each part of the range" in page.read_text()) == shown
