"""``keyveil estimate``: from a tally on disk to estimates, and to what can be learned from them."""

from __future__ import annotations

import json as parser
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from keyveil.cli.loading import Plot, save, say, screen
from keyveil.cli.options import Json
from keyveil.core.errors import KeyveilError, MechanismError
from keyveil.core.estimates import Column, Estimates, Interval
from keyveil.core.tally import Tally
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import from_document


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
    min_reports: Annotated[int, typer.Option(min=0, help="Say nothing about fewer reports than this.")] = 0,
    top: Annotated[int, typer.Option(min=1, help="How many keys the table shows.")] = 20,
    plot: Plot = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page (.html).")] = None,
    json: Json = False,
) -> int:
    """Estimate frequencies and means from a tally, make them consistent, and answer questions."""
    mechanism, counts = _read(tally, about)
    if counts.reports < min_reports:
        raise MechanismError("estimate/min-reports", f"There are {counts.reports} reports, fewer than {min_reports}.")
    estimates = mechanism.estimate(counts, confidence, population)
    if postprocess is not None:
        from keyveil.learn.postprocess import estimates as processed

        estimates = processed(postprocess, estimates, total, mechanism=mechanism)
    answers = [_answer(question, mechanism, counts, min_reports, confidence, population) for question in given or []]
    values = _quantiles(quantiles, mechanism, counts, confidence) if quantiles else []
    sums = [_sum(keys, mechanism, estimates) for keys in subset or []]
    tests = [_test(keys, mechanism, estimates) for keys in compare or []]
    ranks = _ranking(rank, estimates) if rank else []
    if plot is not None:
        save(estimates.plot(top=top), plot)
    if report is not None:
        _page(estimates, report)
    if json:
        document = parser.loads(estimates.to_json())
        document.update({"given": answers, "quantiles": values, "sums": sums, "comparisons": tests, "ranking": ranks})
        print(msgspec.json.encode(document).decode())
        return 0
    console = screen()
    console.print(_table(estimates, top))
    for row in (*answers, *values, *sums, *tests, *ranks):
        console.print(_sentence(row), markup=False, highlight=False)
    return 0


def _read(path: Path, about: Path | None) -> tuple[Mechanism, Tally]:
    document = about or path.with_name(path.name + ".json")
    try:
        counts, description = Tally.from_bytes(path.read_bytes()), parser.loads(document.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, parser.JSONDecodeError) as reason:
        raise KeyveilError("input/file", f"{path.name} and {document.name} cannot be read: {reason}.") from reason
    return from_document(description), counts


