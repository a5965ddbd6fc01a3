"""Reports in files become the tally of one round on this machine: streamed block by block, in bounded memory.

A file is Parquet with the columns ``id`` (16 bytes), ``payload`` (bytes, padded as they were sent) and ``round``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from keyveil.campaign.reading import tally_of
from keyveil.campaign.rounds import RoundDocument
from keyveil.core.codecs.payloads import Payloads, refusal
from keyveil.core.errors import KeyveilError, ReportError
from keyveil.core.report import PUBLIC_BYTES
from keyveil.core.tally import Tally
from keyveil.mechanisms.parting import EVERYONE, parting_words

if TYPE_CHECKING:
    import pyarrow

_AT_ONCE = 1 << 16  # reports
_COLUMNS = ("id", "payload", "round")

Ids = NDArray[np.uint8]


def count(path: Path, document: RoundDocument, progress: Callable[[int], None] | None = None) -> Tally:
    """The tally of a file of reports; refused as a whole if one of them is malformed, misplaced or there twice.

    ``progress`` hears after every block how many reports it had.
    """
    file = _opened(path)
    refuse_twice(path)
    mechanism = document.mechanism
    total = Tally.empty(mechanism.fingerprint, mechanism.tally_shape)
    for block in _blocks(file, path, *_COLUMNS):
        total = total + _fold(block, document, total.reports)
        if progress is not None:
            progress(len(block))
    return total


def reports_in(path: Path) -> int:
    """How many reports a file has, before any of them is read."""
    rows: int = _opened(path).metadata.num_rows
    return rows


def _fold(block: pyarrow.RecordBatch, document: RoundDocument, before: int) -> Tally:
    """The tally of a block of reports, of which so many came before."""
    if block.column("round").null_count:
        raise ReportError("report/round", "Every report of the file says which round it belongs to.")
    numbers, payloads = block.column("round").to_numpy(zero_copy_only=False), block.column("payload").to_pylist()
    if len(strange := np.flatnonzero(numbers != document.number)):
        found = int(numbers[strange[0]])
        raise _refused("round", before + int(strange[0]), f"belongs to round {found}, not {document.number}")
    ids = _ids(block)
    if document.part != EVERYONE:
        words = parting_words(ids, bytes.fromhex(document.campaign))
        if len(strange := np.flatnonzero(~document.part.members(words))):
            raise _refused("part", before + int(strange[0]), "is of somebody whom this round does not ask")
    if None in payloads:
        raise _refused(
            "scrubbed", before + payloads.index(None), "was scrubbed: it was counted, and its payload is gone"
        )
    tally, flaws = tally_of(document, ids, Payloads.of(payloads))
    if len(bad := np.flatnonzero(flaws)):
        why = refusal(int(flaws[bad[0]]))
        kind, sentence = why.code.partition("/")[2], why.sentence.rstrip(".")
        raise _refused(kind, before + int(bad[0]), f"is refused: {sentence}")
    return tally


def refuse_twice(path: Path) -> None:
    """Nobody counts twice. Exports are sorted by id, and then one pass tells; otherwise ids go to drawers on disk."""
    if _rising(path):
        return
    with tempfile.TemporaryDirectory() as folder:
        for ids in _every_id(path):
            for drawer in np.unique(ids[:, 0]).tolist():
                with open(Path(folder) / f"{drawer:02x}", "ab") as file:
                    file.write(ids[ids[:, 0] == drawer].tobytes())
        for drawer_path in Path(folder).iterdir():
            ids = np.fromfile(drawer_path, np.uint8).reshape(-1, PUBLIC_BYTES)
            high, low = _halves(ids)
            order = np.lexsort((low, high))
            twice = np.flatnonzero((np.diff(high[order]) == 0) & (np.diff(low[order]) == 0))
            if len(twice):
                raise ReportError("report/twice", f"The report {ids[order[twice[0]]].tobytes().hex()} is there twice.")


def _rising(path: Path) -> bool:
    """Whether every id is larger than the one before it."""
    last = b""
    for ids in _every_id(path):
        high, low = _halves(ids)
        rising = (high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] > low[:-1]))
        if not last < ids[0].tobytes() or not rising.all():
            return False
        last = ids[-1].tobytes()
    return True


def _halves(ids: Ids) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Ids as two numbers each; NumPy has none of 128 bits."""
    words = np.ascontiguousarray(ids).view(">u8").astype(np.uint64)
    return words[:, 0], words[:, 1]


def _every_id(path: Path) -> Iterator[Ids]:
    for block in _blocks(_opened(path), path, "id"):
        if len(block):
            yield _ids(block)


def _blocks(file: Any, path: Path, *columns: str) -> Iterator[pyarrow.RecordBatch]:
    """The rows of a file, some at a time; a file whose inside is damaged is refused when that is met."""
    import pyarrow

    try:
        yield from file.iter_batches(batch_size=_AT_ONCE, columns=list(columns))
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError):
        raise KeyveilError("input/parquet", f"{path} is a damaged Parquet file.") from None


def _ids(block: pyarrow.RecordBatch) -> Ids:
    ids = block.column("id").to_pylist()
    if any(one is None or len(one) != PUBLIC_BYTES for one in ids):
        raise ReportError("report/public", f"Every report has an id of {PUBLIC_BYTES} bytes.")
    return np.frombuffer(b"".join(ids), np.uint8).reshape(-1, PUBLIC_BYTES)


def _opened(path: Path) -> Any:
    import pyarrow
    import pyarrow.parquet as parquet

    try:
        file = parquet.ParquetFile(path)
        fields = list(file.schema_arrow)
    except FileNotFoundError:
        raise KeyveilError("input/file", f"There is no file {path}.") from None
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError):
        raise KeyveilError("input/parquet", f"{path} is not a Parquet file.") from None
    kinds = {field.name: field.type for field in fields}
    if len(kinds) < len(fields):
        raise KeyveilError("input/parquet", f"{path} has two columns of one name.")
    binary = {name for name in ("id", "payload") if name in kinds and _is_binary(kinds[name])}
    if binary != {"id", "payload"} or not pyarrow.types.is_integer(kinds.get("round", pyarrow.null())):
        raise KeyveilError(
            "input/parquet", f"{path.name} does not hold reports: id and payload (bytes) and round (a number)."
        )
    return file


def _is_binary(kind: pyarrow.DataType) -> bool:
    import pyarrow

    types = pyarrow.types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))


def _refused(code: str, row: int, what: str) -> ReportError:
    return ReportError(f"report/{code}", f"Report {row + 1:,} of the file {what}.")
