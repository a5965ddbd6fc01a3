"""``keyveil report``: be a device. Shows what a campaign asks, asks for consent, reports, and shows the ledger."""

from __future__ import annotations

import json as parser
import os
import sys
from math import inf
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from keyveil.cli.connection import NamedTransport
from keyveil.cli.data import say
from keyveil.cli.options import Json
from keyveil.cli.terminal import Terminal
from keyveil.core.errors import DeviceError, EpsilonError, KeyveilError, RecordError, TransportError
from keyveil.core.groups import in_group
from keyveil.core.text import plain as plain_text
from keyveil.device import Caps, Device, Explanation, HttpAnswer, Outcome
from keyveil.device.ledger import shown
from keyveil.device.preview import look_at

USUAL_FILE = Path("~/.keyveil/device.db")
LARGEST_RECORD = 16 << 20  # bytes
_SHOWN = 12  # keys that a preview names
_LONGEST_NUMBER = 400  # digits of a whole number; no double has more

_SAID = {
    "sent": "The collector has the report of round {round}.",
    "waiting": "The report of round {round} is stored and waits ({code}); send it with keyveil report --flush.",
    "refused": "The collector refused the report of round {round} ({code}).",
    "not-asked": "Round {round} asks other people; nothing was sent.",
    "between": "Nothing is asked at the moment; the next round opens {opens}.",
    "closed": "Nothing is asked any more.",
}
_UNUSED = "What you gave now was not used: a report that was drawn before stands."
_NOT_NOW = {"draft": "not open yet", "closed": "over", "estimated": "over"}


def report(
    name: Annotated[str | None, typer.Argument(help="The campaign to answer: its name or hash.")] = None,
    server: Annotated[
        str | None, typer.Option(envvar="KEYVEIL_SERVER", metavar="URL", help="Its collector, such as https://host.")
    ] = None,
    record: Annotated[str | None, typer.Option(help='What you have, as JSON: {"fries": 4}.')] = None,
    record_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The same in a file, or - for stdin.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="The group that you belong to: fries is de/fries of the group de.")
    ] = None,
    device: Annotated[Path, typer.Option(metavar="FILE", help="The device's own file.")] = USUAL_FILE,
    token: Annotated[str | None, typer.Option(help="Your enrolment token; others can see command lines.")] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Holds it; otherwise KEYVEIL_TOKEN does.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Only show what the campaign asks.")] = False,
    keys: Annotated[bool, typer.Option("--keys", help="Name every key that it asks about.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Agree to what the campaign asks and costs, without being asked.")
    ] = False,
    clock: Annotated[
        bool, typer.Option("--clock-is-right", help="Go on although the clock is far ahead of the last report.")
    ] = False,
    cap: Annotated[
        list[str] | None,
        typer.Option("--cap", metavar="NAME=VALUE", help="days, schema_period, schema_life, period or life."),
    ] = None,
    loosen: Annotated[bool, typer.Option("--loosen", help="Let --cap give more room than before.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Allow HTTP without TLS to another machine.")] = False,
    ledger: Annotated[bool, typer.Option("--ledger", help="Show what was released so far.")] = False,
    export: Annotated[bool, typer.Option("--export", help="The whole ledger as JSON.")] = False,
    flush: Annotated[bool, typer.Option("--flush", help="Send what waits.")] = False,
    withdraw: Annotated[str | None, typer.Option(metavar="NAME", help="Withdraw consent to a campaign.")] = None,
    json: Json = False,
) -> int:
    """Answer a campaign privately, as a device would; status 1 if the report has not arrived."""
    path, limits = device.expanduser(), _limits(cap)
    modes = [ledger, export, flush, withdraw is not None, name is not None]
    if sum(modes) != 1:
        raise typer.BadParameter(
            "give a campaign's NAME, or one of --ledger, --export, --flush and --withdraw; not several of them"
        )
    if name is None and (record is not None or record_file is not None):
        raise typer.BadParameter("a record answers a campaign: give its NAME")
    if ledger or export:
        with Device(_existing(path), Nowhere()) as device_file:
            device_file.limit(limits, loosen)
            return _show_ledger(device_file, export, json)
    if withdraw is not None:
        return _withdraw(_existing(path), server, withdraw, json)
    if server is None:
        raise typer.BadParameter("--server says where the collector is")
    # Before any request: what is wrong with a record is told here, and no collector sees a visit without a report.
    held = {} if name is None or explain else _record(record, record_file)
    if group is not None:
        held = in_group(held, group)
    wire = NamedTransport(server, plain=plain)
    try:
        with Device(path, wire, collector=server) as own:
            own.limit(limits, loosen)
            if clock:
                own.trust_clock()
            if name is None:
                return _tell(own.flush(), json)
            explanation = own.explain(name)
            name = explanation.campaign.name  # it may have been given by its hash
            if explain:
                print(_encoded(explanation.document()) if json else explanation.page(keys))
                return 0
            if explanation.notice.state in _NOT_NOW:
                nothing = Outcome(explanation.series, "closed")
                print(_encoded(nothing.document()) if json else f"{name} is {_NOT_NOW[explanation.notice.state]}.")
                return 1
            own_token = _enrolled(own, explanation, _token(token, token_file))
            if not explanation.agreed:
                _show(explanation, keys)
            _preview(explanation, held)
            seen: Explanation | None = explanation
            if (not explanation.agreed or explanation.draws) and _asked(explanation, yes):
                seen = None  # reading takes its time: what the collector serves by now is looked at again
            if not explanation.agreed:
                own.consent(name, explanation)
            return _tell([own.report(name, held, own_token, seen)], json, single=True)
    finally:
        wire.close()


