"""Measures what a report of every mechanism costs, and writes the table that plans read (``planning/costs.json``).

python -m keyveil.bench.costs src/keyveil/planning/costs.json
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from keyveil.bench.machine import machine
from keyveil.core.coins import Coins
from keyveil.core.errors import KeyveilError
from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Mechanism
from keyveil.planning.candidates import JOINT, considered, forms
from keyveil.planning.goals import goals
from keyveil.planning.people import invented
from keyveil.planning.trials import tried_people

KEYS = (10, 100, 1_000, 10_000)
PAIRS, PEOPLE, EPSILON = 4, 2_000, Fraction(1)
ENOUGH = 0.05  # seconds over which a time is measured
BLOCKS = 5  # of which the fastest counts


def measured(keys: tuple[int, ...] = KEYS, people: int = PEOPLE, enough: float = ENOUGH) -> dict[str, Any]:
    """The table: of every mechanism that plans consider, in its usual form."""
    goal = goals("both")[0]
    names = dict.fromkeys([*considered(goal), *JOINT])
    rows = {name: [_costs(name, d, people, enough) for d in keys] for name in names}
    return {
        "machine": machine(),
        "keys": list(keys),
        "mechanisms": {
            name: {"device": [one[0] for one in row], "server": [one[1] for one in row]}
            for name, row in rows.items()
            if row[0][0] is not None
        },
    }


def _costs(name: str, d: int, people: int, enough: float) -> tuple[float | None, float | None]:
    """Microseconds on a device and on the server; None where the mechanism does not take so many keys."""
    expected, schema = invented(people, d, PAIRS), Schema(keys=d)
    try:
        made = next(iter(forms(name, schema, EPSILON, expected, goals("both")[0])))
        crowd = tried_people(expected, schema)
        reports = made.perturb_many(crowd.records(schema), Coins())
    except KeyveilError:
        return None, None
    record = {schema.keys[key]: 0.3 for key in range(PAIRS)}
    device = _fastest(lambda: _report(made, record), enough)
    server = _fastest(lambda: made.tally(reports), enough) / crowd.n
    return float(f"{1e6 * device:.3g}"), float(f"{1e6 * server:.3g}")


def _report(made: Mechanism, record: dict[str, float]) -> bytes:
    return made.encode(made.perturb(record, Coins()))


def _fastest(step: Callable[[], Any], enough: float) -> float:
    """Processor seconds of one step, in the fastest of some blocks; the first step, which compiles, is not counted."""
    step()
    best = float("inf")
    for _ in range(BLOCKS):
        begin, steps = time.process_time(), 0
        while steps == 0 or time.process_time() - begin < enough:
            step()
            steps += 1
        best = min(best, (time.process_time() - begin) / steps)
    return best


def main() -> None:
    reader = argparse.ArgumentParser(prog="python -m keyveil.bench.costs", description=__doc__)
    reader.add_argument("table", type=Path, help="where the table is written")
    given = reader.parse_args()
    given.table.write_text(json.dumps(measured(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
