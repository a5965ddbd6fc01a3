"""One process that measures: ``python -m keyveil.bench.worker`` writes a row a line, as JSON.

``keyveil bench`` starts it with one thread for every numerical library, which must be said before they are loaded.
Rows come from this room, and in a copy of the repository also from ``benchmarks/``, which an installed package lacks.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from keyveil.bench.rows import REGISTRY, Ratio, measured, run
from keyveil.kernels import backend

ROOMS = ("kernels", "reports", "counting", "device", "two_threads", "limits", "plans")
REPOSITORY = ("documents", "service")
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_ROOT = Path(__file__).parents[3]


def modules() -> Iterator[Any]:
    """Everything that has rows: those of the package, then those of the repository."""
    for name in ROOMS:
        yield importlib.import_module(f"keyveil.bench.{name}")
    if (_ROOT / "benchmarks" / "__init__.py").exists():
        sys.path.insert(0, str(_ROOT))
        for name in REPOSITORY:
            if (_ROOT / "benchmarks" / f"{name}.py").exists():
                yield importlib.import_module(f"benchmarks.{name}")


def rows(quick: bool, only: str = "") -> Iterator[dict[str, Any]]:
    """Every row, as soon as it is measured: registered races, then what a module's ``rows(quick)`` gives.

    A race that cannot be held here (no compiler, no database) is a row without a ratio that says why.
    """
    for module in modules():
        for entry in [one for one in REGISTRY if only in one.name]:
            try:
                yield measured(entry, quick).document()
            except OSError as reason:
                yield left_out(entry.name, entry.against, entry.goal, str(reason))
        REGISTRY.clear()
        if not only or only in module.__name__:
            yield from map(completed, own_rows(module)(quick))


def own_rows(module: Any) -> Callable[[bool], Iterable[Ratio | Mapping[str, Any]]]:
    """The function ``rows`` or ``run`` that a module itself defines."""
    for name in ("rows", "run"):
        found = getattr(module, name, None)
        if callable(found) and found.__module__ == module.__name__:
            return cast(Callable[[bool], Iterable[Ratio | Mapping[str, Any]]], found)
    return lambda quick: ()


def left_out(name: str, against: str, goal: float | None, why: str) -> dict[str, Any]:
    """A row that was not measured."""
    return {"name": name, "ratio": None, "against": against, "goal": goal, "verdict": None, "why": why}


def completed(row: Ratio | Mapping[str, Any]) -> dict[str, Any]:
    """A row of another module in the same form; what it says beyond that is kept."""
    if isinstance(row, Ratio):
        return row.document()
    known = Ratio(row["name"], row["ratio"], row["against"], row.get("goal"), row.get("reports_per_second"))
    return {**known.document(), **row}


def write(found: Iterable[dict[str, Any]]) -> None:
    """Each row on a line of its own, at once."""
    for row in found:
        sys.stdout.write(msgspec.json.encode(row).decode() + "\n")
        sys.stdout.flush()


def main() -> None:
    """What the process does."""
    parser = argparse.ArgumentParser(prog="keyveil.bench.worker")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--peers", type=Path, help="seconds a report that peers take, as peer_times.py says them")
    options = parser.parse_args()
    backend.TWIN_WORK = 0  # rates are those of compiled kernels, however few reports a race takes
    if options.peers is None:
        write(rows(options.quick, options.only))
        return
    from keyveil.bench.against_peers import register

    register(msgspec.json.decode(options.peers.read_bytes()))
    write(one.document() for one in run(options.quick, options.only))


if __name__ == "__main__":
    main()
