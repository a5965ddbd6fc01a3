"""The study behind docs/robustness-gains.md, at small sizes, and the page that is made of it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from keyveil.lab.attacks import honest, page, study
from keyveil.mechanisms.registry import mechanism_names, names

PAGE = Path("docs/robustness-gains.md")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(honest, "PEOPLE", 300)
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
    study.main(rows, None, honest=3)
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
    honest_rows = [row for row in found if "population" in row]
    assert [row["population"] for row in honest_rows if row["name"] == "oue"] == list(honest.one_key_crowds(30, 3))
    assert [row["population"] for row in honest_rows if row["name"] == "kvue"] == [honest.ANY]
    spoken: dict[str, Any] = {"name": "privkvm", "attackers": 0.01, "quantity": "frequency", "found": 0.3}
    rounds = [{**spoken, "round": at, "gain": 0.2 / at} for at in (1, 2)]
    text = page.page([*found, *rounds])
    assert "| `privkvm` | frequency | 1% | 0.200, 0.100 | 0.300 |" in text and "## How often tests tell honest" in text
    assert "## Limits" in text and "### Frequency, 1% attackers, ε = 1" in text
    assert "## How often tests tell" in text and "## Trying ids" in text
    assert max(map(len, (line for line in text.splitlines() if not line.startswith("|")))) <= 120


def test_the_rows_of_the_page_keep_what_it_says() -> None:
    """Every mechanism with a test was run on honest reports, and no gain that was measured is above its bound."""
    found = [json.loads(line) for line in Path("docs/robustness.jsonl").read_text().splitlines()]
    ran = [row for row in found if "population" in row]
    assert not honest.too_many(ran) and not honest.far_below(ran)
    assert all(row["runs"] >= 1000 for row in ran)
    powers = {row["name"] for row in found if "power" in row}
    assert powers | study.LEFT_OUT == {row["name"] for row in ran}
    ids = {(row["name"], row["targets"]) for row in found if row.get("tried") == 1_000_000}
    reading = {name for name in mechanism_names() if name not in study.LEFT_OUT and page.reads_ids(name)}
    assert ids == {(name, targets) for name in reading for targets in (1, 5)}
    gains = [row for row in found if "share" in row]
    assert len({(row["name"], row["epsilon"]) for row in gains}) == (len(names()) - len(study.LEFT_OUT)) * 4
    for row in gains:
        if row.get("bound") is not None and row["bound_kind"] == "bound":
            reached = [row[kind]["gain"] for kind in study.TRIED if kind in row]
            assert all(math.isnan(gain) or gain <= row["bound"] + 1e-9 for gain in reached), row


def test_the_page_is_made_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it but the limits, which need a collection for each mechanism."""
    monkeypatch.setattr(page, "_limits", list)
    found = [json.loads(line) for line in Path("docs/robustness.jsonl").read_text().splitlines()]
    made, written = (text.partition("## Gains")[2] for text in (page.page(found) + "\n", PAGE.read_text()))
    assert made == written
