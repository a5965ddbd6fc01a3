"""What a run has counted so far, on disk: a tally and the last id in it, for the same files and the same round."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from keyveil.campaign.rounds import RoundDocument
from keyveil.core.errors import KeyveilError, TallyError
from keyveil.core.tally import Tally
from keyveil.engines.files import ReportFiles


@dataclass(frozen=True)
class Done:
    """The tally of all reports up to an id."""

    tally: Tally
    last: bytes = b""
    merged: bool = True  # counted while all files seemed sorted: a row that is not makes it worthless


class _Note(msgspec.Struct, frozen=True):
    work: bytes
    last: bytes
    tally: bytes
    merged: bool


@dataclass(frozen=True)
class Checkpoint:
    """A file that holds what is done; whatever does not fit to these files and this round is not used."""

    path: Path
    work: bytes  # hash of what is counted

    @classmethod
    def of(cls, path: Path, files: ReportFiles, document: RoundDocument) -> Checkpoint:
        states = [(str(one), one.stat().st_size, one.stat().st_mtime_ns) for one in files.paths]
        return cls(path, hashlib.sha256(msgspec.msgpack.encode([document.hash, states])).digest())

    def read(self, empty: Tally) -> Done:
        """What an earlier run has done; nothing if there was none, or it counted something else."""
        try:
            note = msgspec.msgpack.decode(self.path.read_bytes(), type=_Note)
            tally = Tally.from_bytes(note.tally)
        except (OSError, msgspec.MsgspecError, TallyError):
            return Done(empty)
        return Done(tally, note.last, note.merged) if note.work == self.work else Done(empty)

    def write(self, done: Done) -> None:
        """Replace the file as a whole: it is never half written and, like a tally, for its owner only."""
        part = Path(f"{self.path}.new")
        try:
            part.unlink(missing_ok=True)
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(msgspec.msgpack.encode(_Note(self.work, done.last, done.tally.to_bytes(), done.merged)))
            os.replace(part, self.path)
        except OSError as reason:
            raise KeyveilError("output/file", f"{self.path} cannot be written: {reason.strerror}.") from reason

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)
