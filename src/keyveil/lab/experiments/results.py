"""Results: curves with standard errors, made from finished cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.lab.experiments.cells import name_of
from keyveil.lab.experiments.measures import MEASURES, WHOLE, Summary
from keyveil.lab.experiments.plan import Place, Plan
from keyveil.lab.metrics import jain

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Curve:
    """Values along the axis with standard errors; NaN where there is no result.

    ``runs`` are the numbers run by run, [run, point], or what each run adds to them where the value is no mean; curves
    with the same ``pairing`` come from the same runs, so that their differences are known better than each of them.
    ``joint`` says that points belong together run by run: they are of one collection, or of the same people.
    """

    x: Floats
    value: Floats
    se: Floats
    runs: Floats | None = None
    pairing: tuple[Any, ...] = ()
    exact: tuple[str | None, ...] = ()
    requested: tuple[str | None, ...] = ()
    count: int = 0
    joint: bool = False


@dataclass(frozen=True, eq=False)
class View:
    """All curves of one form: what the rules of claims read."""

    curves: Mapping[tuple[str, str, str], Curve]
    people: tuple[str, ...]

    def curve(self, people: str, series: str, measure: str) -> Curve | None:
        return self.curves.get((people, series, measure))


@dataclass(frozen=True, eq=False)
class Results:
    """All curves of an experiment, and what mechanisms refused."""

    plan: Plan
    curves: Mapping[Place, Curve]
    refused: Mapping[str, str] = field(default_factory=dict)  # sentence by the title of the cell
    seconds: float = 0.0
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # people and keys, by the title of the people

    def view(self, form: str) -> View:
        chosen = {place[1:]: curve for place, curve in self.curves.items() if place[0] == form}
        return View(chosen, tuple(dict.fromkeys(place[0] for place in chosen)))


def collected(plan: Plan, finished: Mapping[str, Mapping[str, Any]]) -> Results:
    """The results of a plan all of whose cells are finished."""
    refused = {cell.title: str(finished[cell.key]["refused"]) for cell in plan.cells if "refused" in finished[cell.key]}
    sizes: dict[str, tuple[int, int]] = {}
    for cell in plan.cells:
        done = finished[cell.key]
        if done.get("n"):
            old = sizes.get(cell.people.title, (0, 0))
            sizes[cell.people.title] = max(old[0], done["n"]), max(old[1], done["keys"])
    curves = {place: _curve(plan, place, points, finished) for place, points in plan.curves.items()}
    seconds = sum(float(finished[cell.key]["seconds"]) for cell in plan.cells)
    return Results(plan, curves, refused, seconds, sizes)


def _curve(plan: Plan, place: Place, points: Sequence[Any], finished: Mapping[str, Mapping[str, Any]]) -> Curve:
    measure = place[3]
    values, errors, runs = [], [], []
    for cells, decoder in points:
        rows = [row for cell in cells for row in finished[cell.key]["values"].get(name_of(decoder, measure), [])]
        table = np.array(rows, dtype=np.float64) if rows else np.full((1, _width(plan, measure)), np.nan)
        value, se, shares = summed(table, MEASURES[measure].summary)
        values.append(np.atleast_1d(value))
        errors.append(np.atleast_1d(se))
        runs.append(shares)
    same = len({len(table) for table in runs}) == 1
    experiment = plan.experiment
    joint = experiment.axis.knob == "points" or any(one.fresh for one in experiment.people if one.title == place[1])
    firsts = [finished[cells[0].key] for cells, _ in points]
    x = np.array(plan.points if len(values) == 1 and measure not in WHOLE else plan.points[: len(values)], dtype=float)
    return Curve(
        x[: sum(map(len, values))],
        np.concatenate(values),
        np.concatenate(errors),
        np.concatenate(runs, axis=1) if same else None,
        tuple(cells[0].key for cells, _ in points),
        tuple(done.get("exact") for done in firsts),
        tuple(done.get("requested") for done in firsts),
        len(runs[0]),
        joint,
    )


def _width(plan: Plan, measure: str) -> int:
    return len(plan.points) if plan.experiment.axis.knob == "points" and measure not in WHOLE else 1


_WHOLE_NUMBERS: dict[str, Callable[[Floats], float]] = {
    "jain": jain,
    "worst": lambda errors: float(errors.max()),
    "best": lambda errors: float(errors.min()),
}


def summed(table: Floats, summary: Summary) -> tuple[Floats, Floats, Floats]:
    """Runs, [run, number], as values with standard errors; a single run has none.

    The third are numbers run by run of which the values are about the means, and the errors those of the means: what
    each run adds to a value, so that values can be compared run by run, whatever they are.
    """
    count = len(table)
    unknown = np.full(table.shape[1], np.nan)
    mean = table.mean(axis=0)
    se = table.std(axis=0, ddof=1) / np.sqrt(count) if count > 1 else unknown
    if summary == "mean":
        return mean, se, table
    if summary == "inverse":
        return 1 / mean, se / mean**2, 2 / mean - table / mean**2
    if summary == "variance":
        variance = table.var(axis=0, ddof=1) if count > 1 else unknown
        normal = variance * np.sqrt(2 / max(count - 1, 1))  # the standard error, of normal numbers
        return variance, normal, (table - mean) ** 2 * count / max(count - 1, 1)
    number = _WHOLE_NUMBERS[summary]
    whole = np.array([number(mean)])
    if count < 3 or not np.isfinite(table).all():
        return whole, np.array([np.nan]), np.full((count, 1), np.nan)
    left_out = np.array([number((mean * count - row) / (count - 1)) for row in table])
    error = np.array([float(np.sqrt((count - 1) * left_out.var()))])  # jackknife over runs
    return whole, error, (whole - (count - 1) * (left_out - left_out.mean()))[:, None]