class Nowhere:
    """The transport of a device that only reads its file."""

    def request(self, *_: Any, **__: Any) -> HttpAnswer:
        raise TransportError("transport/address", "--server says where the collector is.")


def _limits(given: list[str] | None) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for item in given or []:
        called, equals, value = item.partition("=")
        called = called.strip().replace("-", "_")
        if not equals:
            raise EpsilonError("epsilon/cap", f"--cap takes a name and a value such as life=4, not {item!r}.")
        try:
            options[called] = int(value) if called == "days" else value.strip()
        except ValueError:
            raise EpsilonError("epsilon/cap", f"A period is a whole number of days, not {value!r}.") from None
    Caps.read(options)  # mistakes are refused before anything is opened
    return options


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise DeviceError("device/file", f"There is no device's file {path}.")
    return path


def _record(text: str | None, file: Path | None) -> dict[str, Any]:
    if text is not None and file is not None:
        raise RecordError("record/missing", "Give what you have by --record or by --record-file, not both.")
    if text is None and file is None:
        raise RecordError("record/missing", "Give what you have, by --record or --record-file; {} if nothing.")
    try:
        data = text.encode() if text is not None else _read(file)
        held = parser.loads(data, object_pairs_hook=_named_once, parse_int=_whole)
    except OSError as reason:
        raise RecordError("record/file", f"The record cannot be read ({reason.strerror}).") from None
    except (ValueError, RecursionError):
        held = None
    if not isinstance(held, dict):  # the text is not quoted: a person's record does not belong in a message
        raise RecordError("record/json", 'A record is a JSON object of numbers, such as {"fries": 4}.')
    return held


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    held = dict(pairs)
    if len(held) < len(pairs):
        raise RecordError("record/twice", "A record names every key only once.")
    return held


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_NUMBER else inf


def _read(file: Path | None) -> bytes:
    if file is None or str(file) == "-":
        return sys.stdin.buffer.read(LARGEST_RECORD)
    with file.open("rb") as opened:
        return opened.read(LARGEST_RECORD)


def _token(given: str | None, file: Path | None) -> str | None:
    if file is None:
        return given
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise DeviceError("enrolment/token", f"The token file {file} cannot be read.") from None


def _enrolled(own: Device, explanation: Explanation, token: str | None) -> str | None:
    """The token that a campaign wants; without one nothing is spent on a report that would be refused."""
    if explanation.campaign.enrolment != "token":
        return token
    token = token or os.environ.get("KEYVEIL_TOKEN", "").strip() or None  # only for campaigns that need one
    document = explanation.open_round
    if token is None and document is not None:
        place = explanation.series, document.campaign, document.number
        if place not in [(entry.series, entry.campaign, entry.round) for entry in own.ledger()]:
            raise DeviceError(
                "enrolment/token", "This campaign needs your enrolment token: --token-file FILE or KEYVEIL_TOKEN."
            )
    return token


