"""``keyveil certify``: the exact epsilon of a mechanism."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from keyveil.cli.options import Epsilon, Json, Keys, MaxPairs, Settings, settings
from keyveil.core.epsilon import log_ceiling
from keyveil.core.schema import GRID, Schema
from keyveil.mechanisms.registry import create, names
from keyveil.privacy.certify import Certificate, Pairs


def certify(
    mechanism: Annotated[str, typer.Option("--mechanism", help="A name of the registry, or all.")],
    epsilon: Epsilon,
    keys: Keys = 10,
    max_pairs: MaxPairs = None,
    set: Settings = None,
    json: Json = False,
) -> int:
    """Prove the epsilon of a mechanism, from the integers that its sampler runs on; status 1 if it is exceeded."""
    schema, options = Schema(keys=keys), settings(set, max_pairs)
    wanted = names() if mechanism == "all" else (mechanism,)
    certificates = [create(name, schema, epsilon, **options).certificate() for name in wanted]
    if json:
        documents = [certificate.document() for certificate in certificates]
        print(msgspec.json.encode(documents[0] if mechanism != "all" else {"certificates": documents}).decode())
    else:
        console = Console()
        console.print(_table(certificates))
        if mechanism != "all":
            console.print(_worst(certificates[0]))
    return 0 if all(certificate.certified for certificate in certificates) else 1


def _table(certificates: list[Certificate]) -> Table:
    table = Table(title="Exact privacy, rounded up", title_justify="left")
    for column in ("mechanism", "asked", "exact epsilon", "kept", "method", "sizes"):
        table.add_column(column, overflow="fold")
    for one in certificates:
        sizes = ", ".join(f"{name} {size}" for name, size in one.sizes.items())
        asked, kept = f"{float(one.requested_epsilon):g}", "yes" if one.certified else "NO"
        table.add_row(one.mechanism, asked, f"{one.exact_epsilon:.12f}", kept, one.method, sizes)
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
