"""``keyveil tally``: from reports on disk to the tally of one round; ``engines`` does the counting."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from keyveil.campaign.dictionaries import parted
from keyveil.campaign.documents import Campaign, dictionary_of
from keyveil.campaign.rounds import RoundDocument
from keyveil.cli.campaign_files import beside, fetch_beside, read_json
from keyveil.cli.connection import written
from keyveil.cli.data import many, progress_bar, say, screen, working
from keyveil.cli.estimate import write_tally
from keyveil.cli.options import Json
from keyveil.core.errors import CampaignError, KeyveilError, MechanismError
from keyveil.engines.fold import SketchFold
from keyveil.engines.local import Counted, count
from keyveil.engines.spark import count_on_spark
from keyveil.robustness.sketches import sketch_shape


def tally(
    reports: Annotated[
        Path, typer.Argument(metavar="REPORTS", help="Reports as campaign export writes, or a folder of such files.")
    ],
    campaign: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The campaign's document; REPORTS.json unless given.")
    ] = None,
    round_document: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The round's document, where a campaign has several rounds.")
    ] = None,
    keys_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="The list of keys that lies beside the campaign's document.",
        ),
    ] = None,
    engine: Annotated[str, typer.Option(help="Where the work is done: local or spark.")] = "local",
    threads: Annotated[int | None, typer.Option(min=1, help="As many as there are cores unless given.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The tally; REPORTS.tally unless given.")] = None,
    sketch: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write a sketch, by which keyveil estimate tells crafted reports."),
    ] = None,
    json: Json = False,
) -> int:
    """Count the reports of one round on disk; keyveil estimate reads what is written."""
    if engine not in ENGINES:
        raise MechanismError("engine/unknown", f"The engine {engine} is not known; use {' or '.join(ENGINES)}.")
    if not reports.exists():
        raise KeyveilError("input/file", f"There is no file {reports}.")
    document, min_reports = read_round(campaign or beside(reports), round_document, keys_file)
    if sketch is not None:
        sketch_shape(document.mechanism)  # refused where there is none
    target = out or (reports if reports.name else reports.absolute()).with_suffix(".tally")
    begin = time.perf_counter()
    counted = ENGINES[engine](reports, document, target, threads)
    took = time.perf_counter() - begin
    write_tally(target, document.mechanism, counted.tally, min_reports)
    if sketch is not None:
        with written(sketch) as part:
            part.write(count(reports, document, threads=threads, kind=SketchFold).tally.to_bytes())
        say(f"Written: {sketch}")
    fresh = counted.tally.reports - counted.resumed
    say(f"{fresh / max(took, 1e-9):,.0f} reports a second, in {took:.1f} s.")
    if json:
        said = {
            "campaign": document.campaign,
            "round": document.number,
            "mechanism": document.mechanism.name,
            "n": counted.tally.reports,
            "reports": counted.tally.reports,
            "files": counted.files,
            "copies": counted.copies,
            "written": [str(target), str(beside(target)), *([] if sketch is None else [str(sketch)])],
        }
        print(msgspec.json.encode(said).decode())
    else:
        screen().print(f"{many(counted.tally.reports, 'report')} of {document.mechanism.name} counted.")
        if counted.copies:
            screen().print(f"{many(counted.copies, 'copy', 'copies')} of reports counted no second time.")
    return 0


def _here(reports: Path, document: RoundDocument, target: Path, threads: int | None) -> Counted:
    """On this machine; what is done is kept beside the tally that it will be."""
    kept = Path(f"{target}.partial")
    if kept.exists():
        say(f"Going on where an earlier run stopped ({kept}).")
    with progress_bar(1) as (bar, task):

        def advanced(done: int, rows: int) -> None:
            rate = bar.tasks[task].finished_speed or bar.tasks[task].speed or 0
            bar.update(task, completed=done, total=rows, description=f"Counting, {rate:,.0f} reports a second")

        return count(reports, document, threads=threads, progress=advanced, checkpoint=kept)


def _on_spark(reports: Path, document: RoundDocument, target: Path, threads: int | None) -> Counted:
    """On Spark, as its environment and configuration say."""
    with working("Counting on Spark"):
        return count_on_spark(reports, document, threads)


ENGINES = {"local": _here, "spark": _on_spark}


def read_round(path: Path, round_document: Path | None, keys_file: Path | None) -> tuple[RoundDocument, int]:
    """The round of the reports, from the documents beside them or those given, and its campaign's ``min_reports``."""
    document = read_json(path)
    around = document if isinstance(document, dict) and "campaign" in document else {"campaign": document}
    slim, beside = parted(around["campaign"])
    if around.get("dictionary") is not None:
        beside = dictionary_of(around["dictionary"])
    campaign = Campaign.from_document(slim, fetch_beside(path, keys_file, beside))
    if round_document is not None:
        return RoundDocument.from_document(read_json(round_document), campaign), campaign.min_reports
    if around.get("round") is not None:
        return RoundDocument.from_document(around["round"], campaign), campaign.min_reports
    if campaign.protocol.single is None:
        raise CampaignError(
            "campaign/round", f"{campaign.protocol_name} asks several rounds: say which one with --round-document."
        )
    only = campaign.protocol.next_round([])
    assert only is not None
    return RoundDocument.of(campaign, only), campaign.min_reports
