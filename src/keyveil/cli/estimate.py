"""``keyveil estimate``: from a tally on disk to estimates, and to what can be learned from them."""

from __future__ import annotations

import json as parser
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from keyveil.cli.campaign_files import beside, read_json, write_json
from keyveil.cli.connection import written
from keyveil.cli.data import Plot, many, save, say, screen
from keyveil.cli.options import Json
from keyveil.core.errors import KeyveilError, MechanismError, TallyError
from keyveil.core.estimates import Column, Estimates
from keyveil.core.tally import Tally
from keyveil.learn.questions import answer
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import create_round, from_document


def estimate(
    tally: Annotated[Path, typer.Argument(metavar="TALLY", help="A tally, as simulate --tally writes it.")],
    about: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The mechanism's document; TALLY.json unless given.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    population: Annotated[bool, typer.Option("--population", help="For the population behind these people.")] = False,
    postprocess: Annotated[str | None, typer.Option(help="A method such as norm-sub, base-cut or bayes.")] = None,
    total: Annotated[float | None, typer.Option(help="The mean number of pairs a person, if it is known.")] = None,
    given: Annotated[
        list[str] | None, typer.Option(metavar="KEY|CONDITION", help="A question: 'pepsi|burger,!fries'.")
    ] = None,
    quantiles: Annotated[str | None, typer.Option(metavar="Q,…", help="Of the values: 0.25,0.5,0.75.")] = None,
    subset: Annotated[
        list[str] | None, typer.Option(metavar="KEY,…", help="The sum of the shares of some keys.")
    ] = None,
    compare: Annotated[list[str] | None, typer.Option(metavar="KEY,KEY", help="Do two keys differ?")] = None,
    rank: Annotated[int | None, typer.Option(min=1, help="The most frequent keys and how sure their order is.")] = None,
    min_reports: Annotated[
        int | None, typer.Option(min=0, help="Say nothing about fewer reports; what the campaign said unless given.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many keys the table shows.")] = 20,
    plot: Plot = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page (.html).")] = None,
    json: Json = False,
) -> int:
    """Estimate frequencies and means from a tally, make them consistent, and answer questions."""
    mechanism, counts, promised = _read(tally, about)
    min_reports = promised if min_reports is None else min_reports
    if counts.reports < min_reports:
        few = f"{many(counts.reports, 'report')}, fewer than {min_reports:,}"
        raise MechanismError("estimate/min-reports", f"{tally} counts {few}: too few to say anything.")
    estimates = mechanism.estimate(counts, confidence, population)
    if postprocess is not None:
        from keyveil.learn.postprocess import estimates as processed

        estimates = processed(postprocess, estimates, total, mechanism=mechanism)
    questions: dict[str, list[dict[str, Any]]] = {
        "given": [_conditional(text) for text in given or []],
        "quantiles": [{"kind": "quantiles", "quantiles": _several(quantiles)}] if quantiles else [],
        "sums": [{"kind": "subset", "keys": _several(keys)} for keys in subset or []],
        "comparisons": [{"kind": "compare", "keys": _several(keys)} for keys in compare or []],
        "ranking": [{"kind": "top", "count": rank}] if rank else [],
    }
    settings = mechanism, counts, estimates, min_reports, confidence, population
    answers = {name: [row for one in asked for row in answer(one, *settings)] for name, asked in questions.items()}
    silent = refuse_silent(estimates, plot, report)
    if plot is not None:
        save(estimates.plot(top=top), plot)
    if report is not None:
        write_page(estimates, report)
    if json:
        document = parser.loads(estimates.to_json())
        print(msgspec.json.encode({**document, **answers}).decode())
        return 0
    console = screen()
    console.print(silent or table(estimates, top))
    for rows in answers.values():
        for row in rows:
            console.print(sentence(row))
    return 0


