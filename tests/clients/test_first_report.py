"""How long the first report of a process takes, at a thousand keys, beside the Python device."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.device.collector import Collector, document

HERE = Path(__file__).parent
KEYS = 1000
LIMIT = 50.0  # milliseconds
PROTOCOLS: dict[str, dict[str, Any]] = {
    "ssr": {"max_pairs": 3},
    "kvue": {},
    "wsr": {"max_pairs": 3},
    "wheel": {"max_pairs": 3},
    "pckv-ue": {"max_pairs": 3},
    "pckv-grr": {"max_pairs": 3},
    "topsel": {"set_sizes": "3"},
    "block": {},
    "apart": {"max_pairs": 3},
}


def asked(path: Path, name: str, keys: int) -> Path:
    """A file with what a collector serves, and a record."""
    collector = Collector()
    protocol = {"name": name, "epsilon": "1", **PROTOCOLS[name]}
    collector.open(document(schema={"keys": keys, "low": 1, "high": 5}, protocol=protocol))
    view = collector.views["snack-survey"]
    path.write_text(json.dumps({"name": "snack-survey", "view": view, "record": {"1": 2, "2": 4, "7": 5}}))
    return path


def first(command: list[Any], runs: int) -> float:
    """The least milliseconds of so many fresh processes."""
    times = []
    for _ in range(runs):
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=HERE.parent.parent)
        assert ran.returncode == 0, ran.stderr
        told = json.loads(ran.stdout)
        assert told["state"] == "sent"
        times.append(told["milliseconds"])
    return min(times)


def test_both_measure_a_report_that_is_sent(tmp_path: Path) -> None:
    path = asked(tmp_path / "kvue.json", "kvue", 5)
    assert first(["node", HERE / "first.mjs", path], 1) > 0
    assert first([sys.executable, "-m", "tests.clients.first", path], 1) > 0


@pytest.mark.soak
@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_first_report_of_a_process_is_quick(tmp_path: Path, name: str, record_property: Any) -> None:
    path = asked(tmp_path / f"{name}.json", name, KEYS)
    node = first(["node", HERE / "first.mjs", path], 5)
    python = first([sys.executable, "-m", "tests.clients.first", path], 5)
    record_property("ms in Node", f"{node:.1f}")
    record_property("ms in Python", f"{python:.1f}")
    record_property("ratio", f"{node / python:.2f}")
    assert node < LIMIT
