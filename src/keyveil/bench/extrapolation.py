"""``python -m keyveil.bench.extrapolation KEPT PAGE [--measure]``: what 10⁹ and 10¹⁰ reports would cost to count.

``--measure`` counts folders of growing size with ``keyveil tally`` on each engine and keeps the processor seconds in
KEPT, a file of JSON. The page is made from that file: a straight line through the measured seconds (a fixed part and so
much for each report), and what it says of sizes that were not measured.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from keyveil.bench.machine import machine
from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import pad
from keyveil.core.coins import Coins
from keyveil.lab.datasets import independent

KEYS, PAIRS = 100, 5
SIZES = (250_000, 500_000, 1_000_000, 2_000_000)
ENGINES = ("local", "spark")
FAR = (10**9, 10**10)
CLUSTER = 64  # cores of an imagined cluster
MARK = "<!-- below this line: written by python -m keyveil.bench.extrapolation -->"
CAMPAIGN: dict[str, Any] = {
    "keyveil": 1,
    "name": "many-reports",
    "purpose": "Measuring what it costs to count reports.",
    "schema": {"keys": KEYS, "low": -1, "high": 1},
    "protocol": {"name": "ssr", "epsilon": "1", "max_pairs": PAIRS},
    "rounds": [{"enough": 1000}],
    "min_reports": 100,
}
_A_FILE, _KINDS, _LOOK = 250_000, 20_000, 0.1


def measured(sizes: tuple[int, ...] = SIZES, engines: tuple[str, ...] = ENGINES) -> dict[str, Any]:
    """Processor seconds of ``keyveil tally`` for every engine and size, and what the files take."""
    found: dict[str, Any] = {"day": datetime.now(UTC).date().isoformat(), "machine": machine(), "runs": []}
    with tempfile.TemporaryDirectory() as folder:
        for n in sizes:
            reports = Path(folder) / f"reports-{n}"
            write_reports(reports, n)
            found["bytes_per_report"] = sum(one.stat().st_size for one in reports.iterdir()) / n
            for engine in engines:
                seconds, wall = _tallied(reports, engine)
                found["runs"].append({"engine": engine, "n": n, "cpu": round(seconds, 2), "wall": round(wall, 2)})
    return found


def write_reports(folder: Path, n: int) -> None:
    """Files of reports under fresh ids, sorted by them; the payloads of some thousand people again and again."""
    import pyarrow
    import pyarrow.parquet as parquet

    folder.mkdir()
    campaign = Campaign.from_document(CAMPAIGN)
    first = campaign.protocol.next_round([])
    assert first is not None
    document, coins = RoundDocument.of(campaign, first), Coins()
    mechanism = document.mechanism
    people = independent(_KINDS, np.full(KEYS, PAIRS / KEYS), np.zeros(KEYS), 1).records(mechanism.schema)
    rows = mechanism.codec.unstack(mechanism.perturb_many(people, coins).payloads)
    kinds = [pad(mechanism.codec.encode(one), document.report_bytes, mechanism.codec.varies) for one in rows]
    for number, start in enumerate(range(0, n, _A_FILE)):
        size = min(_A_FILE, n - start)
        ids = np.sort(np.frombuffer(coins.bytes(16 * size), "S16"))
        column = pyarrow.FixedSizeBinaryArray.from_buffers(pyarrow.binary(16), size, [None, pyarrow.py_buffer(ids)])
        payloads = pyarrow.array([kinds[at % _KINDS] for at in range(size)], pyarrow.binary())
        parquet.write_table(pyarrow.table({"id": column, "payload": payloads}), folder / f"{number:04d}.parquet")
    folder.with_suffix(".json").write_bytes(msgspec.json.encode(CAMPAIGN))


def _tallied(reports: Path, engine: str) -> tuple[float, float]:
    """Processor seconds of the command and of all processes below it, and seconds on the clock."""
    command = [sys.executable, "-m", "keyveil", "tally", str(reports), "--engine", engine]
    command += ["--campaign", str(reports.with_suffix(".json")), "--out", f"{reports}.{engine}.tally"]
    begin, used = time.perf_counter(), 0.0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        while running.poll() is None:
            used = max(used, sum(_seconds(running.pid)))
            time.sleep(_LOOK)
    if running.returncode:
        raise OSError(f"keyveil tally --engine {engine} ended with {running.returncode}.")
    return used, time.perf_counter() - begin


def _seconds(pid: int) -> Iterator[float]:
    """The seconds of a process and of those below it, ended ones included (Linux)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        below = {int(child) for task in tasks for child in (task / "children").read_text().split()}
    except OSError:  # it has just ended
        return
    yield sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    for child in below:
        yield from _seconds(child)


def line(runs: list[dict[str, Any]]) -> tuple[float, float, float]:
    """Seconds before the first report, seconds for each report, and R² of the line."""
    n, seconds = (np.array([run[name] for run in runs], dtype=float) for name in ("n", "cpu"))
    slope, fixed = np.polyfit(n, seconds, 1)
    rest, spread = ((seconds - fixed - slope * n) ** 2).sum(), ((seconds - seconds.mean()) ** 2).sum()
    return float(fixed), float(slope), float(1 - rest / spread)


def page(found: dict[str, Any]) -> str:
    """The tables: what was measured, and what follows for sizes that were not."""
    runs = {name: [run for run in found["runs"] if run["engine"] == name] for name in ENGINES}
    runs = {name: some for name, some in runs.items() if some}
    told = [f"Measured on {found['day']}: {found['machine']}.", "", "| engine | reports | CPU s | clock s |"]
    told += ["|---|---:|---:|---:|"]
    told += [
        f"| {run['engine']} | {run['n']:,} | {run['cpu']:.1f} | {run['wall']:.1f} |"
        for some in runs.values()
        for run in some
    ]
    told += [f"\n{name} was not measured." for name in ENGINES if name not in runs]
    told += ["", "| engine | fixed, CPU s | a million reports, CPU s | R² |", "|---|---:|---:|---:|"]
    lines = {name: line(some) for name, some in runs.items()}
    told += [f"| {name} | {fix:.1f} | {1e6 * each:.2f} | {fit:.3f} |" for name, (fix, each, fit) in lines.items()]
    columns = f"| engine | reports | files | CPU hours | hours on {CLUSTER} cores |"
    told += ["", "From these lines, not measured:", "", columns, "|---|---:|---:|---:|---:|"]
    for name, (fix, each, _) in lines.items():
        for n in FAR:
            hours, size = (fix + each * n) / 3600, found["bytes_per_report"] * n / 1e9
            told.append(f"| {name} | {n:.0e} | {size:,.0f} GB | {hours:.1f} | {hours / CLUSTER:.2f} |")
    return "\n".join(told)


def main() -> None:
    """What the command does."""
    parser = argparse.ArgumentParser(prog="keyveil.bench.extrapolation")
    parser.add_argument("kept", type=Path)
    parser.add_argument("page", type=Path)
    parser.add_argument("--measure", action="store_true", help="count again, some minutes")
    parser.add_argument("--engines", default=",".join(ENGINES), help="which to measure")
    options = parser.parse_args()
    if options.measure:
        found = measured(engines=tuple(options.engines.split(",")))
        options.kept.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    head = options.page.read_text(encoding="utf-8").split(MARK)[0].rstrip()
    told = page(msgspec.json.decode(options.kept.read_bytes()))
    options.page.write_text(f"{head}\n\n{MARK}\n\n{told}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
