"""The JavaScript client draws what the Python device draws, step by step, from the same bytes; both check the other."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.clients import vectors

HERE = Path(__file__).parent
NEEDED = {
    "ssr",
    "kvue",
    "topsel",
    "wsr",
    "wheel",
    "pckv-ue",
    "pckv-grr",
    "block",
    "apart",
    "overflow",
    "set-size",
    "split",
}


def node(*arguments: object) -> dict[str, Any]:
    ran = subprocess.run(
        ["node", HERE / "conformance.mjs", *map(str, arguments)], capture_output=True, text=True, timeout=3000
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vectors") / "vectors.json"
    vectors.write(path, 100_000)
    return path


def test_node_draws_what_python_drew(written: Path) -> None:
    found = node("check", written)
    assert found["total"] >= 100_000
    assert found["first"] == []


def test_python_draws_what_node_drew(written: Path, tmp_path: Path) -> None:
    listed = [{**one, "cases": one["cases"][:2]} for one in json.loads(written.read_text())]
    assert {one["mechanism"] for one in listed} == NEEDED
    few, answered = tmp_path / "few.json", tmp_path / "answered.json"
    few.write_text(json.dumps(listed))
    node("write", few, answered)
    assert vectors.check(answered)[1] == []


def test_one_other_draw_is_noticed(written: Path, tmp_path: Path) -> None:
    """A report, a step or a payload that differs in one case is found in that case."""
    one = json.loads(written.read_text())[0]
    one["cases"] = one["cases"][:3]
    for what in ("steps", "payload", "report"):
        planted = json.loads(json.dumps(one))
        planted["cases"][1][what] = "00" * 8
        path = tmp_path / f"{what}.json"
        path.write_text(json.dumps([planted]))
        assert node("check", path)["differences"] == 1
        assert len(vectors.check(path)[1]) == 1


@pytest.mark.soak
def test_a_million_reports(tmp_path: Path, record_property: Any) -> None:
    path = tmp_path / "vectors.json"
    vectors.write(path, 1_000_000, seed=2)
    found = node("check", path)
    record_property("reports", found["total"])
    record_property("differences", found["differences"])
    assert found["total"] >= 1_000_000
    assert found["differences"] == 0
