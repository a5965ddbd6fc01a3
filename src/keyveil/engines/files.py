"""Files of encoded reports: Parquet or Arrow with the columns ``id`` (16 bytes) and ``payload`` (as it was sent).

What campaign and round they belong to stands in the metadata of the schema, where whoever wrote them kept it: exports
of a collector have it, files of other programs often lose it, and then the documents that are given are believed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from keyveil.campaign.report_schema import CAMPAIGN, ROUND, marks
from keyveil.campaign.rounds import RoundDocument
from keyveil.core.codecs.payloads import Payloads
from keyveil.core.errors import KeyveilError, ReportError
from keyveil.core.extras import extra
from keyveil.core.report import PUBLIC_BYTES
from keyveil.engines.fold import FlawedReport, Ids, columns

if TYPE_CHECKING:
    import pyarrow

ENDINGS = {".parquet": "Parquet", ".arrow": "Arrow", ".feather": "Arrow"}
_AT_ONCE = 1 << 16  # reports
_READ = 1 << 18  # bytes of a column that are read at once
_ELSEWHERE = {CAMPAIGN: ("report/campaign", "campaign"), ROUND: ("report/round", "round")}


@dataclass(frozen=True, eq=False)
class Block:
    """Some reports, and where each of them stands: in which of several files, in which row."""

    ids: Ids
    payloads: Payloads
    files: NDArray[np.int32]
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, chosen: Any) -> Block:
        return Block(self.ids[chosen], self.payloads[chosen], self.files[chosen], self.rows[chosen])

    @property
    def order(self) -> NDArray[np.bytes_]:
        """The ids in a form that NumPy compares byte by byte."""
        return np.ascontiguousarray(self.ids).view(f"S{PUBLIC_BYTES}")[:, 0]

    @staticmethod
    def together(blocks: Sequence[Block]) -> Block:
        if len(blocks) == 1:
            return blocks[0]
        held = [block.payloads.trimmed() for block in blocks]
        shifts = np.cumsum([0, *(len(one.data) for one in held)])
        payloads = Payloads(
            np.concatenate([one.data for one in held]),
            np.concatenate([one.starts + shift for one, shift in zip(held, shifts, strict=False)]),
            np.concatenate([one.stops + shift for one, shift in zip(held, shifts, strict=False)]),
        )
        ids, files, rows = (np.concatenate([getattr(one, name) for one in blocks]) for name in ("ids", "files", "rows"))
        return Block(ids, payloads, files, rows)


@dataclass(frozen=True)
class ReportFiles:
    """Files that hold the reports of one round."""

    paths: tuple[Path, ...]
    sizes: tuple[int, ...]  # reports in each

    @property
    def reports(self) -> int:
        return sum(self.sizes)

    @classmethod
    def at(cls, path: Path, document: RoundDocument) -> ReportFiles:
        """A file, or all files below a folder; refused if one of them says that it belongs elsewhere."""
        with extra("local", "Files of reports"):
            import pyarrow  # noqa: F401
        if not path.exists():
            raise KeyveilError("input/file", f"There is no file {path}.")
        paths = tuple(sorted(_below(path))) if path.is_dir() else (path,)
        if not paths:
            raise KeyveilError("input/file", f"The folder {path} holds no Parquet or Arrow files.")
        return cls(paths, tuple(_checked(one, document) for one in paths))

    def blocks(self, number: int, at_most: int = _AT_ONCE) -> Iterator[Block]:
        """The reports of one file in the order of its rows, so many at once."""
        path, row = self.paths[number], 0
        with _damaged(path):
            for batch in _batches(path, min(at_most, _AT_ONCE)):
                try:
                    ids, payloads = columns(batch)
                except FlawedReport as flaw:
                    raise flaw.at(self.place(number, row + flaw.row)) from None
                rows = np.arange(row, row + len(batch))
                yield Block(ids, payloads, np.full(len(batch), number, dtype=np.int32), rows)
                row += len(batch)

    def place(self, file: int, row: int) -> str:
        """How a report is found again."""
        return f"Report {row + 1:,} of {self.paths[file].name}"


def _below(folder: Path) -> Iterator[Path]:
    """The files of reports in a folder; Spark's marks, hidden files and documents beside reports are none."""
    for path in folder.rglob("*"):
        if path.is_dir() or path.name.startswith(("_", ".")) or path.suffix == ".json":
            continue
        if path.suffix not in ENDINGS:
            raise KeyveilError("input/folder", f"{path} is in the folder of reports and is no Parquet or Arrow file.")
        yield path


def _checked(path: Path, document: RoundDocument) -> int:
    """How many reports a file has, before any of them is read."""
    schema, reports = _opened(path)
    kinds = {field.name: field.type for field in schema}
    if len(kinds) < len(schema):
        raise KeyveilError("input/parquet", f"{path} has two columns of one name.")
    if not all(name in kinds and _is_binary(kinds[name]) for name in ("id", "payload")):
        raise KeyveilError("input/parquet", f"{path.name} does not hold reports: id and payload, both bytes.")
    said = schema.metadata or {}
    for mark, own in marks(document).items():
        if said.get(mark, own) != own:
            code, what = _ELSEWHERE[mark]
            raise ReportError(code, f"{path.name} holds reports of another {what}.")
    return reports


def _opened(path: Path) -> tuple[pyarrow.Schema, int]:
    import pyarrow
    import pyarrow.parquet as parquet

    if ENDINGS.get(path.suffix) == "Arrow":
        with _damaged(path), pyarrow.memory_map(str(path)) as file:
            reader = pyarrow.ipc.open_file(file)
            return reader.schema, sum(reader.get_batch(number).num_rows for number in range(reader.num_record_batches))
    with _damaged(path, "is not a Parquet file, or not all of one"), parquet.ParquetFile(path) as file:
        return file.schema_arrow, file.metadata.num_rows


def _batches(path: Path, size: int) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow
    import pyarrow.parquet as parquet

    wanted = ["id", "payload"]
    if ENDINGS.get(path.suffix) == "Arrow":
        with pyarrow.memory_map(str(path)) as file:
            reader = pyarrow.ipc.open_file(file)
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number).select(wanted)
                for start in range(0, len(batch), size):
                    yield batch.slice(start, size)
        return
    # A piece of a row group at a time: with many files open at once, whole row groups would take gigabytes.
    with parquet.ParquetFile(path, pre_buffer=False, buffer_size=_READ, page_checksum_verification=True) as file:
        yield from file.iter_batches(batch_size=size, columns=wanted)


@contextmanager
def _damaged(path: Path, what: str = "is a damaged file of reports") -> Iterator[None]:
    """What the reader of a format says becomes one sentence."""
    import pyarrow

    try:
        yield
    except FileNotFoundError:
        raise KeyveilError("input/file", f"There is no file {path}.") from None
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError):
        raise KeyveilError("input/parquet", f"{path} {what}.") from None


def _is_binary(kind: pyarrow.DataType) -> bool:
    import pyarrow

    types = pyarrow.types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))
