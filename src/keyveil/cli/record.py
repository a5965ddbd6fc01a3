"""``keyveil compare --record FOLDER``: the benchmark of record, cell by cell, and what is written of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from rich.table import Table

from keyveil.cli.data import many, progress_bar, say, screen
from keyveil.cli.words import command
from keyveil.core.errors import MechanismError
from keyveil.lab.compare import Caps
from keyveil.lab.contenders import Contender
from keyveil.lab.record.files import described, write
from keyveil.lab.record.people import Reading
from keyveil.lab.record.pictures import by_regret
from keyveil.lab.record.plan import Grid, cells
from keyveil.lab.record.runner import FILE, missing, run
from keyveil.lab.record.submitted import register_again, submitted
from keyveil.lab.record.table import Record, record_of, typical
from keyveil.lab.store import Store
from keyveil.lab.workers import cores
from keyveil.testing.admission import admit_all

_SHOWN = 20  # rows in a terminal; the files have all


def record(
    folder: Path,
    grid: Grid,
    *,
    seed: int,
    given: Mapping[str, Any],
    reading: Reading,
    caps: Caps,
    shortcut: bool,
    submit: Sequence[Path],
    processes: int,
    json: bool,
) -> int:
    """Run what is missing, write the record, and show it."""
    foreign: dict[str, str] = {}
    for path in submit:
        foreign |= submitted(path)
    for one in admit_all(foreign, _own(grid, foreign)):
        say(str(one))
    if foreign:
        grid = _joined(grid, foreign)
    wanted = cells(grid, seed=seed, given=given, reading=reading, caps=caps, shortcut=shortcut, submitted=foreign)
    store = Store(folder, FILE)
    left = len(missing(wanted, store.read(cell.key for cell in wanted)))
    if store.damaged:
        say(f"Damaged and passed over: {many(store.damaged, 'line')} of {store.path}; what they held is run again.")
    prepare = partial(register_again, tuple(path.resolve() for path in submit)) if submit else None
    try:
        with progress_bar(left) as (progress, task):
            finished = run(
                wanted,
                store,
                processes=processes or cores(),
                prepare=prepare,
                heard=lambda title: progress.update(task, advance=1, description=title),
            )
    except KeyboardInterrupt:
        kept = left - len(missing(wanted, store.read(cell.key for cell in wanted)))
        say(f"Stopped; {kept} of {left} cells were finished and are kept in {store.path}; the same command goes on.")
        return 130
    found = record_of(wanted, finished)
    files = write(found, folder, command())
    if json:
        print(msgspec.json.encode(described(found)).decode())
    else:
        _show(found)
        say(f"Written: {', '.join(path.name for path in files)} in {folder}")
    return 0


def _own(grid: Grid, foreign: Mapping[str, str]) -> dict[str, Any]:
    """Options that the command line gives to a submitted mechanism that takes part once, for the checks."""
    told = [Contender.parse(label) for label in grid.mechanisms if label.partition(":")[0] in foreign]
    return dict(told[0].options) if len(told) == 1 else {}


def _joined(grid: Grid, foreign: Mapping[str, str]) -> Grid:
    """The grid with the submitted mechanisms beside the others, unless they are named in it."""
    own = grid.everybody
    there = {label.partition(":")[0] for label in own}
    return replace(grid, mechanisms=(*own, *(name for name in foreign if name not in there)))


def _show(found: Record) -> None:
    console = screen()
    for measure in ("mse_frequency", "mse_mean"):
        rows = [row for row in found.rows if row[measure] is not None]
        if not rows:
            continue
        table = Table(title=f"{measure}: {len(found.settings)} settings", title_justify="left", pad_edge=False)
        for column in ("mechanism", "decoder", "settings", "won alone", "shared", "typical regret", "distance"):
            table.add_column(column, justify="left" if column in ("mechanism", "decoder") else "right", no_wrap=True)
        wins = found.wins(measure)
        for name in by_regret(rows, measure)[:_SHOWN]:
            some = [row for row in rows if (row["mechanism"], row["decoder"]) == name]
            alone, shared = wins.get(name, (0, 0))
            numbers = (typical(some, f"regret_{measure}"), typical(some, "distance"))
            shown = ("–" if one is None else f"{one:.2f}" for one in numbers)
            table.add_row(*name, str(len(some)), str(alone), str(shared), *shown)
        console.print(table)
    if found.refused:
        console.print(f"{len(found.refused)} cells or decoders do not apply; record.md says why.")


def grid_of(
    named: Grid | None,
    *,
    data: Sequence[str],
    epsilons: Sequence[str] | None,
    mechanisms: Sequence[str] | None,
    decoders: Sequence[str] | None,
    repeats: int | None,
    people: Sequence[int] | None,
) -> Grid:
    """The grid of a preset with what is given instead, or one that is given as a whole."""
    if named is None and not data:
        raise MechanismError("compare/size", "Say on which data, or which --preset.")
    grid = named or Grid("", (), (), ("1",), ())
    changes: dict[str, Any] = {
        "data": tuple(data) or None,
        "people": None if people is None else tuple(people),
        "epsilons": epsilons and tuple(epsilons),
        "mechanisms": mechanisms and tuple(mechanisms),
        "decoders": decoders and tuple(decoders),
        "repeats": repeats,
    }
    return replace(grid, **{name: value for name, value in changes.items() if value is not None})
