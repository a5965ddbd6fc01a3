"""``keyveil certify``: the exact epsilon of a mechanism, or of all rounds of a protocol together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.table import Table

from keyveil.campaign.dictionaries import parted
from keyveil.campaign.documents import Campaign
from keyveil.cli.campaign_files import fetch_beside, read_json
from keyveil.cli.data import screen, working
from keyveil.cli.options import Json, KeysOrNames, MaxPairs, Settings, keys_of, names_like, settings, without_data
from keyveil.core.epsilon import log_ceiling
from keyveil.core.errors import EpsilonError, KeyveilError, MechanismError, PrivacyError, SchemaError
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import mechanism_names
from keyveil.privacy.certify import Certificate
from keyveil.privacy.words import worst_pair

if TYPE_CHECKING:
    from keyveil.privacy.shuffled import Shuffled
    from keyveil.protocols.base import Protocol

TITLE = "Exact privacy, rounded up"


def certify(
    mechanism: Annotated[
        str | None, typer.Option("--mechanism", help="A name of the registry, or all.", autocompletion=names_like)
    ] = None,
    epsilon: Annotated[str | None, typer.Option("--epsilon", help="The privacy parameter, an exact decimal.")] = None,
    keys: KeysOrNames = "10",
    max_pairs: MaxPairs = None,
    set: Settings = None,
    campaign: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A campaign's document, instead of mechanism and epsilon.")
    ] = None,
    shuffled: Annotated[
        int | None,
        typer.Option(metavar="N", help="Also the central epsilon of N honest reports in an anonymous channel."),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="With --shuffled: the probability with which the central epsilon may fail.")
    ] = None,
    json: Json = False,
) -> int:
    """Prove the epsilon of a mechanism or protocol, from the integers that its code draws with; status 1 if broken."""
    if campaign is not None:
        return _of_campaign(campaign, mechanism, epsilon, shuffled, delta, json)
    if mechanism is None or epsilon is None:
        raise MechanismError("mechanism/option", "A certificate needs --mechanism and --epsilon, or --campaign FILE.")
    options, everything = settings(set, max_pairs), mechanism == "all"
    if everything and shuffled is not None:
        raise PrivacyError("privacy/shuffled", "Reports of one mechanism are shuffled; --shuffled needs one name.")
    certificates, left_out = [], {}
    for name in mechanism_names() if everything else (mechanism,):
        try:
            made = without_data(name, keys_of(keys), epsilon, options)
            with working(f"Proving {name}"):
                amplified = _shuffled(made, shuffled, delta)
                certificates.append(made.certificate())
        except KeyveilError as refused:
            if not everything or isinstance(refused, EpsilonError | SchemaError | PrivacyError):
                raise
            left_out[name] = refused.sentence
    if not everything:
        return _show(certificates[0], amplified, json)
    if json:
        documents = [certificate.document() for certificate in certificates]
        print(msgspec.json.encode({"certificates": documents, "left_out": left_out}).decode())
    else:
        console = screen()
        console.print(_table(certificates))
        for name, reason in left_out.items():
            console.print(f"{name} is left out: {reason}")
    return 0 if all(certificate.certified for certificate in certificates) else 1


def _show(certificate: Certificate, amplified: Shuffled | None, json: bool) -> int:
    """One certificate, with what shuffling would add if that was asked for."""
    if json:
        beside = {} if amplified is None else {"shuffled": amplified.document()}
        print(msgspec.json.encode({**certificate.document(), **beside}).decode())
    else:
        console = screen()
        console.print(_table([certificate]))
        console.print(_worst(certificate))
        if amplified is not None:
            console.print(amplified.sentence())
    return 0 if certificate.certified else 1


def _of_campaign(
    path: Path, mechanism: str | None, epsilon: str | None, shuffled: int | None, delta: float | None, json: bool
) -> int:
    """The certificate of what a campaign's document asks."""
    if mechanism is not None or epsilon is not None:
        raise MechanismError("mechanism/option", "A campaign's document names its mechanism and epsilon; give either.")
    slim, beside = parted(read_json(path))
    found = Campaign.from_document(slim, fetch_beside(path, None, beside))
    if shuffled is not None and found.recurrence.renew_days is not None:
        raise PrivacyError(
            "privacy/shuffled",
            "Standing reports are one answer sent again and again, so nothing is said about shuffling them.",
        )
    if shuffled is not None and found.enrolment != "none":
        raise PrivacyError(
            "privacy/shuffled",
            "An enrolment token comes with every report of this campaign, so shuffling would not make it anonymous.",
        )
    made = found.protocol.single or found.protocol
    with working(f"Proving {found.name}"):
        amplified, certificate = _shuffled(made, shuffled, delta), made.certificate()
    return _show(certificate, amplified, json)


def _shuffled(made: Mechanism | Protocol, people: int | None, delta: float | None) -> Shuffled | None:
    """What shuffling would add, where it was asked for; refused for more than one round."""
    if people is None and delta is None:
        return None
    if people is None or delta is None:
        raise PrivacyError(
            "privacy/shuffled", "Say how many reports are shuffled and at which delta: --shuffled N --delta D."
        )
    if not isinstance(made, Mechanism):
        raise PrivacyError(
            "privacy/shuffled",
            f"{made.name} has several rounds, which tell more together; shuffling is certified for one round.",
        )
    from keyveil.privacy.shuffled import shuffled

    return shuffled(made, people, delta)


def _table(certificates: list[Certificate]) -> Table:
    """The product over rounds is a bound, unless the enumeration attains it."""
    loose = any(one.at_most for one in certificates)
    title, figure = ("Privacy of all rounds, at most", "epsilon, at most") if loose else (TITLE, "exact epsilon")
    table = Table(title=title, title_justify="left")
    for column in ("mechanism", "epsilon", figure, "kept", "method", "sizes"):
        table.add_column(column, overflow="fold")
    for one in certificates:
        sizes = ", ".join(f"{name} {size}" for name, size in one.sizes.items())
        requested, kept = f"{float(one.requested_epsilon):g}", "yes" if one.certified else "NO"
        table.add_row(one.mechanism, requested, f"{one.exact_epsilon:.12f}", kept, one.method, sizes)
    return table


def _worst(certificate: Certificate) -> str:
    worst, sizes = certificate.worst, ", ".join(f"{name} {size}" for name, size in certificate.worst_sizes.items())
    one, other = worst_pair(certificate)
    report = worst.report.hex() if isinstance(worst.report, bytes) else worst.report
    return (
        f"Enumerated at {sizes}: the report {report} tells a person with {one} from a person with {other} "
        f"best, by a factor of e^{log_ceiling(worst.ratio):.12f}."
    )