def _preview(explanation: Explanation, held: dict[str, Any]) -> None:
    """Show what of the record would count; the same is asked afterwards whatever it is."""
    if explanation.open_round is None:
        return
    seen, names = look_at(held, explanation.open_round.mechanism), explanation.campaign.schema.keys
    counted = ", ".join(plain_text(names[key]) for key, _ in seen.pairs[:_SHOWN]) or "none"
    more = f" and {len(seen.pairs) - _SHOWN} more" if len(seen.pairs) > _SHOWN else ""
    say(f"keyveil: Keys that count: {counted}{more}.")
    for note in seen.ignored:
        say(f"keyveil: {note.sentence}")


def _agrees(question: str) -> bool:
    print(f"\n{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _show(explanation: Explanation, keys: bool) -> None:
    """The page that a person reads before agreeing."""
    print(explanation.page(keys), file=sys.stderr)
    if explanation.unnamed and not keys:
        print("\n--explain --keys names all of the keys.", file=sys.stderr)


def _asked(explanation: Explanation, yes: bool) -> bool:
    """Get the owner's word before anything is agreed to or spent; whether somebody was asked at the terminal."""
    if yes:
        return False
    if not sys.stdin.isatty():
        raise DeviceError("consent/needed", "Nobody is here to agree: read what it asks and costs, then say --yes.")
    price = f" This costs epsilon {shown(explanation.epsilon)}." if explanation.draws and explanation.epsilon else ""
    if not _agrees(f"Do you agree?{price}"):
        raise DeviceError("consent/needed", "Nothing was sent.")
    return True


def _tell(outcomes: list[Outcome], json: bool, single: bool = False) -> int:
    documents = [outcome.document() for outcome in outcomes]
    if json:
        print(_encoded(documents[0] if single else {"reports": documents}))
    elif not outcomes:
        print("Nothing waits.")
    for outcome in [] if json else outcomes:
        opens = f"on {outcome.opens}" if outcome.opens else "on a day that is not named yet"
        print(_SAID[outcome.state].format(round=outcome.round, code=outcome.code, opens=opens), _cost(outcome))
        if single and outcome.report is not None and not outcome.used:
            say(f"keyveil: {_UNUSED}")
    return 1 if any(outcome.state in ("waiting", "refused") for outcome in outcomes) else 0


def _cost(outcome: Outcome) -> str:
    return f"It cost epsilon {shown(outcome.epsilon)}." if outcome.epsilon else "It cost nothing more."


def _show_ledger(device_file: Device, export: bool, json: bool) -> int:
    if export or json:
        print(device_file.export().decode())
        return 0
    table = Table(title=f"Everything that was released since {device_file.vault.since}", title_justify="left")
    for column in ("day", "campaign", "round", "mechanism", "epsilon", "report"):
        table.add_column(column, overflow="fold")
    for entry in device_file.ledger():
        cost = "repeated" if entry.free else shown(entry.epsilon)
        identity = f"{entry.report.hex()[:8]}…"
        table.add_row(entry.day.isoformat(), entry.series, str(entry.round), entry.mechanism, cost, identity)
    console = Terminal()
    console.print(table)
    for line in device_file.spent():
        console.print(f"Spent {line}")
    return 0


def _withdraw(path: Path, server: str | None, name: str, json: bool) -> int:
    """From one collector, or else from every one that has a campaign of this name."""
    with Device(path, Nowhere()) as device_file:
        places = [series.rpartition("/")[0] for series in device_file.consents() if series.rpartition("/")[2] == name]
    if server is not None:
        places = [place for place in places if place == server.rstrip("/")]
    if not places:
        raise KeyveilError("consent/unknown", f"There is no consent to {name} that could be withdrawn.")
    deleted = 0
    for place in places:
        with Device(path, Nowhere(), collector=place) as own:
            deleted += own.withdraw(name)
    if json:
        print(_encoded({"withdrawn": name, "deleted": deleted}))
    else:
        print(
            f"Consent to {name} is withdrawn, and {deleted} unsent report{'s are' if deleted != 1 else ' is'} deleted."
        )
    return 0


def _encoded(document: Any) -> str:
    return msgspec.json.encode(document).decode()
