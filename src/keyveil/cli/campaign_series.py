"""Campaigns that return: the next one of a series, changes between two, and how many of them a device answers."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import date, timedelta
from fractions import Fraction
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from keyveil.campaign.documents import Campaign
from keyveil.campaign.recurrence import Recurrence
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.series import drawn, next_document, refuse_same_reports
from keyveil.cli.connection import Database, Name, Server, TokenFile, address, reach
from keyveil.cli.data import screen
from keyveil.cli.options import Json
from keyveil.core.errors import CampaignError
from keyveil.core.estimates import Estimates
from keyveil.device import Caps
from keyveil.learn.comparisons import Of, compare_campaigns

LOOKED_AHEAD = 52  # campaigns
SOME_MONDAY = date(2026, 1, 5)  # where a document has no dates of its own
RHYTHMS = {"day": 1, "week": 7, "fortnight": 14, "month": 28, "quarter": 91, "year": 364}


def days_of(rhythm: str) -> int:
    """The days of a rhythm by its name or number; months and years are whole weeks, so that weekdays stay."""
    if rhythm in RHYTHMS:
        return RHYTHMS[rhythm]
    if rhythm.isascii() and rhythm.isdigit() and len(rhythm) < 5 and int(rhythm):
        return int(rhythm)
    raise CampaignError("campaign/every", f"--every takes {', '.join(RHYTHMS)} or a number of days, not {rhythm!r}.")


def next_(
    name: Name, server: Server = None, database: Database = None, token_file: TokenFile = None, json: Json = False
) -> int:
    """Give a collector the next campaign of a series, as a draft: the same terms, with the next dates."""
    with reach(server, database, token_file) as collector:
        view = collector.ask("POST", "/v1/campaigns", next_document(collector.campaign(name)[0]))
    if json:
        print(msgspec.json.encode(view).decode())
    else:
        opens = view["campaign"]["rounds"][0]["opens"]
        screen().print(f"The next campaign of {name} opens on {opens}; it is {view['state']}, hash {view['hash']}.")
    return 0


def compare(
    earlier: Annotated[str, typer.Argument(metavar="EARLIER", help="A campaign, by its hash.")],
    later: Annotated[str, typer.Argument(metavar="LATER", help="Another one of the series, by hash or name.")],
    keys: Annotated[str | None, typer.Option(help="Which keys: a,b,c; otherwise all.")] = None,
    of: Annotated[str, typer.Option(help="frequency or mean.")] = "frequency",
    server: Server = None,
    database: Database = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> int:
    """What has changed from one campaign of a series to another; refused where both hold the same reports."""
    if of not in ("frequency", "mean"):
        raise CampaignError("question/of", f"--of is frequency or mean, not {of!r}.")
    told: Of = "mean" if of == "mean" else "frequency"
    with reach(server, database, token_file) as collector:
        first, second = (collector.campaign(name)[0] for name in (earlier, later))
        refuse_same_reports(first, second)
        before, after = (
            Estimates.from_document(collector.ask("GET", address(one.hash, "estimates")), one.schema)
            for one in (first, second)
        )
    wanted = [key.strip() for key in keys.split(",")] if keys else [*second.schema.keys]
    changes = {key: compare_campaigns(after, before, key, told) for key in wanted}
    if json:
        rows = [{"key": key, "change": asdict(one.difference), "p_value": one.p_value} for key, one in changes.items()]
        print(msgspec.json.encode({"of": of, "as_of": [as_of(first), as_of(second)], "changes": rows}).decode())
        return 0
    table = Table(title=f"Change of the {of}, later minus earlier", title_justify="left", pad_edge=False)
    for column in ("key", "change", "p-value"):
        table.add_column(column, justify="left" if column == "key" else "right")
    for key, one in changes.items():
        interval = one.difference
        table.add_row(key, f"{interval.value:.4g} [{interval.low:.4g}, {interval.high:.4g}]", f"{one.p_value:.3g}")
    screen().print(table)
    return 0


def as_of(campaign: Campaign) -> dict[str, str] | None:
    """The days on which the reports of a campaign were drawn, for programs."""
    days = drawn(campaign)
    return None if days is None else {"first": days.first.isoformat(), "last": days.last.isoformat()}


def answered_of_next(campaign: Campaign, caps: Caps | None = None) -> dict[str, int]:
    """How many of the next 52 campaigns a device answers that has these caps (or the usual) and no other questions.

    As the document is, and under each of the choices that it has.
    """
    every, price = campaign.recurrence.every_days or 7, campaign.protocol.epsilon
    start = SOME_MONDAY if campaign.dates is None else campaign.dates[0]
    plain = Recurrence(every_days=every)
    choices = {"as it is": campaign.recurrence, "drawn anew each time": plain, "one_in 4": replace(plain, one_in=4)}
    first = campaign.protocol.next_round([])
    if campaign.protocol.single is not None and first is not None:
        price = RoundDocument.of(campaign, first).cost
        choices[f"renew_days {4 * every}"] = replace(plain, renew_days=4 * every, renew_from=start)
    return {name: _answered(one, price, every, start, caps or Caps()) for name, one in choices.items()}


def _answered(recurrence: Recurrence, price: Fraction, every: int, start: date, caps: Caps) -> int:
    spent: list[date] = []
    standing, answered = None, 0
    for number in range(LOOKED_AHEAD):
        day = start + timedelta(days=every * number)
        if recurrence.one_in is not None and number % recurrence.one_in:
            continue
        period = recurrence.period(day)
        if period is None or standing != period:
            recent = sum(one > day - timedelta(days=caps.days) for one in spent) + 1
            fits = recent * price <= min(Fraction(caps.schema_period), Fraction(caps.period))
            if not fits or (len(spent) + 1) * price > min(Fraction(caps.schema_life), Fraction(caps.life)):
                continue
            spent.append(day)
            standing = period
        answered += 1
    return answered


def answers_said(found: dict[str, int]) -> str:
    """The same in a sentence."""
    listed = "; ".join(f"{name}: {count}" for name, count in found.items())
    return f"Of the next {LOOKED_AHEAD} campaigns a device with the usual caps answers: {listed}."
