"""The page that extends measured lines to sizes that nobody has counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keyveil.bench import extrapolation
from keyveil.bench.page import affine, remark

RUNS = [
    {"engine": engine, "n": n, "cpu": fixed + each * n, "wall": 1.0}
    for engine, fixed, each in (("local", 2.0, 2e-6), ("spark", 10.0, 8e-6))
    for n in extrapolation.SIZES[engine]
]
LOCAL = RUNS[: len(extrapolation.SIZES["local"])]
FOUND = {"day": "2026-11-18", "machine": "a machine", "bytes_per_report": 20.0, "runs": RUNS}


def test_a_line_is_found_again_and_extended() -> None:
    fixed, each, fit = extrapolation.line(LOCAL)
    assert fixed == pytest.approx(2.0) and each == pytest.approx(2e-6) and fit == pytest.approx(1.0)
    told = extrapolation.page(FOUND)
    assert "| local | 1e+09 | 20 GB | 0.6 | 0.01 |" in told  # (2 + 2·10³)/3600 hours
    assert "| spark | 1e+09 | 20 GB | 2.2 | 0.03 |" in told  # (10 + 8·10³)/3600 hours
    alone = extrapolation.page({**FOUND, "runs": LOCAL})
    assert "spark was not measured." in alone and "| spark |" not in alone


def test_the_page_is_made_from_what_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, page = tmp_path / "kept.json", tmp_path / "page.md"
    kept.write_text(json.dumps(FOUND), encoding="utf-8")
    page.write_text("# Costs\n", encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["extrapolation", str(kept), str(page)])
    for _ in range(2):  # the second time replaces what the first wrote
        extrapolation.main()
    assert page.read_text(encoding="utf-8").count("From these lines, not measured") == 1


def test_a_folder_is_counted_and_its_seconds_are_those_of_the_command(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    extrapolation.write_reports(folder, 3000)
    cpu, wall = extrapolation._tallied(folder, "local")
    assert 0.2 < cpu < 60 and wall > 0 and Path(f"{folder}.local.tally").exists()


def test_a_line_with_a_fixed_cost_says_it() -> None:
    sizes = [64, 128, 256, 512, 1024]
    seconds = [0.002 + 1e-5 * size for size in sizes]
    fixed, fit = affine(sizes, seconds)
    assert fixed == pytest.approx(0.002) and fit == pytest.approx(1)
    about = {"slope": 0.6, "r2": 0.95, "sizes": sizes, "seconds": seconds}
    assert remark(about) == "a fixed 2 ms, then linear: R² 1.000"
    assert remark({**about, "r2": 0.999}) == "" and remark({**about, "slope": 1.3}) == "**above linear**"
