"""``keyveil compare``: many mechanisms side by side, as a table, a picture, a page or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from keyveil.cli.data import High, Key, Low, Plot, User, Value, describe, load, progress_bar, save, say, screen
from keyveil.cli.options import Json, MaxPairs
from keyveil.cli.terminal import Terminal, harmless
from keyveil.core.epsilon import decimal_text, parse_epsilon
from keyveil.core.errors import EpsilonError, KeyveilError
from keyveil.lab.compare import QUANTITIES, Comparison
from keyveil.lab.compare import compare as run_comparison
from keyveil.lab.contenders import Contender, several, usual
from keyveil.lab.page import SUITE, page

_DATA = "Files or synthetic:NAME[:PEOPLE]; synthetic:suite stands for the sets of the documentation."


def compare(
    data: Annotated[list[str], typer.Argument(metavar="DATA", help=_DATA)],
    epsilon: Annotated[str, typer.Option("--epsilon", help="One or several, with commas: 0.5,1,2.")],
    mechanisms: Annotated[
        str | None,
        typer.Option("--mechanisms", help="Names with commas, also privkv:split=paper; otherwise all that take sets."),
    ] = None,
    max_pairs: MaxPairs = None,
    repeats: Annotated[int, typer.Option(min=1, help="Runs over the same people; errors are averaged.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Of the coins, and of synthetic people.")] = 0,
    reports: Annotated[
        bool, typer.Option("--reports", help="Draw every report, even where a tally has a law.")
    ] = False,
    low: Low = None,
    high: High = None,
    plot: Plot = None,
    write: Annotated[
        Path | None, typer.Option("--page", metavar="FILE", help="Write everything as a Markdown page.")
    ] = None,
    user: User = "user",
    key: Key = "key",
    value: Value = "value",
    json: Json = False,
) -> int:
    """Compare mechanisms on the same people at the same exact epsilon."""
    asked, chosen = _several(epsilon), several(mechanisms or "") or list(usual())
    if not asked:
        raise EpsilonError("epsilon/invalid", "--epsilon takes one or several numbers, as in 0.5,1,2.")
    for text in chosen:
        Contender.parse(text)  # mistakes are refused before any data are read
    for one in asked:
        parse_epsilon(one)
    sources = [source for one in data for source in (SUITE if one == "synthetic:suite" else (one,))]
    comparisons = []
    with progress_bar(len(sources) * len(asked) * len(chosen) * repeats) as (progress, task):
        for source in sources:
            dataset = load(source, user, key, value, low, high, seed)
            comparisons.append(
                run_comparison(
                    dataset,
                    asked,
                    chosen,
                    repeats=repeats,
                    seed=seed,
                    max_pairs=max_pairs,
                    shortcut=not reports,
                    progress=lambda label, runs: progress.update(task, advance=runs, description=harmless(label)),
                )
            )
    for comparison in comparisons:
        say(describe(comparison.dataset))
    if plot is not None:
        from keyveil.lab.charts import errors

        save(errors(comparisons), plot)
    if write is not None:
        _write(write, page(comparisons))
    if json:
        documents = [one.document() for one in comparisons]
        print(msgspec.json.encode(documents[0] if len(documents) == 1 else {"comparisons": documents}).decode())
    elif write is None:
        console = screen()
        for comparison in comparisons:
            _show(console, comparison)
    return 0


def _several(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as reason:
        raise KeyveilError("output/file", f"The page {path.name} cannot be written: {reason}.") from reason
    say(f"Written: {path}")


def _show(console: Terminal, comparison: Comparison) -> None:
    console.print(_table(comparison))
    for name, reason in comparison.refused.items():
        console.print(f"{name}: {reason}")


def _table(comparison: Comparison) -> Table:
    people, keys = comparison.dataset.population.n, comparison.dataset.schema.d
    runs = "1 run" if comparison.repeats == 1 else f"{comparison.repeats} runs"
    title = f"{comparison.dataset.name}: mean squared errors over keys ({people:,} people, {keys:,} keys, {runs})"
    caption = "* the best of its column" + ("" if comparison.repeats == 1 else ", ≈ within two standard errors of it")
    table = Table(title=title, title_justify="left", pad_edge=False, caption=caption, caption_justify="left")
    table.add_column("mechanism", no_wrap=True)
    columns = [(quantity, epsilon) for quantity in QUANTITIES for epsilon in comparison.epsilons]
    for quantity, epsilon in columns:
        letter = quantity[0]
        table.add_column(f"{letter}, ε={decimal_text(epsilon)}", justify="right", no_wrap=True)
    for name in comparison.mechanisms:
        cells = []
        for quantity, epsilon in columns:
            error, best = comparison.error(name, epsilon, quantity), comparison.best(epsilon, quantity) == name
            mark = "*" if best else "≈" if name in comparison.ties(epsilon, quantity) else " "
            cells.append(Text("–" if error is None else f"{error:.2e}{mark}", style="bold" if best else ""))
        table.add_row(name, *cells)
    table.add_section()
    table.add_row("everyone's average", *(f"{comparison.average[quantity]:.2e} " for quantity, _ in columns))
    table.add_row("truth, not private", *("0 " for _ in columns))
    return table
