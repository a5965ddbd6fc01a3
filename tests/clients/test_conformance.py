"""The JavaScript client draws what the Python device draws, step by step, from the same bytes; both check the other."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.clients import vectors
from tests.clients.planted import planted

HERE = Path(__file__).parent
ANSWERED = 10  # cases of each question that Node answers with its own streams
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


def node(*arguments: object, script: Path = HERE / "conformance.mjs") -> dict[str, Any]:
    ran = subprocess.run(["node", script, *map(str, arguments)], capture_output=True, text=True, timeout=3000)
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
    """Node answers with streams of its own; Python replays them, and reads every report as a collector does."""
    listed = [{**one, "cases": ANSWERED} for one in json.loads(written.read_text())[::11]]
    assert {one["mechanism"] for one in listed} == NEEDED
    few, answered = tmp_path / "few.json", tmp_path / "answered.json"
    few.write_text(json.dumps(listed))
    assert node("write", few, answered)["first"] == []
    total, wrong = vectors.check(answered)
    assert wrong == []
    assert total == ANSWERED * len(listed) > 1_500


def test_edge_records_are_among_them(written: Path) -> None:
    """Empty ones, too many pairs, unknown keys, values that are no numbers or out of range; all sizes and prices."""
    listed = json.loads(written.read_text())
    for one in listed:
        known = one["schema"]["keys"]
        names = set(known) if isinstance(known, list) else {str(key) for key in range(known)}
        one["kinds"] = {
            kind
            for record in one["records"][: one["cases"]]
            for kind, there in (
                ("empty", not record),
                ("surplus", len(record) > (one["options"].get("max_pairs") or 1000)),
                ("unknown", not names >= set(record)),
                ("no number", any(not isinstance(value, int | float) for value in record.values())),
                ("out of range", 1e300 in record.values()),
            )
            if there
        }
    for name in NEEDED:
        kinds = set.union(*(one["kinds"] for one in listed if one["mechanism"] == name))
        assert kinds >= {"empty", "unknown", "no number", "out of range"}, name
    assert "surplus" in set.union(*(one["kinds"] for one in listed if one["mechanism"] == "ssr"))
    assert {vectors.count(one["schema"]) for one in listed} == set(vectors.KEYS) >= {1, 1000}
    assert {one["epsilon"] for one in listed} == set(vectors.EPSILONS) >= {"0.1", "8"}


def test_one_other_draw_is_noticed(written: Path, tmp_path: Path) -> None:
    """A digest or a report that differs is found by both, and so is a report that nobody could have sent."""
    one = next(one for one in json.loads(written.read_text()) if one["mechanism"] == "kvue")
    one["cases"], planted = 20, {"digests": "00" * 8, "reports": "ff", "fingerprint": "00" * 32}
    fresh = {**one, **vectors.answers(vectors.made_from(one), one)}
    for what, other in planted.items():
        spoilt = {**fresh, what: [*fresh[what][:-1], other] if isinstance(fresh[what], list) else other}
        path = tmp_path / f"{what}.json"
        path.write_text(json.dumps([spoilt]))
        assert node("check", path)["differences"] == 1
        assert len(vectors.check(path)[1]) == (2 if what == "reports" else 1)


@pytest.mark.parametrize(
    ("mechanism", "file", "right", "wrong"),
    [
        ("ssr", "coins.js", "return found[place] > most;", "return found[place] > most + 1n;"),
        ("pckv-ue", "numbers.js", "bytes[at] === digit", "bytes[at] + 1 === digit"),
        ("ssr", "mechanisms.js", "!mine.includes(one)", "one >= 0"),
        ("kvue", "schema.js", "1.5 * 2 ** 52", "1.5 * 2 ** 51"),
        ("kvue", "wire.js", "mix(0, 1, 13n)", "mix(0, 1, 14n)"),
        ("pckv-ue", "mechanisms/pckv.js", "truth[2], truth[1]]", "truth[1], truth[2]]"),
    ],
)
def test_a_client_that_draws_otherwise_is_noticed(
    written: Path, tmp_path: Path, mechanism: str, file: str, right: str, wrong: str
) -> None:
    """Planted mistakes, each in one place of the client."""
    script = planted(tmp_path, "conformance.mjs", file, right, wrong)
    listed = [one for one in json.loads(written.read_text()) if one["mechanism"] == mechanism]
    few = [{**one, "cases": 32} for one in listed if vectors.count(one["schema"]) in (5, 12)][:16]
    path = tmp_path / "few.json"
    path.write_text(json.dumps([{**one, **vectors.answers(vectors.made_from(one), one)} for one in few]))
    assert node("check", path)["differences"] == 0
    assert node("check", path, script=script)["differences"] > 0


@pytest.mark.soak
def test_a_million_reports(tmp_path: Path, record_property: Any) -> None:
    path = tmp_path / "vectors.json"
    vectors.write(path, 1_000_000, seed=2)
    found = node("check", path)
    record_property("reports", found["total"])
    record_property("differences", found["differences"])
    assert found["total"] >= 1_000_000
    assert found["differences"] == 0
