from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_benchmarks_run_and_say_what_they_compare() -> None:
    """Small sizes; ratios depend on the machine and are never asserted, only that every race is run."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "--json"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    found = json.loads(done.stdout)
    assert {"machine", "ratios"} == set(found)
    names = {row["name"] for row in found["ratios"]}
    assert "hard-documents" in names
    assert {"olh-counting", "unary-perturbation", "bit-counting", "ssr-folding-1000", "ssr-wire-1000"} <= names
    assert all(row["ratio"] > 0 and row["against"] for row in found["ratios"])
