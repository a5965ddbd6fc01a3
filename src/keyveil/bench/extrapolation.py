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
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from keyveil.bench.machine import machine
from keyveil.campaign.documents import Campaign
from keyveil.campaign.report_schema import parquet_writer, report_schema
from keyveil.campaign.rounds import RoundDocument
from keyveil.core.codecs.padding import pad_many
from keyveil.core.coins import Coins
from keyveil.core.report import PUBLIC_BYTES
from keyveil.lab.datasets import independent

KEYS, PAIRS = 100, 5
TIMES = {"local": 3, "spark": 1}  # of so many runs the one with the fewest processor seconds
MILLION = 1_000_000
SIZES = {"local": (2 * MILLION, 5 * MILLION, 10 * MILLION, 20 * MILLION), "spark": (MILLION // 2, MILLION, 2 * MILLION)}
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
_A_FILE, _PEOPLE, _LOOK = 250_000, 250_000, 0.1


def measured(engines: Sequence[str]) -> dict[str, Any]:
    """Processor seconds of ``keyveil tally`` for every engine and size, and what the files take."""
    found: dict[str, Any] = {"day": datetime.now(UTC).date().isoformat(), "machine": machine(), "runs": []}
    for engine in engines:
        for n in SIZES[engine]:
            with tempfile.TemporaryDirectory() as folder:
                reports = Path(folder) / "reports"
                write_reports(reports, n)
                found["bytes_per_report"] = sum(one.stat().st_size for one in reports.iterdir()) / n
                seconds, wall = min(_tallied(reports, engine) for _ in range(TIMES[engine]))
            found["runs"].append({"engine": engine, "n": n, "cpu": round(seconds, 2), "wall": round(wall, 2)})
    return found


def round_document() -> RoundDocument:
    """The round that the reports belong to."""
    campaign = Campaign.from_document(CAMPAIGN)
    first = campaign.protocol.next_round([])
    assert first is not None
    return RoundDocument.of(campaign, first)


def write_reports(folder: Path, n: int, a_file: int = _A_FILE) -> None:
    """Files as a collector exports them, each sorted by fresh ids; the reports of 250,000 people again and again."""
    import pyarrow

    document, coins = round_document(), Coins()
    mechanism, schema, width = document.mechanism, report_schema(document), document.report_bytes
    people = independent(min(n, _PEOPLE), np.full(KEYS, PAIRS / KEYS), np.zeros(KEYS), 1).records(mechanism.schema)
    coded = mechanism.encode_many(mechanism.perturb_many(people, coins))
    padded = pad_many(coded, width, mechanism.codec.varies)
    folder.mkdir()
    for number, start in enumerate(range(0, n, a_file)):
        size = min(a_file, n - start)
        ids = np.sort(np.frombuffer(coins.bytes(PUBLIC_BYTES * size), f"S{PUBLIC_BYTES}"))
        payloads = padded[np.arange(start, start + size) % len(padded)]
        columns = [
            pyarrow.FixedSizeBinaryArray.from_buffers(kind, size, [None, pyarrow.py_buffer(one)]).cast(wanted)
            for one, kind, wanted in zip(
                (ids, payloads), map(pyarrow.binary, (PUBLIC_BYTES, width)), schema.types, strict=True
            )
        ]
        with parquet_writer(folder / f"{number:04d}.parquet", schema) as writer:
            writer.write_batch(pyarrow.record_batch(columns, schema))
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
    runs = {name: [run for run in found["runs"] if run["engine"] == name] for name in SIZES}
    runs = {name: some for name, some in runs.items() if some}
    told = [f"Measured on {found['day']}: {found['machine']}.", "", "| engine | reports | CPU s | clock s |"]
    told += ["|---|---:|---:|---:|"]
    told += [
        f"| {run['engine']} | {run['n']:,} | {run['cpu']:.1f} | {run['wall']:.1f} |"
        for some in runs.values()
        for run in some
    ]
    told += [f"\n{name} was not measured." for name in SIZES if name not in runs]
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
    parser.add_argument("--engines", default=",".join(SIZES), help="which to measure")
    options = parser.parse_args()
    if options.measure:
        found = measured(options.engines.split(","))
        options.kept.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    head = options.page.read_text(encoding="utf-8").split(MARK)[0].rstrip()
    told = page(msgspec.json.decode(options.kept.read_bytes()))
    options.page.write_text(f"{head}\n\n{MARK}\n\n{told}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
