"""Where a device's file lies: a mark beside it that backups leave out, by which the file notices that it was copied.

The mark is in a folder of its own that carries ``CACHEDIR.TAG``, the sign by which backup programs recognise what they
need not keep. It says which file it belongs to and how many changes that file has seen. A file that is restored from a
backup meets a mark that is ahead of it; a file that was copied meets no mark, or one of another file. A copy of a whole
disk takes everything with it and cannot be noticed.
"""

from __future__ import annotations

import os
from dataclasses import astuple, dataclass
from pathlib import Path

import msgspec

_TAG = """Signature: 8a477f597d28d172789f06886806bc55
# What lies here belongs to this place alone. A restored copy of the device's file notices that it is missing or ahead.
"""


@dataclass(frozen=True)
class Mark:
    """What is written beside the file."""

    device: str  # a keyed hash of nothing under the device's secret: whose mark it is
    file: int  # the number by which the file system knows the file
    changes: int  # reports drawn and consents withdrawn, ever


class Place:
    """The folder beside a device's file."""

    def __init__(self, path: Path) -> None:
        self._file, self._folder = path, path.with_name(f"{path.name}.place")

    def number(self) -> int:
        """The number by which the file system knows the file; a copy has another one."""
        return self._file.stat().st_ino

    def read(self) -> Mark | None:
        """The mark, if there is one that can be read."""
        try:
            return Mark(*msgspec.json.decode((self._folder / "mark").read_bytes(), type=tuple[str, int, int]))
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def write(self, mark: Mark) -> None:
        """Replace the mark as a whole: a crash leaves the old one or the new one."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        tag, draft = self._folder / "CACHEDIR.TAG", self._folder / f"mark.{os.getpid()}"
        if not tag.exists():
            tag.write_text(_TAG, encoding="ascii")
        handle = os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        try:
            os.write(handle, msgspec.json.encode(astuple(mark)))
            os.fsync(handle)
        finally:
            os.close(handle)
        draft.replace(self._folder / "mark")
