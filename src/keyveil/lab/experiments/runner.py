"""The one runner of all experiments: cells are run in any order by any number of processes, and kept when finished.

The numbers of a cell depend on nothing but the cell, so neither the number of processes nor an interruption changes
them (tests/lab/experiments/test_runner.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from keyveil.core.errors import KeyveilError
from keyveil.lab.experiments.cells import Cell, measure
from keyveil.lab.experiments.people import expected, read
from keyveil.lab.experiments.plan import Plan, planned
from keyveil.lab.experiments.results import Results, collected
from keyveil.lab.experiments.shape import Experiment
from keyveil.lab.store import Finished, Store
from keyveil.lab.workers import outcomes

Heard = Callable[[str], None]
"""Hears the title of every cell that is finished."""
Done = Callable[[Results], None]
"""Hears the results of an experiment as soon as all of its cells are finished."""


def plans(experiments: Sequence[Experiment], size: str, seed: int, data: Path | None = None) -> list[Plan]:
    """What must be run for some experiments."""
    if data is not None and not data.is_dir():
        raise KeyveilError("reproduce/data", f"There is no folder {data} with data.")
    found = [planned(one, size, seed, data) for one in experiments]
    used = [path for plan in found for path in plan.files.values() if path]
    wanted = expected(experiments)
    if data is not None and wanted and not any(path.is_relative_to(data) for path in used):
        raise KeyveilError(
            "reproduce/data",
            f"The folder {data} has none of the files that these figures read: {', '.join(wanted)}. Without --data "
            "other people stand in.",
        )
    return found


def _readable(wanted: Sequence[Plan], finished: Finished) -> None:
    """Refuse a file that cannot be read before the hours that its figure and others may take."""
    seen: set[tuple[str, Path]] = set()
    for plan in wanted:
        if all(cell.key in finished for cell in plan.cells):
            continue
        for people in plan.experiment.people:
            file = plan.files[people.title]
            if file is not None and (people.file, file) not in seen:
                seen.add((people.file, file))
                read(people, file)


def missing(wanted: Sequence[Plan], store: Store) -> int:
    """How many cells are not finished yet."""
    finished = store.read(cell.key for plan in wanted for cell in plan.cells)
    return len({cell.key for plan in wanted for cell in plan.cells} - finished.keys())


def run(
    wanted: Sequence[Plan],
    store: Store,
    *,
    processes: int = 1,
    heard: Heard | None = None,
    done: Done | None = None,
) -> list[Results]:
    """Run what is not finished, and give the results of every plan in order."""
    finished = store.read(cell.key for plan in wanted for cell in plan.cells)
    _readable(wanted, finished)
    found: list[Results] = []
    for plan, cells in _in_turn(wanted, finished):
        for outcome in _measured(plan, cells, processes):
            store.add(outcome)
            finished[outcome["key"]] = outcome
            if heard:
                heard(plan.experiment.id)
        results = collected(plan, finished)
        found.append(results)
        if done:
            done(results)
    return found


def _in_turn(wanted: Sequence[Plan], finished: Finished) -> Iterator[tuple[Plan, list[Cell]]]:
    """Plan by plan the cells that are still missing when its turn comes."""
    for plan in wanted:
        yield plan, [cell for cell in {cell.key: cell for cell in plan.cells}.values() if cell.key not in finished]


def _measured(plan: Plan, cells: Sequence[Cell], processes: int) -> Iterator[dict[str, Any]]:
    """Finished cells, in whatever order they come."""
    jobs = [(cell, plan.files[_title(plan, cell)]) for cell in cells]
    return outcomes(measure, jobs, processes)


def _title(plan: Plan, cell: Cell) -> str:
    return next(people.title for people in plan.experiment.people if people.title == cell.people.title)
