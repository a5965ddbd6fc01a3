"""``keyveil estimate``: from a tally on disk to estimates, and to what can be learned from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.table import Table

from keyveil.cli.attacked_estimates import read_sketch_file, recovered
from keyveil.cli.campaign_files import beside, read_json, write_json
from keyveil.cli.connection import written
from keyveil.cli.data import Plot, many, save, say, screen, working
from keyveil.cli.options import Attackers, Detect, Json, PerKey, Raw, Recover
from keyveil.cli.pages import ReportFile, privacy_of, write_page
from keyveil.cli.questions import (
    Compare,
    Given,
    Keys,
    Of,
    Quantiles,
    Rank,
    Subset,
    Within,
    grouped,
    questions,
    several,
    tables,
)
from keyveil.cli.terminal import Terminal
from keyveil.core.errors import KeyveilError, MechanismError, TallyError
from keyveil.core.estimates import Column, Estimates
from keyveil.core.tally import Tally
from keyveil.display.report import About
from keyveil.lab.attacks.processed_limits import processed_with_limits
from keyveil.learn.questions import answer
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import histogram_of
from keyveil.mechanisms.registry import create_round, from_document
from keyveil.robustness.detection import detect as detected
from keyveil.robustness.influence import with_influence

if TYPE_CHECKING:
    from keyveil.learn.choose import Choice


def estimate(
    tally: Annotated[Path, typer.Argument(metavar="TALLY", help="A tally, as simulate --tally writes it.")],
    about: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The mechanism's document; TALLY.json unless given.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    population: Annotated[bool, typer.Option("--population", help="For the population behind these people.")] = False,
    postprocess: Annotated[str | None, typer.Option(help="A method such as norm-sub, base-cut or bayes.")] = None,
    total: Annotated[float | None, typer.Option(help="The mean number of pairs a person, if it is known.")] = None,
    given: Given = None,
    quantiles: Quantiles = None,
    keys: Keys = None,
    within: Within = None,
    subset: Subset = None,
    compare: Compare = None,
    of: Of = None,
    rank: Rank = None,
    min_reports: Annotated[
        int | None, typer.Option(min=0, help="Say nothing about fewer reports; what the campaign said unless given.")
    ] = None,
    alpha: Annotated[float | None, typer.Option(help="Absent keys that base-cut lets pass; 2 unless given.")] = None,
    keep: Annotated[int | None, typer.Option(min=1, help="Keys that base-cut keeps, whatever their noise.")] = None,
    choose: Annotated[
        bool, typer.Option("--choose", help="Which method errs least, for the sets of --subset or else single keys?")
    ] = False,
    top: Annotated[int, typer.Option(min=1, help="How many keys the table shows.")] = 20,
    per_key: PerKey = False,
    raw: Raw = False,
    attackers: Attackers = None,
    detect: Detect = False,
    recover: Recover = None,
    sketch: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A sketch of the same reports, as keyveil tally writes it.")
    ] = None,
    plot: Plot = None,
    report: ReportFile = None,
    json: Json = False,
) -> int:
    """Estimate frequencies and means from a tally, make them consistent, and answer questions."""
    mechanism, counts, promised = _read(tally, about)
    min_reports = promised if min_reports is None else min_reports
    if counts.reports < min_reports:
        few = f"{many(counts.reports, 'report')}, fewer than {min_reports:,}"
        raise MechanismError("estimate/min-reports", f"{tally} counts {few}: too few to say anything.")
    if (alpha is not None or keep is not None) and postprocess != "base-cut":
        raise KeyveilError("postprocess/cut", "--alpha and --keep belong to --postprocess base-cut.")
    with working("Estimating"):
        estimates = mechanism.estimate(counts, confidence, population)
        estimates = estimates.per_key() if per_key else estimates
        sketched = read_sketch_file(sketch)
        seen = detected(mechanism, counts, sketched) if detect else None
        if attackers is not None:
            estimates = with_influence(estimates, mechanism, counts, attackers)
        choice = _choice(estimates, subset, total, mechanism) if choose else None
        estimates, after = recovered(recover, postprocess, mechanism, counts, estimates, sketched)
        if postprocess is not None:
            cut: dict[str, Any] = {
                name: value for name, value in (("alpha", alpha), ("keep", keep)) if value is not None
            }
            limits = estimates.attacked
            plain = replace(estimates, attacked=None)
            estimates = processed_with_limits(plain, postprocess, mechanism, counts, limits, total, **cut)
        settings = mechanism, counts, estimates, min_reports, confidence, population
        wanted = questions(given, quantiles, keys, subset, compare, of, rank, within)
        said = [(question, answer(question, *settings)) for question in wanted]
        if attackers:
            from keyveil.lab.attacks.answers import with_attackers

            for question, found in said:
                asked = question["kind"], found, mechanism, counts, estimates, attackers
                with_attackers(*asked, question.get("within", "any"))
        answers = grouped(said)
    refuse_silent(estimates, plot, report)
    if plot is not None:
        save(estimates.plot(top=top), plot)
    if report is not None:
        title = f"{tally.stem}: what {many(counts.reports, 'report')} say"
        described = About(title, privacy=privacy_of(mechanism))
        write_page(estimates, report, described, histogram_of(mechanism, counts, population))
    if json:
        chosen = {} if choice is None else {"choice": {"best": choice.best, "ranking": choice.rows()}}
        looked = {} if seen is None else {"suspicion": seen.document()}
        print(msgspec.json.encode({**estimates.document(schema=True), **answers, **chosen, **looked}).decode())
        return 0
    console = screen()
    show(console, estimates, top, raw)
    for remark in (seen, after):
        if remark is not None:
            console.print(str(remark))
    for one in tables(answers):
        console.print(one)
    if choice is not None:
        console.print(_methods(choice))
        console.print(f"Take {choice.best}: keyveil estimate … --postprocess {choice.best}")
    return 0


def _choice(estimates: Estimates, subsets: Sequence[str] | None, total: float | None, mechanism: Mechanism) -> Choice:
    """The methods by their errors on these sets of keys, or on single keys."""
    from keyveil.learn.choose import choose

    asked = [several(names) for names in subsets or []] or None
    return choose(estimates, asked, total=total, mechanism=mechanism)


def _methods(choice: Choice) -> Table:
    rows = Table(title="Mean squared errors of methods, by simulation", title_justify="left", pad_edge=False)
    for column in ("method", "error", "standard error"):
        rows.add_column(column, justify="left" if column == "method" else "right")
    for score in choice.ranking:
        rows.add_row(score.method, f"{score.loss:.3g}", f"{score.se:.2g}")
    return rows


def show(console: Terminal, estimates: Estimates, top: int, raw: bool) -> None:
    """The table of estimates and what more people would give, or why there is none."""
    from keyveil.display.estimates import listed, remarks

    silent = refuse_silent(estimates)
    if silent is not None:
        console.print(silent)
        return
    console.print(table(estimates if raw else listed(estimates, min(top, estimates.schema.d)), top))
    console.print(remarks(estimates))


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


def table(estimates: Estimates, top: int) -> Table:
    """The most frequent keys, for the terminal."""
    title = f"{estimates.mechanism}, {many(estimates.n, 'report')}, {estimates.confidence:.0%} intervals"
    rows = Table(title=title, title_justify="left", pad_edge=False)
    moved = estimates.attacked
    whom = "" if moved is None else f" with {many(moved.attackers, 'attacker')}"
    numbers = ("frequency", "mean") if moved is None else ("frequency", f"frequency{whom}", "mean", f"mean{whom}")
    for column in ("key", *numbers, "flag"):
        rows.add_column(
            column,
            justify="right" if column in numbers else "left",
            no_wrap=column == "flag",
            overflow="fold",
        )
    keys, frequencies = estimates.schema.keys, estimates.frequency.values
    order = (
        range(len(keys)) if estimates.frequency.absent else sorted(range(len(keys)), key=lambda at: -frequencies[at])
    )
    for at in list(order)[:top]:
        frequency, mean = _cell(estimates.frequency, keys[at]), _cell(estimates.mean, keys[at])
        cells: tuple[str, ...] = (frequency, mean)
        if moved is not None:
            cells = (frequency, moved.cell("frequency", at), mean, moved.cell("mean", at))
        rows.add_row(keys[at], *cells, estimates.flag[at])
    return rows


def refuse_silent(estimates: Estimates, *files: Path | None) -> str | None:
    """The sentence for reports that tell nothing about single keys; no file is made of it."""
    if not (estimates.frequency.absent and estimates.mean.absent):
        return None
    sentence = f"The reports of {estimates.mechanism} tell neither frequencies nor means of keys."
    if any(file is not None for file in files):
        raise MechanismError("estimate/silent", f"{sentence[:-1]}: there is nothing to write or draw.")
    return sentence


def _cell(column: Column, key: str) -> str:
    return "–" if column.absent else str(column[key])
