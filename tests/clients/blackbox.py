"""The JavaScript client behind a pipe: a subject for audits, and for counting what it draws."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import create_round

HERE = Path(__file__).parent
CLIENT = HERE.parents[1] / "clients" / "javascript"

Record = Mapping[str, float]


@dataclass(frozen=True)
class BlackBox:
    """A mechanism of the client in a Node process; ``perturb`` is what ``keyveil.privacy.audit`` calls."""

    process: subprocess.Popen[bytes]
    mechanism: Mechanism  # the same one in Python, which draws nothing here
    records: Sequence[Record]
    size: int

    @property
    def name(self) -> str:
        return f"{self.mechanism.name} in Node"

    def perturb(self, record: Record, public: bytes | None = None) -> tuple[bytes, bytes]:
        """One report: its id and its payload, as they would be sent."""
        return self.drawn(record, 1, public)[0]

    def drawn(self, record: Record, count: int, public: bytes | None = None) -> list[tuple[bytes, bytes]]:
        place = self.records.index(record)
        self._write(struct.pack("<BIB16s", place, count, public is not None, public or bytes(16)))
        whole = self._read(count * (16 + self.size))
        rows = (whole[at : at + 16 + self.size] for at in range(0, len(whole), 16 + self.size))
        return [(row[:16], row[16:]) for row in rows]

    def counts(self, record: Record, count: int, public: bytes) -> Counter[bytes]:
        """How often each payload came at one id."""
        return Counter(payload for _, payload in self.drawn(record, count, public))

    def _write(self, request: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(request)
        self.process.stdin.flush()

    def _read(self, size: int) -> bytes:
        assert self.process.stdout is not None and self.process.stderr is not None
        answer = self.process.stdout.read(size)
        assert len(answer) == size, self.process.stderr.read().decode()
        return answer


@contextmanager
def black_box(
    mechanism: Mechanism, schema: dict[str, Any], records: Sequence[Record], seed: str, client: Path = CLIENT
) -> Iterator[BlackBox]:
    """The client's form of a mechanism, in a process of its own."""
    document = mechanism.document()
    question = {
        "mechanism": mechanism.name,
        "schema": schema,
        "epsilon": document["epsilon"],
        "options": mechanism.options,
        "records": records,
        "seed": seed,
    }
    process = subprocess.Popen(
        ["node", HERE / "drawing.mjs", client, json.dumps(question)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        try:
            yield BlackBox(process, mechanism, records, mechanism.codec.longest + mechanism.codec.varies)
        finally:
            process.kill()


def made(name: str, schema: dict[str, Any], epsilon: str, **options: Any) -> Mechanism:
    return create_round(name, Schema.from_document(schema), epsilon, **options)


def spoilt(folder: Path, before: str, after: str) -> Path:
    """A copy of the client in which something stands otherwise, at the one place where it stands."""
    copy = folder / "client"
    shutil.copytree(CLIENT, copy, dirs_exist_ok=True)
    (path,) = holding(copy, before)
    path.write_text(path.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")
    return copy


def holding(client: Path, text: str) -> list[Path]:
    """The files of a client that have a text, once for each time."""
    files = sorted(client.glob("src/**/*.js"))
    return [file for file in files for _ in range(file.read_text(encoding="utf-8").count(text))]
