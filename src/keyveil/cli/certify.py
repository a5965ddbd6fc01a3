"""``keyveil certify``: the exact epsilon of a mechanism."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from keyveil.cli.options import Epsilon, Json, Keys, MaxPairs, Settings, settings
from keyveil.core.schema import Schema
from keyveil.mechanisms.registry import create, names
from keyveil.privacy.certify import Certificate


def certify(
    mechanism: Annotated[str, typer.Option("--mechanism", help="A name of the registry, or all.")],
    epsilon: Epsilon,
    keys: Keys = 10,
    max_pairs: MaxPairs = None,
    set: Settings = None,
    json: Json = False,
) -> int:
    """Prove the epsilon of a mechanism: exact, from the integers that its sampler runs on; status 1 if it is exceeded."""
    schema, options = Schema(keys=keys), settings(set, max_pairs)
    wanted = names() if mechanism == "all" else (mechanism,)
    certificates = [create(name, schema, epsilon, **options).certificate() for name in wanted]
    if json:
        documents = [certificate.document() for certificate in certificates]
        print(msgspec.json.encode(documents[0] if mechanism != "all" else {"certificates": documents}).decode())
    else:
        Console().print(_table(certificates))
    return 0 if all(certificate.certified for certificate in certificates) else 1


def _table(certificates: list[Certificate]) -> Table:
    table = Table(title="Exact privacy, rounded up", title_justify="left")
    for column in ("mechanism", "asked", "exact epsilon", "certified", "method", "sizes", "worst pair of records", "report"):
        table.add_column(column, overflow="fold")
    for one in certificates:
        document = one.document()
        sizes = ", ".join(f"{name} {size}" for name, size in one.sizes.items())
        worst = document["worst"]
        table.add_row(
            one.mechanism,
            f"{float(one.requested_epsilon):g}",
            f"{one.exact_epsilon:.12f}",
            "yes" if one.certified else "NO",
            one.method,
            sizes,
            f"{_record(worst['record'])} against {_record(worst['other_record'])}",
            str(worst["report"]),
        )
    return table


def _record(pairs: list[list[int]]) -> str:
    from keyveil.core.schema import GRID

    return "{" + ", ".join(f"{key}: {value / GRID:g}" for key, value in pairs) + "}"
