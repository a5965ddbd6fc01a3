"""Runs that are kept, so that a regression is seen: a line of JSON for each, and a page that is made from them.

A run is compared with the last ones of the same machine and size. Ratios against a rival in the same run hardly depend
on how busy the machine is, so a ratio that falls below two thirds of the median of the last five is named.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from keyveil.core.errors import KeyveilError

WORSE = 1.5  # a planted slow-down of 2 is above it, what repeated runs differ by is below (docs/bench.md)
LAST = 5  # runs that a new one is compared with


def slower(path: Path, result: dict[str, Any], quick: bool = False) -> list[str]:
    """A sentence for every ratio that is worse than before by more than ``WORSE``, on the same machine."""
    before = [run for run in runs(path) if run["machine"] == result["machine"] and run["quick"] == quick][-LAST:]
    told = []
    for row in result["ratios"]:
        known = [old for run in before if (old := run["ratios"].get(row["name"])) is not None]
        if known and row["ratio"] is not None and row["ratio"] * WORSE < (usual := median(known)):
            told.append(
                f"{row['name']} is slower: {row['ratio']:.3g} where the last {len(known)} runs had {usual:.3g}."
            )
    return told


def add(path: Path, result: dict[str, Any], quick: bool = False, when: str | None = None) -> None:
    """Write a run behind those of the file."""
    ratios = {row["name"]: row["ratio"] for row in result["ratios"] if row["ratio"] is not None}
    day = when or datetime.now(UTC).date().isoformat()
    line = msgspec.json.encode({"day": day, "quick": quick, "machine": result["machine"], "ratios": ratios})
    try:
        with path.open("ab") as file:
            file.write(line + b"\n")
    except OSError as reason:
        raise KeyveilError("output/file", f"The history {path} cannot be written: {reason.strerror}.") from reason


def runs(path: Path) -> list[dict[str, Any]]:
    """The runs of a file, oldest first; none if there is no file."""
    try:
        lines = path.read_bytes().splitlines() if path.exists() else []
        return [msgspec.json.decode(line) for line in lines if line.strip()]
    except (OSError, msgspec.DecodeError) as reason:
        raise KeyveilError("input/file", f"The history {path} cannot be read: {reason}.") from reason
