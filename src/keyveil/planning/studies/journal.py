"""What a study has measured, one JSON line each: a study that was stopped goes on with what is missing."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Document = dict[str, Any]


def read(journal: Path, key: str) -> dict[Any, Document]:
    """All lines by the value of ``key``; of two lines with the same one the last counts."""
    lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
    return {line[key]: line for line in map(json.loads, lines)}


def go_on(
    journal: Path,
    key: str,
    wanted: Iterable[Any],
    measure: Callable[[Any], Document],
    minutes: float,
    enough: Callable[[dict[Any, Document]], bool] = lambda _: False,
) -> dict[Any, Document]:
    """Measure what is missing in the journal, write every line at once, and return all lines.

    Nothing begins after so many ``minutes``, or when there is ``enough``.
    """
    known, end = read(journal, key), time.monotonic() + 60 * minutes
    with journal.open("a", encoding="utf-8") as file:
        for one in wanted:
            if enough(known) or time.monotonic() > end:
                break
            if one in known:
                continue
            known[one] = {key: one, **measure(one)}
            file.write(json.dumps(known[one], separators=(",", ":")) + "\n")
            file.flush()
            sys.stderr.write(f"{len(known):,} done; last {one}\n")
    return known
