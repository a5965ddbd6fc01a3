"""Milliseconds of the first report of a process, as first.mjs measures them in Node: ``python first.py FILE``."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from keyveil.device import Device, Patience
from tests.device.collector import Collector, Sleeper, Watch


def main() -> None:
    given = json.loads(Path(sys.argv[1]).read_text())
    collector = Collector(views={given["name"]: given["view"]})
    start = time.perf_counter()
    device = Device(":memory:", collector, clock=Watch(), sleep=Sleeper(), patience=Patience(pace=0))
    shown = device.explain(given["name"])
    device.consent(given["name"], shown)
    state = device.report(given["name"], given["record"], shown=shown).state
    sys.stdout.write(json.dumps({"milliseconds": 1000 * (time.perf_counter() - start), "state": state}))


if __name__ == "__main__":
    main()
