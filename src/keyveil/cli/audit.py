"""``keyveil audit``: a lower bound on epsilon from samples alone, also for other people's code.

Of a protocol every round is attacked on its own, under the broadcast that tells most, and must not spend more than the
protocol counts for it. What several rounds tell together is the business of ``keyveil certify``.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from fractions import Fraction
from functools import partial, reduce
from importlib import import_module
from inspect import isclass
from typing import Annotated, Any, NamedTuple

import msgspec
import typer
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn
from rich.table import Table

from keyveil.cli.options import Epsilon, Json, Keys, MaxPairs, Settings, settings, without_data
from keyveil.cli.rounds import without_data as protocol_without_data
from keyveil.cli.terminal import Terminal
from keyveil.core.epsilon import parse_epsilon
from keyveil.core.errors import MechanismError, PrivacyError, RecordError
from keyveil.core.schema import Schema
from keyveil.mechanisms.registry import is_protocol
from keyveil.privacy.audit import Audit
from keyveil.privacy.audit import audit as attack
from keyveil.privacy.targets import extremes
from keyveil.protocols.base import Protocol
from keyveil.protocols.certificate import most_telling


def audit(
    epsilon: Epsilon,
    mechanism: Annotated[str | None, typer.Option("--mechanism", help="A name of the registry.")] = None,
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
    asked, schema = parse_epsilon(epsilon), Schema(keys=keys)
    options, name = settings(set, max_pairs), mechanism or ""
    several = bool(name) and is_protocol(name)
    if subject:
        rounds = [Attacked("", load(subject), asked)]
    elif several:
        rounds = _rounds(protocol_without_data(name, keys, asked, options))
    else:
        rounds = [Attacked("", without_data(name, keys, asked, options), asked)]
    records: list[Any] | None = [_record(text) for text in record] if record else None
    if records is None and not hasattr(rounds[0].target, "schema"):
        records = extremes(schema, max_pairs)
    console = Terminal(stderr=True)
    parts = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
    found: list[Audit] = []
    with Progress(*parts, console=console, transient=True, disable=not console.is_terminal) as progress:
        for one in rounds:
            task = progress.add_task("Starting", total=1.0)
            found.append(
                attack(
                    one.target,
                    epsilon=one.epsilon,
                    records=records,
                    confidence=1 - (1 - confidence) / len(rounds),  # so that all bounds hold together
                    seconds=seconds / len(rounds),
                    progress=partial(_tell, progress, task, one.title),
                )
            )
    whole = _together(name, asked, confidence, found) if several else found[0]
    if json:
        documents = [one.document() for one in found]
        document = whole.document() | ({"rounds": documents} if several else {})
        print(msgspec.json.encode(document).decode())
    else:
        page = Terminal()
        page.print(_table([whole, *found] if several else found))
        page.print(_worst(whole))
    return 1 if any(one.violated for one in found) else 0


class Attacked(NamedTuple):
    """What is attacked, and the epsilon that it may spend."""

    title: str
    target: Any
    epsilon: Fraction


def _rounds(protocol: Protocol) -> list[Attacked]:
    """The rounds of a protocol that differ, each with its own price."""
    rounds = {most_telling(one): one for one in reversed(protocol.longest())}
    return [Attacked(f"Round {one.number}: ", target, one.epsilon) for target, one in reversed(rounds.items())]


def _together(name: str, asked: Fraction, confidence: float, found: list[Audit]) -> Audit:
    """Whoever answers the round that tells most loses at least that."""
    worst = max(found, key=lambda one: one.lower_bound)
    return replace(worst, mechanism=name, requested_epsilon=asked, confidence=confidence)


def _tell(progress: Progress, task: TaskID, title: str, stage: str, share: float) -> None:
    progress.update(task, description=title + stage, completed=share)


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
    for column in ("subject", "asked", "spends at least", "confidence", "verdict"):
        table.add_column(column, overflow="fold")
    for found in audits:
        asked = "" if found.requested_epsilon is None else f"{float(found.requested_epsilon):g}"
        verdict = "PROMISE BROKEN" if found.violated else "not refuted"
        table.add_row(found.mechanism, asked, f"{found.lower_bound:.4f}", f"{found.confidence:g}", verdict)
    return table


def _worst(found: Audit) -> str:
    worst = found.worst
    public = "public bytes of its own" if worst.public is None else f"public bytes {worst.public.hex()}"
    return (
        f"Told apart best, through {worst.way} with {public}:\n"
        f"  {worst.record}: {worst.hits:,} of {worst.draws:,} reports\n"
        f"  {worst.other_record}: {worst.other_hits:,} of {worst.draws:,} reports\n"
        f"have: {worst.event}"
    )