def write_tally(path: Path, mechanism: Mechanism, tally: Tally) -> None:
    """A tally and, beside it, the document of its mechanism."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tally.to_bytes())
        about = parser.dumps(mechanism.document(), indent=1, ensure_ascii=False)
        path.with_name(path.name + ".json").write_text(about + "\n", encoding="utf-8")
    except OSError as reason:
        raise KeyveilError("output/file", f"The tally {path.name} cannot be written: {reason}.") from reason
    say(f"Written: {path}")


def _answer(
    question: str, mechanism: Mechanism, tally: Tally, min_reports: int, confidence: float, population: bool
) -> dict[str, Any]:
    from keyveil.learn.conditionals import Conditionals

    key, _, condition = question.partition("|")
    parts = [part.strip() for part in condition.split(",") if part.strip()]
    given = {part.removeprefix("!").strip(): not part.startswith("!") for part in parts}
    asked = Conditionals(mechanism, tally, min_reports, confidence, population)
    answer: dict[str, Any] = {"key": key.strip(), "given": given}
    answer["frequency"] = _numbers(asked.frequency(key.strip(), given))
    try:
        answer["mean"] = _numbers(asked.mean(key.strip(), given))
    except MechanismError:
        answer["mean"] = None  # these reports carry no values
    return answer


def _quantiles(wanted: str, mechanism: Mechanism, tally: Tally, confidence: float) -> list[dict[str, Any]]:
    from keyveil.learn.distributions import distribution

    try:
        shares = [float(part) for part in wanted.split(",")]
    except ValueError:
        raise MechanismError("estimate/quantiles", f"Quantiles are numbers like 0.25,0.5, not {wanted!r}.") from None
    laws = distribution(mechanism, tally, confidence=confidence)
    return [
        {"key": key, "quantile": share, "value": _numbers(laws.quantile(share, key))}
        for key in mechanism.schema.keys
        for share in shares
    ]


def _sum(keys: str, mechanism: Mechanism, estimates: Estimates) -> dict[str, Any]:
    from keyveil.learn.queries import subset_sum

    named = [key.strip() for key in keys.split(",")]
    return {"keys": named, "sum": _numbers(subset_sum(estimates, named, mechanism=mechanism))}


def _test(keys: str, mechanism: Mechanism, estimates: Estimates) -> dict[str, Any]:
    from keyveil.learn.queries import compare_keys

    named = [key.strip() for key in keys.split(",")]
    if len(named) != 2:
        raise MechanismError("estimate/compare", f"--compare takes two keys, not {len(named)}.")
    found = compare_keys(estimates, named[0], named[1], mechanism=mechanism)
    return {"keys": named, "difference": _numbers(found.difference), "p_value": found.p_value}


def _ranking(count: int, estimates: Estimates) -> list[dict[str, Any]]:
    from keyveil.learn.ranking import top

    return [dict(row) for row in top(estimates, count).rows()]


def _numbers(one: Interval) -> dict[str, Any]:
    numbers = {"value": one.value, "low": one.low, "high": one.high, "se": one.se}
    return {**{name: None if number != number else number for name, number in numbers.items()}, "flag": one.flag}


def _sentence(row: dict[str, Any]) -> str:
    def shown(numbers: dict[str, Any] | None) -> str:
        if numbers is None or numbers["value"] is None:
            return "unknown"
        return f"{numbers['value']:.4g} [{numbers['low']:.4g}, {numbers['high']:.4g}] ({numbers['flag']})"

    if "rank" in row:
        return f"{row['rank']}. {row['key']}: rank {row['best']} to {row['worst']}, share {shown(row)}"
    if "sum" in row:
        return f"{' + '.join(row['keys'])}: {shown(row['sum'])}"
    if "difference" in row:
        return f"{' - '.join(row['keys'])}: {shown(row['difference'])}, p = {row['p_value']:.3g}"
    if "quantile" in row:
        return f"{row['key']}, quantile {row['quantile']:g}: {shown(row['value'])}"
    condition = ", ".join(name if held else f"not {name}" for name, held in row["given"].items()) or "anything"
    return f"{row['key']} given {condition}: share {shown(row['frequency'])}, mean {shown(row['mean'])}"


def _table(estimates: Estimates, top: int) -> Table:
    title = f"{estimates.mechanism}, {estimates.n:,} reports, {estimates.confidence:.0%} intervals"
    table = Table(title=title, title_justify="left", pad_edge=False)
    for column in ("key", "share", "mean", "flag"):
        table.add_column(column, justify="right" if column in ("share", "mean") else "left", no_wrap=True)
    keys, shares = estimates.schema.keys, estimates.frequency.values
    order = range(len(keys)) if estimates.frequency.absent else sorted(range(len(keys)), key=lambda at: -shares[at])
    for at in list(order)[:top]:
        table.add_row(
            keys[at], _cell(estimates.frequency, keys[at]), _cell(estimates.mean, keys[at]), estimates.flag[at]
        )
    return table


def _cell(column: Column, key: str) -> str:
    return "–" if column.absent else str(column[key])


def _page(estimates: Estimates, path: Path) -> None:
    from keyveil.core.display import page

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(estimates, f"{estimates.mechanism}: estimates"), encoding="utf-8")
    except OSError as reason:
        raise KeyveilError("output/file", f"The page {path.name} cannot be written: {reason}.") from reason
    say(f"Written: {path}")
