"""What an experiment leaves on disk: numbers as CSV, verdicts as JSON, a picture as PNG and SVG."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import msgspec

from keyveil.core.errors import KeyveilError
from keyveil.display.figures import write_picture
from keyveil.lab.experiments.people import PACKAGED, said
from keyveil.lab.experiments.pictures import picture
from keyveil.lab.experiments.results import Results
from keyveil.lab.experiments.verdicts import verdicts

COLUMNS = (
    "experiment", "people", "n", "keys", "form", "series", "measure", "axis", "x", "value", "se", "runs",
    "requested_epsilon", "exact_epsilon",
)  # fmt: skip


def write(results: Results, folder: Path, seed: int) -> dict[str, Any]:
    """Write everything about an experiment into a folder; gives the document of its verdicts."""
    id = results.plan.experiment.id
    document = described(results, seed)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _replace(folder / f"{id}.csv", table(results).encode())
        _replace(folder / f"{id}.json", msgspec.json.format(msgspec.json.encode(document)) + b"\n")
        drawn = picture(results, verdicts(results))
        for kind in ("png", "svg"):
            write_picture(drawn, folder / f"{id}.{kind}")
    except OSError as reason:
        raise KeyveilError(
            "reproduce/file",
            f"The results of {id} cannot be written to {folder}: {reason.strerror or reason}; finished cells are kept.",
        ) from reason
    return document


def described(results: Results, seed: int) -> dict[str, Any]:
    """An experiment with its verdicts, as JSON: the same for a seed, but for ``seconds``."""
    plan, experiment = results.plan, results.plan.experiment
    sizes = {people.title: results.sizes.get(people.title, (0, 0)) for people in experiment.people}
    notes = [said(people, plan.files[people.title], *sizes[people.title]) for people in experiment.people]
    return {
        "id": experiment.id,
        "name": experiment.name,
        "paper": experiment.paper,
        "title": experiment.title,
        "size": plan.size.name,
        "seed": seed,
        "runs": plan.size.repeats,
        "files": sorted({path.name for path in plan.files.values() if path and not (PACKAGED / path.name).is_file()}),
        "people": {title: {"n": n, "keys": keys} for title, (n, keys) in results.sizes.items()},
        "notes": [note for note in (*notes, experiment.note) if note],
        "refused": dict(results.refused),
        "verdicts": [one.document() for one in verdicts(results)],
        "seconds": round(results.seconds, 2),
    }


def table(results: Results) -> str:
    """All numbers as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    experiment = results.plan.experiment
    for (form, people, series, measure), curve in results.curves.items():
        n, keys = results.sizes.get(people, (0, 0))
        for place, x in enumerate(curve.x):
            at = min(place, len(curve.exact) - 1)
            numbers = [_shown(number) for number in (float(x), float(curve.value[place]), float(curve.se[place]))]
            row = [experiment.id, people, n, keys, form, series, measure, experiment.axis.title, *numbers, curve.count]
            writer.writerow([*row, curve.requested[at] or "", curve.exact[at] or ""])
    return text.getvalue()


def _shown(number: float) -> str:
    return f"{number:.10g}" if math.isfinite(number) else ""


def _replace(path: Path, content: bytes) -> None:
    """Write a file whole: a reader sees the old one or the new one."""
    beside = path.with_name(f".part.{path.name}")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
