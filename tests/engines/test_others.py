"""Engines of others: what the documentation shows gives the tally of one machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from keyveil.engines.fold import Fold
from keyveil.engines.local import count
from tests.engines.report_files import SNACKS, first_round, reports, written

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"


def test_the_example_for_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = (block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S) if "duckdb" in block)
    document = first_round(SNACKS)
    rows = reports(document, 200)
    (tmp_path / "reports").mkdir()
    for name, part in (("a", rows[:150]), ("b", rows[100:])):
        written(tmp_path / "reports" / f"{name}.parquet", part)
    monkeypatch.chdir(tmp_path)
    given: dict[str, Any] = {"fold": Fold(document)}

    exec(example, given)

    assert given["tally"] == count(Path("reports"), document).tally and given["tally"].reports == 200
