"""``keyveil certify``: the exact epsilon of a mechanism, or of all rounds of a protocol together."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.table import Table

from keyveil.cli.data import screen
from keyveil.cli.options import Epsilon, Json, KeysOrNames, MaxPairs, Settings, keys_of, settings, without_data
from keyveil.core.epsilon import log_ceiling
from keyveil.core.errors import EpsilonError, KeyveilError, PrivacyError, SchemaError
from keyveil.core.schema import GRID
from keyveil.mechanisms.registry import mechanism_names
from keyveil.privacy.certify import Certificate, Pairs

TITLE = "Exact privacy, rounded up"


def certify(
    mechanism: Annotated[str, typer.Option("--mechanism", help="A name of the registry, or all.")],
    epsilon: Epsilon,
    keys: KeysOrNames = "10",
    max_pairs: MaxPairs = None,
    set: Settings = None,
    json: Json = False,
) -> int:
    """Prove the epsilon of a mechanism or protocol, from the integers that its code draws with; status 1 if broken."""
    options, everything = settings(set, max_pairs), mechanism == "all"
    certificates, left_out = [], {}
    for name in mechanism_names() if everything else (mechanism,):
        try:
            certificates.append(without_data(name, keys_of(keys), epsilon, options).certificate())
        except KeyveilError as refused:
            if not everything or isinstance(refused, EpsilonError | SchemaError | PrivacyError):
                raise
            left_out[name] = refused.sentence
    if json:
        documents = [certificate.document() for certificate in certificates]
        whole = {"certificates": documents, "left_out": left_out}
        print(msgspec.json.encode(whole if everything else documents[0]).decode())
    else:
        console = screen()
        console.print(_table(certificates))
        if not everything:
            console.print(_worst(certificates[0]))
        for name, reason in left_out.items():
            console.print(f"{name} is left out: {reason}")
    return 0 if all(certificate.certified for certificate in certificates) else 1


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
    report = worst.report.hex() if isinstance(worst.report, bytes) else worst.report
    return (
        f"Enumerated at {sizes}: the report {report} tells {_record(worst.likely)} from {_record(worst.unlikely)} "
        f"best, by a factor of e^{log_ceiling(worst.ratio):.12f}."
    )


def _record(pairs: Pairs) -> str:
    return "{" + ", ".join(f"{key}: {value / GRID:g}" for key, value in pairs) + "}"
