"""``DATA`` on the command line (``lab.datasets.named`` reads it), and what commands say about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from keyveil.cli.terminal import Terminal
from keyveil.core.errors import KeyveilError
from keyveil.core.text import many as many
from keyveil.display.figures import write_picture
from keyveil.lab.datasets import Dataset

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH = 160

LONG = 1.0  # seconds of work after which a person at a terminal is told what goes on

Data = Annotated[
    str, typer.Argument(metavar="DATA", help="A .parquet or .csv file, synthetic:NAME[:PEOPLE], or movielens:FOLDER.")
]
User = Annotated[str, typer.Option("--user", help="The column of the users.")]
Key = Annotated[str, typer.Option("--key", help="The column of the keys.")]
Value = Annotated[str, typer.Option("--value", help="The column of the values.")]
Low = Annotated[str | None, typer.Option("--low", help="The least value (also x=0,y=1); below it values are clipped.")]
High = Annotated[
    str | None, typer.Option("--high", help="The largest value (also x=9,y=5); above it values are clipped.")
]


def _several_levels(given: str | None) -> str | None:
    if given is not None and not all(part.strip() for part in given.split(",")):
        raise typer.BadParameter(f"levels are written like 1,2,3,4,5, not {given!r}")
    return given


LevelsOption = Annotated[
    str | None,
    typer.Option("--levels", help="The only values there are, such as 1,2,3,4,5.", callback=_several_levels),
]


HierarchyOption = Annotated[
    bool, typer.Option("--hierarchy", help="Keys such as food/apple lie below others, here food.")
]


GroupsOption = Annotated[
    str | None, typer.Option("--groups", help="Groups such as de,fr: every key is one of each, as in de/fries.")
]


def listed(levels: str | None) -> list[str] | None:
    """Levels as the command line writes them, one by one."""
    return None if levels is None else [part.strip() for part in levels.split(",")]


def _drawable(path: Path | None) -> Path | None:
    """Refused before any work is done: the name says which format is wanted."""
    if path is not None and path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise typer.BadParameter(f"a picture's name ends in .png, .svg or .pdf, unlike {path}")
    return path


Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw a picture (.png, .svg, .pdf).", callback=_drawable),
]


def describe(dataset: Dataset) -> str:
    """What was taken from the data, in one line."""
    people, schema = dataset.population, dataset.schema
    sizes = people.sizes
    dropped = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in people.notes.items())
    if dataset.stream is not None:
        return (
            f"{dataset.name}: {many(dataset.n, 'person', 'people')}, {many(schema.d, 'key')}, {sizes.mean():.3g} pairs "
            f"a person; {_bounds(dataset)}{dataset.about}."
        )
    return (
        f"{dataset.name}: {many(people.n, 'person', 'people')}, {many(schema.d, 'key')}, {many(people.pairs, 'pair')} "
        f"({sizes.mean():.3g} a person, at most {sizes.max():,}); {_bounds(dataset)}{dataset.about}."
        + (f" Dropped: {dropped}." if dropped else "")
    )


def say(sentence: str) -> None:
    """Print one remark to standard error: wrapped at words in a terminal, one line where programs read it."""
    console = Terminal(stderr=True)
    console.print(sentence, soft_wrap=not console.is_terminal)


def screen() -> Terminal:
    """Standard output: as wide as the terminal, and wide enough for any table where there is none."""
    console = Terminal()
    return console if console.is_terminal else Terminal(width=_WIDTH)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say on standard error what takes long, and for how long already: from the first second on, on a terminal only.

    Use it where nothing else is shown meanwhile. It is gone when the work is done.
    """
    console = Terminal(stderr=True)
    if not console.is_terminal:
        yield
        return
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    shown = Progress(*columns, console=console, transient=True)
    shown.add_task(what, total=None)
    late = Timer(LONG, shown.start)
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()
        late.join()  # it may be starting just now
        shown.stop()


@contextmanager
def progress_bar(total: int) -> Iterator[tuple[Progress, TaskID]]:
    """A bar on standard error that disappears when the work is done."""
    columns = TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn()
    console = Terminal(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield progress, progress.add_task("Reporting", total=total)


def save(figure: Figure, path: Path) -> None:
    """Write a picture in the format that the name asks for."""
    try:
        write_picture(figure, path)
    except (OSError, ValueError) as reason:
        raise KeyveilError("output/file", f"The picture {path.name} cannot be written: {reason}.") from reason
    say(f"Written: {path}")


def _bounds(dataset: Dataset) -> str:
    low, high = dataset.schema.low, dataset.schema.high
    return (
        "" if isinstance(low, tuple) or isinstance(high, tuple) else f"values from {float(low):g} to {float(high):g}, "
    )
