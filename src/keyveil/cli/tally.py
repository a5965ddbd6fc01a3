"""``keyveil tally``: from reports on disk to the tally of one round; ``engines`` does the counting."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from keyveil.campaign.documents import Campaign, dictionary_of
from keyveil.campaign.rounds import RoundDocument
from keyveil.cli.campaign_files import beside, fetch_beside, parted, read_json
from keyveil.cli.data import many, progress_bar, screen
from keyveil.cli.estimate import write_tally
from keyveil.cli.options import Json
from keyveil.core.errors import CampaignError, KeyveilError, MechanismError
from keyveil.engines.local import count, reports_in

ENGINES = ("local",)


def tally(
    reports: Annotated[Path, typer.Argument(metavar="REPORTS", help="Reports (.parquet), as campaign export writes.")],
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
    engine: Annotated[str, typer.Option(help="Where the work is done: local.")] = "local",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The tally; REPORTS.tally unless given.")] = None,
    json: Json = False,
) -> int:
    """Count the reports of one round on disk; keyveil estimate reads what is written."""
    if engine not in ENGINES:
        known = "not installed yet" if engine == "spark" else "not known"
        raise MechanismError("engine/unknown", f"The engine {engine} is {known}; use {' or '.join(ENGINES)}.")
    if not reports.is_file():
        raise KeyveilError("input/file", f"There is no file {reports}.")
    document, min_reports = read_round(campaign or beside(reports), round_document, keys_file)
    with progress_bar(reports_in(reports)) as (bar, task):
        bar.update(task, description="Counting")
        counted = count(reports, document, lambda n: bar.advance(task, n))
    target = out or reports.with_suffix(".tally")
    write_tally(target, document.mechanism, counted, min_reports)
    if json:
        said = {
            "campaign": document.campaign,
            "round": document.number,
            "mechanism": document.mechanism.name,
            "n": counted.reports,
            "reports": counted.reports,
            "written": [str(target), str(beside(target))],
        }
        print(msgspec.json.encode(said).decode())
    else:
        screen().print(f"{many(counted.reports, 'report')} of {document.mechanism.name} counted.")
    return 0


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
