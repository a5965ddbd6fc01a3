"""``keyveil compare``: many mechanisms side by side, as a table, a picture, a page or JSON."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from keyveil.cli.data import (
    HierarchyOption,
    High,
    Key,
    LevelsOption,
    Low,
    Plot,
    User,
    Value,
    describe,
    listed,
    progress_bar,
    save,
    say,
    screen,
)
from keyveil.cli.options import Json, MaxPairs, Settings, settings
from keyveil.cli.record import grid_of, record
from keyveil.cli.terminal import Terminal, harmless
from keyveil.core.epsilon import decimal_text, parse_epsilon
from keyveil.core.errors import EpsilonError, KeyveilError, MechanismError
from keyveil.lab import datasets
from keyveil.lab.compare import QUANTITIES, Comparison, comparisons, known_caps
from keyveil.lab.contenders import contenders, several, usual, with_best_caps
from keyveil.lab.decoders import RAW, known
from keyveil.lab.decoders import title as decoder_title
from keyveil.lab.page import SUITE, page
from keyveil.lab.record.plan import PRESETS, preset

_WIDTH = 116  # of a line of the command on a page

_DATA = "Files or synthetic:NAME[:PEOPLE]; synthetic:suite stands for the sets of the documentation."


def compare(
    data: Annotated[list[str] | None, typer.Argument(metavar="DATA", help=_DATA)] = None,
    epsilon: Annotated[str | None, typer.Option("--epsilon", help="One or several, with commas: 0.5,1,2.")] = None,
    mechanisms: Annotated[
        str | None,
        typer.Option(
            "--mechanisms",
            help="Names with commas, also privkv:split=paper, and protocols such as privkvm,pilot:then=wsr; "
            "otherwise all mechanisms that take sets.",
        ),
    ] = None,
    max_pairs: MaxPairs = None,
    set: Settings = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Runs over the same people; errors are averaged. 1, or 40 for a record.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the coins, and of synthetic people.")] = 0,
    decoders: Annotated[
        str | None,
        typer.Option(
            "--decoders",
            help="What is done with everybody's estimates, with commas: raw (nothing), bayes (empirical Bayes), "
            "norm-sub and the other methods of consistency. raw,bayes,norm-sub tells what a decoder gains.",
        ),
    ] = None,
    caps: Annotated[
        str,
        typer.Option(
            "--caps",
            help="given: the cap of --max-pairs, or the 90 % quantile of set sizes. best: besides, the caps with the "
            "least predicted error of frequencies and of means; pages show the best form of each.",
        ),
    ] = "given",
    reports: Annotated[
        bool, typer.Option("--reports", help="Draw every report, even where a tally has a law.")
    ] = False,
    low: Low = None,
    high: High = None,
    levels: LevelsOption = None,
    hierarchy: HierarchyOption = False,
    plot: Plot = None,
    write: Annotated[
        Path | None, typer.Option("--page", metavar="FILE", help="Write everything as a Markdown page.")
    ] = None,
    user: User = "user",
    key: Key = "key",
    value: Value = "value",
    folder: Annotated[
        Path | None,
        typer.Option(
            "--record", metavar="FOLDER", help="Keep every finished cell there and write a record: regrets, the limit."
        ),
    ] = None,
    grid: Annotated[
        str | None, typer.Option("--preset", metavar="NAME", help=f"A whole record: {', '.join(PRESETS)}.")
    ] = None,
    people: Annotated[
        str | None,
        typer.Option("--people", metavar="N,…", help="Of a record's synthetic people: 1000,100000 or 1e3,1e8."),
    ] = None,
    submit: Annotated[
        list[Path] | None,
        typer.Option("--submit", metavar="FILE.py", help="Your mechanism into the record, once it passes the checks."),
    ] = None,
    processes: Annotated[
        int, typer.Option(min=0, help="How many work at once on a record; 0: one for every processor.")
    ] = 0,
    json: Json = False,
) -> int:
    """Compare mechanisms and protocols on the same people, at the same exact epsilon of what a person spends in all."""
    data, epsilons = data or [], _several(epsilon or "")
    if (epsilon is None and grid is None) or (epsilon is not None and not epsilons):
        raise EpsilonError("epsilon/invalid", "--epsilon takes one or several numbers, as in 0.5,1,2.")
    for one in epsilons:
        parse_epsilon(one)
    which = known_caps(caps)
    sources = [source for one in data for source in (SUITE if one == "synthetic:suite" else (one,))]
    if folder is not None:
        if plot is not None or write is not None:
            raise MechanismError(
                "compare/option", "A record writes its own page and pictures: no --plot and no --page."
            )
        told = {"user": user, "key": key, "value": value, "low": low, "high": high, "levels": levels}
        usual_names = {"user": "user", "key": "key", "value": "value"}
        reading = {name: one for name, one in told.items() if one is not None and one != usual_names.get(name)}
        return record(
            folder,
            grid_of(
                None if grid is None else preset(grid),
                data=sources,
                epsilons=epsilons or None,
                mechanisms=several(mechanisms or "") or None,
                decoders=None if decoders is None else _several(decoders),
                repeats=repeats,
                people=None if people is None else _numbers(people),
            ),
            seed=seed,
            given=settings(set, max_pairs),
            reading=tuple((reading | ({"hierarchy": "yes"} if hierarchy else {})).items()),
            caps=which,
            shortcut=not reports,
            submit=submit or [],
            processes=processes,
            json=json,
        )
    for option, told_so in (("--preset", grid), ("--people", people), ("--submit", submit)):
        if told_so:
            raise MechanismError("compare/option", f"{option} belongs to a record: say where with --record FOLDER.")
    if not sources:
        raise MechanismError("compare/size", "Say on which data.")
    chosen = contenders(several(mechanisms or "") or usual())  # mistakes are refused before any data are read
    repeats, decoders = repeats or 1, RAW if decoders is None else decoders
    how = known(_several(decoders))
    everybody = with_best_caps(chosen) if which == "best" else chosen
    with progress_bar(len(sources) * len(epsilons) * len(everybody) * repeats) as (progress, task):
        found = comparisons(
            (
                datasets.named(
                    source,
                    user=user,
                    key=key,
                    value=value,
                    low=low,
                    high=high,
                    levels=listed(levels),
                    hierarchy=hierarchy,
                    seed=seed,
                )
                for source in sources
            ),
            epsilons,
            chosen,
            settings(set, max_pairs),
            repeats=repeats,
            seed=seed,
            shortcut=not reports,
            decoders=how,
            caps=which,
            progress=lambda label, runs: progress.update(task, advance=runs, description=harmless(label)),
        )
    for comparison in found:
        say(describe(comparison.dataset))
    if plot is not None:
        save(found.plot(), plot)
    if write is not None:
        given: list[tuple[str, Any]] = [
            ("--epsilon", epsilon),
            ("--repeats", repeats),
            ("--seed", seed),
            ("--mechanisms", mechanisms),
            ("--decoders", None if how == (RAW,) else decoders),
            ("--caps", None if which == "given" else which),
            ("--max-pairs", max_pairs),
            *(("--set", item) for item in set or []),
            ("--low", low),
            ("--high", high),
            ("--levels", levels),
            ("--user", None if user == "user" else user),
            ("--key", None if key == "key" else key),
            ("--value", None if value == "value" else value),
            ("--plot", plot),
            ("--page", write),
        ]
        command = _command(data, given, ["--hierarchy"] * hierarchy + ["--reports"] * reports + ["--json"] * json)
        _write(write, page(found.every, command))
    if json:
        document = found[0].document() if len(found) == 1 else found.document()
        print(msgspec.json.encode(document).decode())
    elif write is None:
        console = screen()
        for comparison in found:
            _show(console, comparison)
    return 0


def _several(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _numbers(text: str) -> list[int]:
    """Numbers of people, also as 1e5."""
    found = []
    for item in _several(text):
        try:
            number = float(item)
        except ValueError:
            number = 0.0
        if not 1 <= number <= 1e12 or number != int(number):
            raise MechanismError("compare/size", f"--people takes whole numbers from 1 on, not {item[:40]!r}.")
        found.append(int(number))
    return found


def _command(data: list[str], given: list[tuple[str, Any]], switches: list[str]) -> str:
    """The command as one types it, over several lines where it is long; an option and its value stay together."""
    options = [[name, str(value)] for name, value in given if value is not None]
    lines = ["keyveil compare"]
    for words in map(shlex.join, [*([one] for one in data), *options, *([one] for one in switches)]):
        if len(lines[-1]) + len(words) > _WIDTH:
            lines.append("   ")
        lines[-1] += f" {words}"
    return " \\\n".join(lines)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as reason:
        raise KeyveilError("output/file", f"The page {path.name} cannot be written: {reason}.") from reason
    say(f"Written: {path}")


def _show(console: Terminal, comparison: Comparison) -> None:
    for decoder in comparison.decoders:
        console.print(_table(comparison, decoder))
    for name, reason in comparison.refused.items():
        console.print(f"{name}: {reason}")


def _table(comparison: Comparison, decoder: str) -> Table:
    people, keys = comparison.dataset.population.n, comparison.dataset.schema.d
    runs = "1 run" if comparison.repeats == 1 else f"{comparison.repeats} runs"
    how = "" if comparison.decoders == (RAW,) else f" {decoder_title(decoder)}"
    title = f"{comparison.dataset.name}: mean squared errors over keys{how} ({people:,} people, {keys:,} keys, {runs})"
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
            place = epsilon, quantity, None, decoder
            error, best = comparison.error(name, epsilon, quantity, decoder), comparison.best(*place) == name
            mark = "*" if best else "≈" if name in comparison.ties(*place) else " "
            cells.append(Text("–" if error is None else f"{error:.2e}{mark}", style="bold" if best else ""))
        table.add_row(name, *cells)
    table.add_section()
    table.add_row("everyone's average", *(f"{comparison.average[quantity]:.2e} " for quantity, _ in columns))
    table.add_row("truth, not private", *("0 " for _ in columns))
    return table
