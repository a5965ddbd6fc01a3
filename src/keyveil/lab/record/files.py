"""A record on disk: ``record.parquet`` and ``record.json`` with the same rows, a page, and heat maps of regret.

Every file is written beside its place and then moved there, so that a reader sees the old one or the new one.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

from keyveil.core.errors import KeyveilError
from keyveil.display.figures import write_picture
from keyveil.frames.results import frame_of
from keyveil.lab.record.page import page
from keyveil.lab.record.pictures import heat, ranked_measures
from keyveil.lab.record.runner import FILE
from keyveil.lab.record.table import COLUMNS, SCHEMA, VERSION, Record


def described(record: Record) -> dict[str, Any]:
    """The record as JSON; all but ``machine`` and what was timed follows from the seed."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "keyveil": _version(),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "cells": record.planned,
        "columns": COLUMNS,
        "rows": list(record.rows),
        "refused": list(record.refused),
    }


def write(record: Record, folder: Path, command: str = "") -> list[Path]:
    """Write everything; gives the files."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = [folder / "record.json", folder / "record.parquet", folder / "record.md"]
        _replace(written[0], msgspec.json.format(msgspec.json.encode(described(record))) + b"\n")
        _replace(written[1], _parquet(record))
        drawn: dict[str, str] = {}
        for measure in ranked_measures(record):
            path = folder / f"regret-{measure}.png"
            write_picture(heat(record, measure), path)
            drawn[measure] = path.name
            written.append(path)
        _replace(written[2], page(record, drawn, command).encode())
    except OSError as reason:
        raise KeyveilError(
            FILE, f"The record cannot be written to {folder}: {reason.strerror or reason}; finished cells are kept."
        ) from reason
    return written


def read(path: Path) -> Any:
    """The rows of a ``record.parquet``, as a table of pyarrow; another file is refused."""
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as reason:
        raise KeyveilError(FILE, f"{path} cannot be read as a record: {str(reason).splitlines()[0]}") from reason
    told = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    if told.get("schema") != SCHEMA or int(told.get("version", "0")) > VERSION:
        raise KeyveilError(FILE, f"{path} is not a record of version {VERSION} or older, as compare --record writes.")
    return table


def _parquet(record: Record) -> bytes:
    import pyarrow
    import pyarrow.parquet

    columns: dict[str, Sequence[Any]] = {name: [row[name] for row in record.rows] for name in COLUMNS}
    table = frame_of(dict(columns), "pyarrow").replace_schema_metadata({"schema": SCHEMA, "version": str(VERSION)})
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(table, sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _version() -> str:
    try:
        return version("keyveil")
    except PackageNotFoundError:  # from a clone that is not installed
        return ""


def _replace(path: Path, content: bytes) -> None:
    beside = path.with_name(f".{path.name}.part")
    beside.write_bytes(content)
    beside.replace(path)
