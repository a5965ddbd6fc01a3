"""The study behind docs/robustness-gains.md, at small sizes, and the page that is made of it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from keyveil.lab.attacks import page, study


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (study, page):
        monkeypatch.setattr(module, "PEOPLE", 600)
        monkeypatch.setattr(module, "EPSILONS", ("1",))


def test_rows_become_tables(few: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "names", lambda: ("oue", "kvue"))
    monkeypatch.setattr(page, "mechanism_names", lambda: ("oue", "kvue"))
    rows = tmp_path / "rows.jsonl"
    study.main(rows, None)
    once = rows.read_text()
    study.main(rows, None)
    assert rows.read_text() == once, "what is there is not measured again"
    study.main(rows, None, 5)
    study.main(rows, 50)
    found = [json.loads(line) for line in rows.read_text().splitlines()]
    gains = [row for row in found if "share" in row]
    assert {(row["name"], row["quantity"]) for row in gains} == {
        ("oue", "frequency"),
        ("kvue", "frequency"),
        ("kvue", "mean"),
    }
    for row in gains:
        found_gains = [row[kind]["gain"] for kind in study.TRIED if kind in row]
        assert all(math.isnan(gain) or gain <= row["bound"] + 1e-9 for gain in found_gains), row
    text = page.page(found)
    assert "## Limits" in text and "### Frequency, 1% attackers, ε = 1" in text
    assert "## How often tests tell" in text and "## Trying ids" in text
    assert max(map(len, (line for line in text.splitlines() if not line.startswith("|")))) <= 120
