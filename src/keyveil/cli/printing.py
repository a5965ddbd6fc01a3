"""How commands about a collector print what they found: one JSON object, or rows."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.table import Table


def printed(json: bool, document: Any) -> bool:
    """Print one JSON object if ``json`` is set; returns whether it did."""
    if json:
        print(msgspec.json.encode(document).decode())
    return json


def table(title: str, *columns: str) -> Table:
    """A table whose columns are to be filled row by row."""
    rows = Table(title=title, title_justify="left", pad_edge=False)
    for column in columns:
        rows.add_column(column, justify="right" if column in _NUMBERS else "left", no_wrap=True)
    return rows


_NUMBERS = {"round", "rounds", "reports", "counted", "epsilon", "bits", "bytes", "median", "worst", "number"}
