"""``python -m keyveil.bench.page HISTORY PAGE [--slopes]``: the page of the documentation about speed.

The table comes from the history alone, so the page can be made again without measuring. ``--slopes`` measures how time
grows, and keeps that beside the history, with its picture.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from keyveil.bench.history import runs
from keyveil.bench.slopes import growths, picture

MARK = "<!-- below this line: written by python -m keyveil.bench.page -->"
SHOWN = 5  # last runs
ABOVE, FLAT, STRAIGHT = 1.15, 0.06, 0.99  # slopes that are too steep, slopes of nothing, and R² of a straight line


def table(kept: Sequence[dict[str, Any]]) -> str:
    """The last full runs side by side, newest first; quick ones if there are no others."""
    full = [run for run in kept if not run["quick"]] or list(kept)
    last = full[-SHOWN:][::-1]
    names = list(dict.fromkeys(name for run in last for name in run["ratios"]))
    head = "| ratio | " + " | ".join(run["day"] for run in last) + " |"
    rows = [f"| {name} | " + " | ".join(_number(run["ratios"].get(name)) for run in last) + " |" for name in names]
    machines = list(dict.fromkeys(run["machine"] for run in last))
    return "\n".join([*(f"Machine: {one}." for one in machines), "", head, "|---|" + "---:|" * len(last), *rows])


def growth_table(found: Sequence[dict[str, Any]]) -> str:
    """Slopes and R² of every kind of work; those above linear or with a poor fit are marked."""
    rows = [f"| {one['name']} | {one['of']} | {one['slope']:.2f} | {one['r2']:.3f} | {remark(one)} |" for one in found]
    return "\n".join(["| work | over | slope | R² | |", "|---|---|---:|---:|---|", *rows])


def remark(one: dict[str, Any]) -> str:
    """Why a line is not what one hopes for: linear or below, and straight."""
    if one["slope"] > ABOVE:
        return "**above linear**"
    if abs(one["slope"]) < FLAT:
        return "does not grow"
    if one["r2"] > STRAIGHT:
        return ""
    fixed, fit = affine(one["sizes"], one["seconds"])
    if fit > STRAIGHT and fixed > 0:
        return f"a fixed {1e3 * fixed:.2g} ms, then linear: R² {fit:.3f}"
    spread = max(one["seconds"]) / min(one["seconds"])
    return f"{spread:.1f} times as long for {max(one['sizes']) / min(one['sizes']):.0f} times the size: R² {fit:.3f}"


def affine(sizes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    """The fixed part of seconds = fixed + each · size, and R², by least squares of relative errors."""
    x, y = np.asarray(sizes, dtype=float), np.asarray(seconds, dtype=float)
    each, fixed = np.polyfit(x, y, 1, w=1 / y)
    rest = (((y - fixed - each * x) / y) ** 2).sum()
    spread = (((y - (1 / y).sum() / (1 / y**2).sum()) / y) ** 2).sum()
    return float(fixed), float(1 - rest / spread)


def write(history: Path, page: Path, slopes: bool) -> None:
    """Replace what stands below the mark of the page."""
    kept = page.with_name("bench-slopes.json")
    if slopes:
        found = list(growths())
        kept.write_bytes(msgspec.json.format(msgspec.json.encode([one.document() for one in found])) + b"\n")
        target = page.parent / "pictures" / "bench-slopes.png"
        target.parent.mkdir(exist_ok=True)
        picture(found).savefig(target, dpi=110)
    parts = [
        page.read_text(encoding="utf-8").split(MARK)[0].rstrip(),
        "",
        MARK,
        "",
        "## Runs",
        "",
        table(runs(history)),
    ]
    if kept.exists():
        parts += ["", "## Growth", "", growth_table(msgspec.json.decode(kept.read_bytes()))]
        parts += ["", "![Time over size](pictures/bench-slopes.png)"]
    page.write_text("\n".join(parts) + "\n", encoding="utf-8")


def _number(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def main() -> None:
    """What the command does."""
    parser = argparse.ArgumentParser(prog="keyveil.bench.page")
    parser.add_argument("history", type=Path)
    parser.add_argument("page", type=Path)
    parser.add_argument("--slopes", action="store_true", help="measure growth again")
    options = parser.parse_args()
    write(options.history, options.page, options.slopes)


if __name__ == "__main__":
    main()
