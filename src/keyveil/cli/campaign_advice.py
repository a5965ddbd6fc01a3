"""What ``keyveil campaign check`` prints of a document in order: the errors to expect, and what looks unwise."""

from __future__ import annotations

from typing import Any

from keyveil.advice.campaigns import Warning, overflow_group
from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.cli.data import many, say, screen
from keyveil.cli.printing import table
from keyveil.mechanisms.questions import ASKABLE, who_answers
from keyveil.planning.forecast import Forecast, ForecastRound


def report_bytes(campaign: Campaign, one: ForecastRound) -> int:
    """The size of every report of a round."""
    return RoundDocument.of(campaign, one.round).report_bytes


def forecast_document(campaign: Campaign, found: Forecast) -> dict[str, Any]:
    """A forecast as an object, with the size of the reports of every round."""
    rounds = [{**one.document(), "report_bytes": report_bytes(campaign, one)} for one in found.rounds]
    return {**found.document(), "rounds": rounds}


def show_forecast(campaign: Campaign, found: Forecast, unwise: list[Warning]) -> None:
    """Print what is asked, the errors to expect, and what looks unwise."""
    page = screen()
    page.print(f"{campaign.name} is in order. Its document has the hash {campaign.hash}.")
    rounds = table("What is asked", "round", "mechanism", "epsilon", "bits", "bytes", "reports")
    for one in found.rounds:
        exact, bits, size = f"{one.exact_epsilon:.6f}", f"{one.bits:.4g}", str(report_bytes(campaign, one))
        rounds.add_row(str(one.round.number), one.round.mechanism.name, exact, bits, size, f"{one.reports:,}")
    page.print(rounds)
    errors = table(f"Standard errors, {many(found.people, 'person', 'people')}", "of", "median", "worst", "keys")
    for what, spread, known in (
        ("frequencies", found.frequency, found.keys),
        ("means", found.mean, found.means_known),
    ):
        cells = ("–", "–") if spread is None else (f"{spread[0]:.4g}", f"{spread[1]:.4g}")
        errors.add_row(what, *cells, f"{known:,} of {found.keys:,}")
    page.print(errors)
    simulated = f"By simulation of {many(found.invented, 'invented person', 'invented people')}"
    how = simulated if found.prediction is None else "By closed form"
    page.print(f"{how}: {found.crowd}. Nobody spends more than {float(found.spent):.6f}.")
    if (group := overflow_group(campaign)) is not None:
        page.print(group)
    for remark in unwise:
        page.print(f"Unwise: {remark.sentence} [{remark.code}]")


def say_answers(campaign: Campaign) -> None:
    """What the collection will and will not be able to tell, before anybody has spent anything."""
    say("It will tell " + "; ".join(ASKABLE[kind].meaning for kind in campaign.answers) + ".")
    for kind in ASKABLE:
        if kind not in campaign.answers:
            say(f"It will not tell {ASKABLE[kind].meaning}; that takes {', '.join(who_answers(kind))}.")
