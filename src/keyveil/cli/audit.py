"""``keyveil audit``: a lower bound on epsilon from samples alone, also for other people's code.

Of a protocol every round is attacked on its own (``protocols.proofs``); what several rounds tell together is what
``keyveil certify`` is about.
"""

from __future__ import annotations

import math
import sys
from functools import reduce
from importlib import import_module
from inspect import isclass
from typing import Annotated, Any

import msgspec
import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table

from keyveil.cli.options import Epsilon, Json, Keys, MaxPairs, Settings, names_like, settings, without_data
from keyveil.cli.terminal import Terminal
from keyveil.core.epsilon import parse_epsilon
from keyveil.core.errors import MechanismError, PrivacyError, RecordError
from keyveil.core.schema import Schema
from keyveil.privacy.audit import Audit
from keyveil.privacy.intervals import at_most
from keyveil.privacy.targets import extremes
from keyveil.protocols.proofs import ProtocolAudit
from keyveil.protocols.proofs import audit as attack


def audit(
    epsilon: Epsilon,
    mechanism: Annotated[
        str | None, typer.Option("--mechanism", help="A name of the registry.", autocompletion=names_like)
    ] = None,
    subject: Annotated[
        str | None, typer.Option(metavar="MODULE:ATTRIBUTE", help="An object with perturb, or a function of a record.")
    ] = None,
    keys: Keys = 10,
    max_pairs: MaxPairs = None,
    set: Settings = None,
    record: Annotated[
        list[str] | None, typer.Option(metavar="JSON", help="A record to compare; without any, extreme ones are.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="About how long to try.")] = 60.0,
    confidence: Annotated[float, typer.Option(help="How sure the bound must be.")] = 0.99,
    json: Json = False,
) -> int:
    """Attack a mechanism: prove from samples alone that it spends at least so much; status 1 if that is too much."""
    if (mechanism is None) == (subject is None):
        raise MechanismError("audit/subject", "Give --mechanism or --subject, one of them.")
    requested, options = parse_epsilon(epsilon), settings(set, max_pairs)
    target = load(subject) if subject else without_data(str(mechanism), keys, requested, options)
    records: list[Any] | None = [_record(text) for text in record] if record else None
    if records is None and not hasattr(target, "schema"):
        records = extremes(Schema(keys=keys), max_pairs)
    console = Terminal(stderr=True)
    parts = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
    with Progress(*parts, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("Starting", total=1.0)
        found = attack(
            target,
            epsilon=requested,
            records=records,
            confidence=confidence,
            seconds=seconds,
            progress=lambda stage, share: progress.update(task, description=stage, completed=share),
        )
    if json:
        print(msgspec.json.encode(found.document()).decode())
    else:
        page = Terminal()
        page.print(_table([found, *_several(found)]))
        page.print(_worst(found))
        if not found.violated:
            page.print(_limits(found))
    return 1 if found.violated else 0


def _several(found: Audit) -> tuple[Audit, ...]:
    """The rounds behind an audit, where there are several."""
    return found.rounds if isinstance(found, ProtocolAudit) and len(found.rounds) > 1 else ()


def load(where: str) -> Any:
    """The object or function that ``module:attribute`` names, seen from the current directory."""
    module, colon, attribute = where.partition(":")
    if not (module and colon and attribute):
        raise MechanismError("audit/subject", f"--subject takes module:attribute, not {where!r}.")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = reduce(getattr, attribute.split("."), import_module(module))
    except Exception as reason:  # other people's modules may fail in any way while they load
        raise MechanismError(
            "audit/subject", f"{where} cannot be imported ({type(reason).__name__}: {reason})."
        ) from reason
    if isclass(found):
        raise PrivacyError("audit/subject", f"{where} is a class; name an object with perturb, or a function.")
    return found


def _record(text: str) -> Any:
    try:
        return msgspec.json.decode(text.encode())
    except msgspec.DecodeError:
        raise RecordError("audit/record", f"--record takes JSON, and {text!r} is none.") from None


def _table(audits: list[Audit]) -> Table:
    table = Table(title="Privacy, attacked by sampling", title_justify="left")
    for column in ("subject", "requested", "spends at least", "confidence", "verdict"):
        table.add_column(column, overflow="fold")
    for found in audits:
        requested = "" if found.requested_epsilon is None else f"{float(found.requested_epsilon):g}"
        verdict = "PROMISE BROKEN" if found.violated else "not refuted"
        table.add_row(found.mechanism, requested, f"{found.lower_bound:.4f}", f"{found.confidence:g}", verdict)
    return table


def _worst(found: Audit) -> str:
    worst = found.worst
    public = "new public bytes for every report" if worst.public is None else f"public bytes {worst.public.hex()}"
    return (
        f"Told apart best, through {worst.way} with {public}:\n"
        f"  {worst.record}: {worst.hits:,} of {worst.draws:,} reports\n"
        f"  {worst.other_record}: {worst.other_hits:,} of {worst.draws:,} reports\n"
        f"have: {worst.event}"
    )


def _limits(found: Audit) -> str:
    """What the draws could not have shown, in words."""
    unseen = at_most(
        0, found.worst.draws, (1 - found.confidence) / 2
    )  # as likely under the other record, for all we know
    rarest = math.exp(float(found.requested_epsilon or 0)) * unseen
    return (
        f"Not refuted is no proof. A total leak in fewer than about one report in {max(int(1 / rarest), 1):,} was out "
        "of reach of so many draws, and so is what shows at few public values, or for records that were not compared. "
        "keyveil certify proves."
    )
