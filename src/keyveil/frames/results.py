"""Estimates as data frames, and estimates read back from their documents."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np

from keyveil.core.attacked import Attacked
from keyveil.core.discovery import DECISIONS
from keyveil.core.epsilon import read_fraction
from keyveil.core.errors import MechanismError, MissingExtra
from keyveil.core.estimates import FLAGS, OPTIONAL, Backend, Column, Estimates, Header, read_numbers, unreadable
from keyveil.core.extras import extra
from keyveil.core.rendering import look
from keyveil.core.schema import Schema
from keyveil.core.undercount import Undercount
from keyveil.frames.truth import Truth

AS_OF = ("as_of_first", "as_of_last")  # the first and the last day on which the reports can have been drawn
Days = tuple[date | None, date | None]


def frame_of(columns: dict[str, Any], backend: Backend) -> Any:
    """A frame of pandas, polars or pyarrow; NaN becomes a missing value."""
    if backend == "pandas":
        with extra("local", "Frames of pandas"):
            import pandas
        return pandas.DataFrame(columns)
    if backend == "polars":
        try:
            import polars
        except ModuleNotFoundError as missing:  # no extra brings it: it is for those who have it already
            raise MissingExtra("install/polars", "Frames of polars need polars: pip install polars.") from missing
        return polars.DataFrame(columns, nan_to_null=True)
    if backend == "pyarrow":
        with extra("local", "Frames of pyarrow"):
            import pyarrow
        return pyarrow.table({name: pyarrow.array(cells, from_pandas=True) for name, cells in columns.items()})
    raise MechanismError("estimate/backend", f"Frames come from pandas, polars or pyarrow, not {backend!r}.")


def csv_of(estimates: Estimates, days: Days = (None, None)) -> str:
    """The rows as CSV with a header, and in each of them the days of which they speak; what is unknown is empty."""
    rows, text = [{**row, **dict(zip(AS_OF, days, strict=True))} for row in estimates.rows()], io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def arrow_of(estimates: Estimates, days: Days = (None, None)) -> Any:
    """The same as a table of pyarrow, the days as dates; files have all columns, also those that are empty."""
    table = estimates.to_frame("pyarrow", empty=True)
    import pyarrow

    for name, day in zip(AS_OF, days, strict=True):
        table = table.append_column(name, pyarrow.array([day] * table.num_rows, pyarrow.date32()))
    return table


def read_estimates(document: Any, schema: Schema | None = None) -> Estimates:
    """The estimates that ``Estimates.document`` wrote down; the schema is that of the document unless it is given."""
    try:
        schema = schema or Schema.from_document(document["schema"])
        if [row["key"] for row in document["estimates"]] != list(schema.keys):
            raise unreadable("they are about other keys than their schema")
        options = (document[name] for name in ("confidence", "population", "options"))
        header = Header(schema, document["mechanism"], read_fraction(document["epsilon"]), document["n"], *options)
        header = replace(header, decision=document.get("decision", "per-key"))  # older documents do not say it
        if document.get("undercount") is not None:
            header = replace(header, undercount=Undercount.from_document(document["undercount"]))
        if document.get("approximate"):
            header = replace(header, approximate=True)
        if header.decision not in DECISIONS:
            raise unreadable(f"keys are not told from absent by {header.decision!r}")
        found = from_exact(header, document["exact"])
        if document.get("attacked") is not None:
            found = replace(found, attacked=Attacked.from_document(document["attacked"], schema))
        return look("estimates.processed")(found, document) if "postprocess" in document else found
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as reason:
        raise unreadable(f"{type(reason).__name__} at {reason}") from reason


def from_exact(header: Header, numbers: Any) -> Estimates:
    """The estimates under a header whose numbers ``Estimates.exact`` wrote down."""
    schema, truth, alone = header.schema, numbers.get("truth"), numbers.get("mean_alone")
    return Estimates(
        header=header,
        respondents=np.array(numbers["respondents"], dtype=np.int64),
        frequency=Column.from_document(numbers["frequency"], schema, scaled=False),
        mean=Column.from_document(numbers["mean"], schema, scaled=True),
        alone=None if alone is None else np.array([FLAGS.index(name) for name in alone], dtype=np.int8),
        truth=None if truth is None else Truth.from_document(truth, schema),
        attacked=None,
        **{name: read_numbers(numbers[name]) for name in OPTIONAL if name in numbers},
    )
