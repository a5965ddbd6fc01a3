"""Finished cells on disk: a line of JSON each, so that a run that was stopped goes on where it was.

Only the main process writes. A line that was cut off when the machine stopped is passed over, and its cell run again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from keyveil.core.errors import KeyveilError

Finished = dict[str, dict[str, Any]]


class Store:
    """The file of finished cells in a folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "cells.jsonl"

    def read(self, wanted: Iterable[str]) -> Finished:
        """The finished ones among the wanted cells, by key."""
        keys = set(wanted)
        found: Finished = {}
        try:
            if not self.path.exists():
                return found
            with self.path.open("rb") as file:
                for line in file:
                    if (done := _decoded(line)) is not None and done["key"] in keys:
                        found[done["key"]] = done
        except OSError as reason:
            raise _unusable("read", self.path, reason) from reason
        return found

    def add(self, done: dict[str, Any]) -> None:
        """Write one finished cell; it is on disk when this returns."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                if file.tell() and not _ends_a_line(self.path):
                    file.write(b"\n")
                file.write(msgspec.json.encode(done) + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as reason:
            raise _unusable("written", self.path, reason) from reason


def _decoded(line: bytes) -> dict[str, Any] | None:
    try:
        done = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return None
    return done if isinstance(done, dict) and {"key", "values", "seconds"} <= done.keys() else None


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _unusable(what: str, path: Path, reason: OSError) -> KeyveilError:
    return KeyveilError(
        "reproduce/file",
        f"The file {path} cannot be {what}: {reason.strerror or reason}; cells that were finished before are kept.",
    )
