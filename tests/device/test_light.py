"""A device is light: what it loads, how fast it starts to matter, and that a forked one draws on its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from keyveil.core.coins import Coins
from keyveil.device import Device
from tests.device.collector import Collector, Sleeper, Watch, document

HEAVY = {
    *("scipy", "numba", "pandas", "polars", "pyarrow", "matplotlib", "narwhals"),
    *("fastapi", "starlette", "uvicorn", "sqlalchemy", "typer", "rich"),
}

REPORTING = """
import json, sys
from tests.device.collector import Collector, document
from keyveil.device import Device
for protocol in json.loads(sys.argv[1]):
    collector = Collector()
    collector.open(document(protocol=protocol))
    device = Device(":memory:", collector)
    device.consent("snack-survey")
    device.report("snack-survey", {"fries": 4})
    print(device.explain("snack-survey").text, file=sys.stderr)
print(*{name.split(".")[0] for name in sys.modules})
print(*(name for name in sys.modules if name.startswith("keyveil.collector")))
"""

COMMON: list[dict[str, Any]] = [
    {"name": "ssr", "epsilon": "1", "max_pairs": 3},
    {"name": "kvue", "epsilon": "1"},
    {"name": "pckv-ue", "epsilon": "1", "max_pairs": 3},
    {"name": "pilot", "epsilon": "1"},
    {"name": "privkvm", "epsilon": "1"},
]


def modules(script: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    return done.stdout.splitlines()


def test_importing_the_device_loads_nothing_heavy() -> None:
    (line,) = modules("import keyveil.device, sys\nprint(*{name.split('.')[0] for name in sys.modules})")
    assert not set(line.split()) & HEAVY


def test_reporting_loads_nothing_heavy() -> None:
    loaded, collector = modules(REPORTING, json.dumps(COMMON))
    assert not set(loaded.split()) & HEAVY
    assert collector == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_device_draws_on_its_own(tmp_path: Path) -> None:
    """The same coins in two processes after a fork: the reports must not be each other's."""
    coins = Coins()
    coins.bytes(1)  # a keystream is there before the fork

    def report(name: str) -> None:
        collector = Collector()
        collector.open(document(schema={"keys": 200}, protocol={"name": "pckv-ue", "epsilon": "1", "max_pairs": 1}))
        with Device(":memory:", collector, clock=Watch(), coins=coins, sleep=Sleeper()) as device:
            device.consent("snack-survey")
            device.report("snack-survey", {})
        (tmp_path / name).write_bytes(b"".join(part for one in collector.reports for part in one))

    child = os.fork()
    if child == 0:
        report("child")
        os._exit(0)
    os.waitpid(child, 0)
    report("parent")

    first, second = ((tmp_path / name).read_bytes() for name in ("child", "parent"))
    assert first[:16] != second[:16] and first[16:] != second[16:]
