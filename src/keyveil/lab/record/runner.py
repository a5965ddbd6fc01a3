"""Run what is missing of a record, with any number of processes, and keep every cell as soon as it is finished."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from keyveil.lab.record.cells import Cell, measure
from keyveil.lab.store import Finished, Store
from keyveil.lab.workers import outcomes

FILE = "compare/file"  # the code of what goes wrong with a record's files

Heard = Callable[[str], None]
"""Hears the title of every cell that is finished."""


def missing(cells: Sequence[Cell], finished: Finished) -> list[Cell]:
    """The cells that are not finished, each once."""
    return [cell for key, cell in {cell.key: cell for cell in cells}.items() if key not in finished]


def run(
    cells: Sequence[Cell],
    store: Store,
    *,
    processes: int = 1,
    prepare: Callable[[], None] | None = None,
    heard: Heard | None = None,
) -> Finished:
    """All cells, by key. ``prepare`` is called in every further process before its first cell."""
    finished = store.read(cell.key for cell in cells)
    titles = {cell.key: cell.title for cell in cells}
    for outcome in outcomes(measure, [(cell,) for cell in missing(cells, finished)], processes, prepare):
        store.add(outcome)
        finished[outcome["key"]] = outcome
        if heard:
            heard(titles[outcome["key"]])
    return finished
