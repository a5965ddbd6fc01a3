"""What a report costs a device and the server, in microseconds of one core: from a measured table, between its sizes.

The table (``costs.json``) was measured on one machine, which it names, and is written by

python -m keyveil.bench.costs
"""

from __future__ import annotations

import json
import math
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from keyveil.mechanisms.base import Mechanism


class Cost(NamedTuple):
    """Microseconds a report: to make it on a device, in plain Python, and to count it on the server."""

    device: float
    server: float


@cache
def table() -> dict[str, Any]:
    """The measured table: ``machine``, the numbers of ``keys``, and by name ``device`` and ``server`` at each."""
    text = files("keyveil.planning").joinpath("costs.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def cost(mechanism: Mechanism) -> Cost | None:
    """The cost of a report, between measured numbers of keys by a power law; nothing for who was not measured.

    For people who are sent to different groups it is the average over the groups.
    """
    groups = mechanism.options.get("groups")
    if isinstance(groups, str):
        return _of_groups(groups, mechanism.schema.d)
    return _of(mechanism.name, mechanism.schema.d)


def _of(name: str, d: int) -> Cost | None:
    row = table()["mechanisms"].get(name)
    if row is None:
        return None
    sizes = [math.log(keys) for keys, time in zip(table()["keys"], row["device"], strict=True) if time is not None]
    return Cost(*(_between(math.log(d), sizes, [one for one in row[side] if one is not None]) for side in Cost._fields))


def _between(place: float, places: list[float], times: list[float]) -> float:
    """On a straight line between logarithms; beyond the largest size as steep as before it, below the smallest flat."""
    logs = np.log(times)
    log, beyond = float(np.interp(place, places, logs)), place - places[-1]
    if beyond > 0 and len(places) > 1:
        log += beyond * max((logs[-1] - logs[-2]) / (places[-1] - places[-2]), 0.0)
    return float(f"{math.exp(log):.3g}")  # a measured time is known no better


def _of_groups(groups: str, d: int) -> Cost | None:
    parts = [(name.strip(), float(share or 1)) for name, _, share in (one.partition(":") for one in groups.split(","))]
    costs = [_of(name, d) for name, _ in parts]
    if None in costs:
        return None
    total = sum(share for _, share in parts)
    return Cost(
        *(
            sum(one[side] * share for one, (_, share) in zip(costs, parts, strict=True) if one) / total
            for side in range(len(Cost._fields))
        )
    )
