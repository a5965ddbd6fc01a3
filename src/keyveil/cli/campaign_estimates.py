"""``keyveil campaign estimates``: what the reports of a campaign say so far, in a table, files or a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from keyveil.campaign.series import drawn
from keyveil.cli.campaign_exports import distributions, write_csv
from keyveil.cli.connection import Database, Name, Server, TokenFile, address, reach
from keyveil.cli.data import Plot, save, say, screen
from keyveil.cli.estimate import refuse_silent
from keyveil.cli.estimate import show as show_estimates
from keyveil.cli.options import Attackers, Json, PerKey, Raw, Recover
from keyveil.cli.pages import ReportFile, write_page
from keyveil.cli.printing import printed
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.learn.questions import LEAST_CONFIDENCE, MOST_CONFIDENCE

Round = Annotated[int | None, typer.Option("--round", min=1, help="One round; otherwise all of them together.")]


def estimates(
    name: Name,
    round: Round = None,
    postprocess: Annotated[str | None, typer.Option(help="A method such as norm-sub, base-cut or bayes.")] = None,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    top: Annotated[int, typer.Option(min=1, help="How many keys the table shows.")] = 20,
    per_key: PerKey = False,
    raw: Raw = False,
    attackers: Attackers = None,
    recover: Recover = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all keys as CSV.")] = None,
    plot: Plot = None,
    report: ReportFile = None,
    server: Server = None,
    database: Database = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> int:
    """What the reports say so far: frequencies and means with intervals."""
    if not LEAST_CONFIDENCE <= confidence <= MOST_CONFIDENCE:
        raise MechanismError("estimate/confidence", f"Confidence must lie between 0 and 1, not {confidence:g}.")
    wanted = {"round": round, "postprocess": postprocess, "confidence": confidence}
    wanted |= {"attackers": attackers, "recover": recover}
    with reach(server, database, token_file) as collector:
        found = collector.ask("GET", address(name, "estimates"), None, **wanted)
        campaign = collector.campaign(name)[0]
        known = Estimates.from_document(found, campaign.schema)
        values = None if report is None else distributions(collector, name, round)
    if per_key:
        known = known.per_key()
        found |= known.document()
    refuse_silent(known, csv, plot, report)
    days = drawn(campaign)
    told = "" if days is None else f"The reports were drawn from {days}: estimates speak of these days."
    if csv is not None:
        write_csv(csv, known, days)
        say(f"Written: {csv}")
    if plot is not None:
        save(known.plot(top=top), plot)
    if report is not None:
        from keyveil.dashboard.about import about_campaign

        write_page(known, report, about_campaign(campaign, told), values)
    if not printed(json, found):
        show_estimates(screen(), known, top, raw)
        if recover is not None:
            say(f"Labelled: frequencies after recovery by {recover}; means are as they were estimated.")
        if told and campaign.recurrence.renew_days is not None:
            say(told)
    return 0