def _read(path: Path, about: Path | None) -> tuple[Mechanism, Tally, int]:
    """The mechanism, its counts, and the least number of reports that the campaign promised to speak about."""
    try:
        counts = Tally.from_bytes(path.read_bytes())
    except OSError as reason:
        raise KeyveilError("input/file", f"{path} cannot be read: {reason.strerror}.") from reason
    description = read_json(about or beside(path))
    promised = description.pop("min_reports", 0) if isinstance(description, dict) else 0
    if not isinstance(promised, int):
        raise KeyveilError("input/json", f"min_reports in {about or beside(path)} is a whole number.")
    mechanism = from_document(description, create_round)
    if mechanism.fingerprint != counts.fingerprint:
        raise TallyError("tally/foreign", f"{path} does not count what {about or beside(path)} describes.")
    return mechanism, counts, promised


def write_tally(path: Path, mechanism: Mechanism, tally: Tally, min_reports: int = 0) -> None:
    """A tally and, beside it, the document of its mechanism, and what its campaign promised about few reports."""
    with written(path) as part:
        part.write(tally.to_bytes())
    write_json(beside(path), {**mechanism.document(), **({"min_reports": min_reports} if min_reports else {})})
    say(f"Written: {path}")


def _conditional(text: str) -> dict[str, Any]:
    """``pepsi|burger,!fries`` as a question."""
    key, _, condition = text.partition("|")
    given = {part.removeprefix("!").strip(): not part.startswith("!") for part in _several(condition)}
    return {"kind": "conditional", "key": key.strip(), "given": given}


def _several(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def sentence(row: dict[str, Any]) -> str:
    """An answer in words."""

    def shown(numbers: dict[str, Any] | None) -> str:
        if numbers is None or numbers["value"] is None:
            return "unknown"
        low, high = ("…" if numbers[end] is None else f"{numbers[end]:.4g}" for end in ("low", "high"))
        return f"{numbers['value']:.4g} [{low}, {high}] ({numbers['flag']})"

    if "rank" in row:
        return f"{row['rank']}. {row['key']}: rank {row['best']} to {row['worst']}, share {shown(row)}"
    if "sum" in row:
        return f"{' + '.join(row['keys'])}: {shown(row['sum'])}"
    if "difference" in row:
        chance = "unknown" if row["p_value"] is None else f"{row['p_value']:.3g}"
        return f"{' - '.join(row['keys'])}: {shown(row['difference'])}, p = {chance}"
    if "quantile" in row:
        return f"{row['key']}, quantile {row['quantile']:g}: {shown(row['value'])}"
    condition = ", ".join(name if held else f"not {name}" for name, held in row["given"].items()) or "anything"
    return f"{row['key']} given {condition}: share {shown(row['frequency'])}, mean {shown(row['mean'])}"


def table(estimates: Estimates, top: int) -> Table:
    """The most frequent keys, for the terminal."""
    title = f"{estimates.mechanism}, {many(estimates.n, 'report')}, {estimates.confidence:.0%} intervals"
    rows = Table(title=title, title_justify="left", pad_edge=False)
    for column in ("key", "share", "mean", "flag"):
        rows.add_column(column, justify="right" if column in ("share", "mean") else "left", no_wrap=True)
    keys, shares = estimates.schema.keys, estimates.frequency.values
    order = range(len(keys)) if estimates.frequency.absent else sorted(range(len(keys)), key=lambda at: -shares[at])
    for at in list(order)[:top]:
        share, mean = _cell(estimates.frequency, keys[at]), _cell(estimates.mean, keys[at])
        rows.add_row(keys[at], share, mean, estimates.flag[at])
    return rows


def refuse_silent(estimates: Estimates, *files: Path | None) -> str | None:
    """The sentence for reports that tell nothing about single keys; no file is made of it."""
    if not (estimates.frequency.absent and estimates.mean.absent):
        return None
    sentence = f"The reports of {estimates.mechanism} tell neither shares nor means of keys."
    if any(file is not None for file in files):
        raise MechanismError("estimate/silent", f"{sentence[:-1]}: there is nothing to write or draw.")
    return sentence


def _cell(column: Column, key: str) -> str:
    return "–" if column.absent else str(column[key])


def write_page(estimates: Estimates, path: Path) -> None:
    """Table and picture on a page of their own."""
    from keyveil.display.estimates import page

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(estimates, f"{estimates.mechanism}: estimates"), encoding="utf-8")
    except OSError as reason:
        raise KeyveilError("output/file", f"The page {path.name} cannot be written: {reason}.") from reason
    say(f"Written: {path}")
