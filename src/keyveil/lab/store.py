"""Finished cells on disk: a line of JSON each, so that a run that was stopped goes on where it was.

Only the main process writes. A line that was cut off when the machine stopped, or that was damaged since, is passed
over, and its cell run again; ``damaged`` says how many there were.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from keyveil.core.errors import KeyveilError

Finished = dict[str, dict[str, Any]]

_SUM = "crc32"  # of the other fields of a line; lines without one come from before there was one


class Store:
    """The file of finished cells in a folder; ``code`` is that of its errors."""

    def __init__(self, folder: Path, code: str = "reproduce/file") -> None:
        self.path, self._code = folder / "cells.jsonl", code
        self.damaged = 0  # lines that the last reading passed over

    def read(self, wanted: Iterable[str]) -> Finished:
        """The finished ones among the wanted cells, by key."""
        keys = set(wanted)
        found: Finished = {}
        self.damaged = 0
        try:
            if not self.path.exists():
                return found
            with self.path.open("rb") as file:
                for line in file:
                    done = _decoded(line)
                    if done is None:
                        self.damaged += bool(line.strip())
                    elif done["key"] in keys:
                        found[done["key"]] = done
        except OSError as reason:
            raise self._unusable("read", reason) from reason
        return found

    def add(self, done: dict[str, Any]) -> None:
        """Write one finished cell; it is on disk when this returns."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                if file.tell() and not _ends_a_line(self.path):
                    file.write(b"\n")
                file.write(msgspec.json.encode(done | {_SUM: _summed(done)}) + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as reason:
            raise self._unusable("written", reason) from reason

    def _unusable(self, what: str, reason: OSError) -> KeyveilError:
        return KeyveilError(
            self._code,
            f"The file {self.path} cannot be {what}: {reason.strerror or reason}; cells that were finished before are "
            "kept.",
        )


def _decoded(line: bytes) -> dict[str, Any] | None:
    try:
        done = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not isinstance(done, dict) or not {"key", "values", "seconds"} <= done.keys():
        return None
    told = done.pop(_SUM, None)
    return done if told is None or told == _summed(done) else None


def _summed(done: dict[str, Any]) -> int:
    return crc32(msgspec.json.encode(done, order="deterministic"))


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
