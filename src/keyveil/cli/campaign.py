"""``keyveil campaign …``: write, check, open, watch and close collections, and read their estimates."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from keyveil.advice.campaigns import forecast_campaign, invented_people, prediction_said, warnings
from keyveil.campaign.answerable import refuse_refused
from keyveil.campaign.dictionaries import parted
from keyveil.campaign.documents import Campaign, problems
from keyveil.cli.campaign_advice import forecast_document, say_answers, show_forecast
from keyveil.cli.campaign_ask import ask
from keyveil.cli.campaign_auto import Expected, chosen
from keyveil.cli.campaign_endings import archive, delete, retry, revoke
from keyveil.cli.campaign_enrol import enrol
from keyveil.cli.campaign_estimates import estimates
from keyveil.cli.campaign_exports import export_reports, export_tally
from keyveil.cli.campaign_files import drafted, fetch_beside, read_json, write_json
from keyveil.cli.campaign_label import label
from keyveil.cli.campaign_series import answered_of_next, answers_said, compare, days_of, next_
from keyveil.cli.campaign_watch import watch
from keyveil.cli.connection import Collector, Database, Name, Server, TokenFile, address, reach
from keyveil.cli.data import GroupsOption, HierarchyOption, LevelsOption, many, progress_bar, say, screen
from keyveil.cli.journey import FromDraftToArchive
from keyveil.cli.options import Json, MaxPairs, Settings, names_like, settings
from keyveil.cli.printing import printed, table
from keyveil.core.clock import system_clock, today
from keyveil.core.errors import CampaignError, KeyveilError
from keyveil.mechanisms.questions import ASKABLE, who_answers
from keyveil.planning.auto import AUTO

app = typer.Typer(
    name="campaign",
    cls=FromDraftToArchive,
    help="Write, check, run and read collections.",
    invoke_without_command=True,
    rich_markup_mode=None,
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="A campaign document (.json).")]
KeysFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", exists=True, dir_okay=False, help="The list of keys that lies beside the document."),
]


@app.callback()
def _alone(context: typer.Context) -> None:
    """Write, check, run and read collections."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def create(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="A campaign document (.json).")] = None,
    name: Annotated[str | None, typer.Option(help="Without FILE: the campaign's name, such as snack-survey.")] = None,
    purpose: Annotated[str | None, typer.Option(help="What it is for; people read this before they agree.")] = None,
    keys: Annotated[
        str | None, typer.Option(help="What is asked about: a,b,c, or @FILE with a name in each line, or how many.")
    ] = None,
    low: Annotated[str | None, typer.Option(help="The least value (also x=0,y=1); -1 unless given.")] = None,
    high: Annotated[str | None, typer.Option(help="The largest value (also x=9,y=5); 1 unless given.")] = None,
    levels: LevelsOption = None,
    hierarchy: HierarchyOption = False,
    groups: GroupsOption = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            help="A mechanism or protocol by name; otherwise auto, or ssr where its options are given.",
            autocompletion=names_like,
        ),
    ] = None,
    epsilon: Annotated[str, typer.Option(help="What everybody spends at most, an exact decimal.")] = "1",
    people: Annotated[int | None, typer.Option(help="For auto: how many will report; otherwise enough.")] = None,
    pairs: Annotated[float | None, typer.Option(help="For auto: how many pairs a person holds on average.")] = None,
    sample: Annotated[str | None, typer.Option(metavar="DATA", help="For auto: people like those expected.")] = None,
    goal: Annotated[str | None, typer.Option(help="For auto: a goal of keyveil plan; both unless given.")] = None,
    typical: Annotated[str | None, typer.Option(help="For auto: root mean square of a value on -1 to 1.")] = None,
    bits: Annotated[float | None, typer.Option(help="For auto: the most bits of a report.")] = None,
    shares: Annotated[str | None, typer.Option(help="For auto: expected holders, as in fries:0.4,pepsi:0.1.")] = None,
    rounds: Annotated[int | None, typer.Option(help="For auto: the most rounds; one unless given.")] = None,
    max_pairs: MaxPairs = None,
    set: Settings = None,
    enough: Annotated[int | None, typer.Option(help="The round closes at so many reports.")] = None,
    opens: Annotated[str | None, typer.Option(help="The first day, such as 2026-11-20.")] = None,
    closes: Annotated[str | None, typer.Option(help="The last day.")] = None,
    every: Annotated[
        str | None, typer.Option(help="It returns every day, week, month, … or so many days; dates follow.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="With --every: the last day of the whole series.")] = None,
    renew: Annotated[
        int | None, typer.Option(min=1, metavar="DAYS", help="One report of a device stands for so many days.")
    ] = None,
    one_in: Annotated[int | None, typer.Option(min=2, help="A device answers one of so many campaigns.")] = None,
    min_reports: Annotated[int | None, typer.Option(help="Nothing is shown below so many reports.")] = None,
    enrolment: Annotated[str | None, typer.Option(help="none or token.")] = None,
    contact: Annotated[str | None, typer.Option(help="Whom people can ask.")] = None,
    browser: Annotated[bool, typer.Option("--browser", help="Also for browsers, which may forget.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the document; only that unless --server or --database is given."),
    ] = None,
    keys_file: KeysFile = None,
    server: Server = None,
    database: Database = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> int:
    """Give a collector a new campaign, as a draft; from a file, or from options, which can also only write the file."""
    if file is not None:
        if name is not None or keys is not None:
            raise KeyveilError("campaign/create", "Give a file or options that describe the campaign, not both.")
        document = read_json(file)
    else:
        if people is None and mechanism in (None, AUTO) and (pairs, sample, shares) != (None, None, None):
            people = enough
        method, options, reason = chosen(
            mechanism,
            settings(set, max_pairs),
            epsilon,
            Expected(people, pairs, sample, goal, typical, bits, shares, rounds, browser),
            keys,
            low,
            high,
            levels,
            hierarchy,
            groups,
        )
        document = drafted(
            name=name or "",
            purpose=purpose or "",
            keys=keys,
            low=low,
            high=high,
            levels=levels,
            hierarchy=hierarchy,
            groups=groups,
            mechanism=method,
            epsilon=epsilon,
            options=options,
            enough=enough,
            opens=opens,
            closes=closes,
            min_reports=min_reports,
            enrolment=enrolment,
            contact=contact,
            browser=browser,
            every=None if every is None else days_of(every),
            until=until,
            renew=renew,
            one_in=one_in,
            reason=reason,
        )
    slim, beside = parted(document)
    fetch = fetch_beside(file or Path(), keys_file, beside)
    campaign = Campaign.from_document(slim, fetch)
    refuse_refused(campaign, fetch)
    if out is not None:
        write_json(out, document)
        say(f"Written: {out}")
        source = context.get_parameter_source("server")
        if database is None and (source is None or source.name != "COMMANDLINE"):
            printed(json, document)
            say_answers(campaign)
            return 0
    with reach(server, database, token_file, create=True) as collector:
        _keep_dictionary(collector, slim, beside, file, keys_file)
        view = collector.ask("POST", "/v1/campaigns", slim)
    _tell(view, json)
    say_answers(campaign)
    return 0


@app.command()
def check(
    file: File,
    people: Annotated[
        int | None, typer.Option(min=1, help="How many will report; otherwise as many as enough.")
    ] = None,
    pairs: Annotated[float | None, typer.Option(help="How many pairs a person is expected to hold.")] = None,
    sample: Annotated[str | None, typer.Option(metavar="DATA", help="People like those who are expected.")] = None,
    shares: Annotated[str | None, typer.Option(help="Expected holders, as in fries:0.4,pepsi:0.1.")] = None,
    keys_file: KeysFile = None,
    json: Json = False,
) -> int:
    """Say everything that is wrong with a document, and what errors to expect if nothing is; status 2 if it is."""
    slim, beside = parted(read_json(file))
    fetch = fetch_beside(file, keys_file, beside)
    wrong = problems(slim, fetch)
    if not wrong:
        campaign = Campaign.from_document(slim, fetch)
        try:
            refuse_refused(campaign, fetch)
        except CampaignError as refused:
            wrong = [refused]
    if wrong:
        printed(json, {"problems": [{"code": one.code, "sentence": one.sentence} for one in wrong]})
        for one in wrong:
            say(f"keyveil: {one.sentence} [{one.code}]")
        return 2
    with progress_bar(invented_people(campaign, people)) as (bar, task):
        bar.update(task, description="Inventing people")
        found = forecast_campaign(campaign, people, lambda n: bar.advance(task, n), pairs, sample, shares)
    unwise, told = warnings(campaign, today(system_clock), found), found.prediction
    document = {
        "name": campaign.name,
        "hash": campaign.hash,
        "problems": [],
        "warnings": [{"code": one.code, "sentence": one.sentence} for one in unwise],
        "answers": list(campaign.answers),
        "not_answered": {kind: list(who_answers(kind)) for kind in ASKABLE if kind not in campaign.answers},
        "forecast": forecast_document(campaign, found),
        "prediction": None if told is None else {**told.document(), "about": told.people.about},
        "answered_of_next_52": answered_of_next(campaign),
    }
    if not printed(json, document):
        show_forecast(campaign, found, unwise)
        if told is not None:
            screen().print(prediction_said(told))
        screen().print(answers_said(answered_of_next(campaign)))
        say_answers(campaign)
    return 0


@app.command("open")
def open_(
    name: Name, server: Server = None, database: Database = None, token_file: TokenFile = None, json: Json = False
) -> int:
    """Let the first round of a draft begin, at once or on its day."""
    with reach(server, database, token_file) as collector:
        campaign = collector.campaign(name)[0]
        last = campaign.until
        if last is not None and last < today(system_clock):
            raise CampaignError("campaign/over", f"The last day of {campaign.name} was {last}: nobody could answer it.")
        view = collector.ask("PATCH", address(name), {"action": "open"})
    _tell(view, json)
    return 0


@app.command()
def close(
    name: Name, server: Server = None, database: Database = None, token_file: TokenFile = None, json: Json = False
) -> int:
    """Close the present round now; the next one, if there is one, follows."""
    return _act("close", name, server, database, token_file, json)


@app.command()
def stop(
    name: Name, server: Server = None, database: Database = None, token_file: TokenFile = None, json: Json = False
) -> int:
    """Close the present round and ask no further ones."""
    return _act("stop", name, server, database, token_file, json)


@app.command("list")
def list_(server: Server = None, database: Database = None, token_file: TokenFile = None, json: Json = False) -> int:
    """All campaigns and their states."""
    with reach(server, database, token_file) as collector:
        found = collector.ask("GET", "/v1/campaigns")
    if not printed(json, found):
        rows = table("Campaigns", "name", "state", "rounds", "reports", "hash")
        for one in found["campaigns"]:
            rows.add_row(one["name"], one["state"], str(one["rounds"]), f"{one['reports']:,}", one["hash"][:12])
        screen().print(rows)
    return 0


@app.command()
def status(
    name: Name, server: Server = None, database: Database = None, token_file: TokenFile = None, json: Json = False
) -> int:
    """States, and how many reports came, were counted, came twice or were refused."""
    with reach(server, database, token_file) as collector:
        found = collector.ask("GET", address(name, "status"))
    if not printed(json, found):
        rows = table(f"{found['name']} is {found['state']}", "round", "mechanism", "state", "reports", "counted")
        for one in found["rounds"]:
            rows.add_row(str(one["round"]), one["mechanism"], one["state"], f"{one['reports']:,}", f"{one['folded']:,}")
        screen().print(rows)
        for note in [one["note"] for one in found["rounds"] if one.get("note")]:
            screen().print(note)
        refused = ", ".join(f"{count:,} {code}" for code, count in sorted(found["refused"].items())) or "none"
        screen().print(f"Duplicates: {found['duplicates']:,}. Refused: {refused}.")
    return 0


@app.command()
def export(
    name: Name,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where it is written.")],
    tally: Annotated[bool, typer.Option("--tally", help="The counts, for keyveil estimate, not the reports.")] = False,
    round: Annotated[int | None, typer.Option("--round", min=1, help="Which one; otherwise the last.")] = None,
    server: Server = None,
    database: Database = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> int:
    """Write the reports of a round as Parquet (for keyveil tally), or its tally; the last round unless one is named."""
    with reach(server, database, token_file) as collector:
        work = export_tally if tally else export_reports
        document = work(collector, name, round, out)
    for path in document["written"]:
        say(f"Written: {path}")
    if not printed(json, document):
        screen().print(f"{many(document['reports'], 'report')} of round {document['round']}.")
    return 0


app.command()(enrol)
app.command()(watch)
app.command()(estimates)
app.command()(ask)
app.command()(label)
app.command("next")(next_)
app.command()(compare)
app.command()(archive)
app.command()(delete)
app.command()(revoke)
app.command()(retry)


# -- inside ---------------------------------------------------------------------------------------------------------


def _act(action: str, name: str, server: str | None, database: str | None, token_file: Path | None, json: bool) -> int:
    with reach(server, database, token_file) as collector:
        view = collector.ask("PATCH", address(name), {"action": action})
    _tell(view, json)
    return 0


def _keep_dictionary(
    collector: Collector, document: Any, beside: bytes | None, file: Path | None, keys_file: Path | None
) -> None:
    """The list of keys must be there before the campaign that names it."""
    keys = document["schema"]["keys"] if isinstance(document, dict) and isinstance(document.get("schema"), dict) else 0
    if beside is None and isinstance(keys, dict) and isinstance(keys.get("sha256"), str) and file is not None:
        beside = fetch_beside(file, keys_file, None)(keys["sha256"])
    if beside is not None:
        collector.fetch("PUT", f"/v1/dictionaries/{hashlib.sha256(beside).hexdigest()}", beside)
        say(f"A list of {len(msgspec.json.decode(beside)):,} keys lies beside the document.")


def _tell(view: dict[str, Any], json: bool) -> None:
    if printed(json, view):
        return
    name, last = view["campaign"]["name"], view["round"]
    state = f"{name} is {view['state']}" + (f", round {last['number']} is {last['state']}" if last else "")
    screen().print(f"{state}. Its document has the hash {view['hash']}.")
