"""``keyveil tally``: from reports on disk to the tally of one round, in bounded memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
import typer
from numpy.typing import NDArray

from keyveil.campaign.documents import Campaign, dictionary_of
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import unpad
from keyveil.cli.campaign_files import beside, fetch_beside, parted, read_json
from keyveil.cli.data import many, progress_bar, screen
from keyveil.cli.estimate import write_tally
from keyveil.cli.options import Json
from keyveil.core.errors import CampaignError, KeyveilError, MechanismError, ReportError
from keyveil.core.report import PUBLIC_BYTES
from keyveil.core.tally import Tally
from keyveil.protocols.base import EVERYONE, parting_words
from keyveil.protocols.one_round import OneRound

if TYPE_CHECKING:
    import pyarrow

ENGINES = ("local",)

_AT_ONCE = 1 << 16  # reports
_COLUMNS = ("id", "payload", "round")

Ids = NDArray[np.uint8]


def tally(
    reports: Annotated[Path, typer.Argument(metavar="REPORTS", help="Reports (.parquet), as campaign export writes.")],
    campaign: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The campaign's document; REPORTS.json unless given.")
    ] = None,
    round_document: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The round's document, where a campaign has several rounds.")
    ] = None,
    keys_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="The list of keys that lies beside the campaign's document.",
        ),
    ] = None,
    engine: Annotated[str, typer.Option(help="Where the work is done: local.")] = "local",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The tally; REPORTS.tally unless given.")] = None,
    json: Json = False,
) -> int:
    """Count the reports of one round on disk; keyveil estimate reads what is written."""
    if engine not in ENGINES:
        known = "not installed yet" if engine == "spark" else "not known"
        raise MechanismError("engine/unknown", f"The engine {engine} is {known}; use {' or '.join(ENGINES)}.")
    if not reports.is_file():
        raise KeyveilError("input/file", f"There is no file {reports}.")
    asked, min_reports = read_round(campaign or beside(reports), round_document, keys_file)
    counted = count(reports, asked)
    target = out or reports.with_suffix(".tally")
    write_tally(target, asked.mechanism, counted, min_reports)
    if json:
        document = {
            "campaign": asked.campaign,
            "round": asked.number,
            "mechanism": asked.mechanism.name,
            "reports": counted.reports,
            "written": [str(target), str(beside(target))],
        }
        print(msgspec.json.encode(document).decode())
    else:
        screen().print(f"{many(counted.reports, 'report')} of {asked.mechanism.name} counted.")
    return 0


def read_round(path: Path, round_document: Path | None, keys_file: Path | None) -> tuple[RoundDocument, int]:
    """The round of the reports, from the documents beside them or those given, and its campaign's ``min_reports``."""
    document = read_json(path)
    around = document if isinstance(document, dict) and "campaign" in document else {"campaign": document}
    slim, beside = parted(around["campaign"])
    if around.get("dictionary") is not None:
        beside = dictionary_of(around["dictionary"])
    campaign = Campaign.from_document(slim, fetch_beside(path, keys_file, beside))
    if round_document is not None:
        return RoundDocument.from_document(read_json(round_document), campaign), campaign.min_reports
    if around.get("round") is not None:
        return RoundDocument.from_document(around["round"], campaign), campaign.min_reports
    if not isinstance(campaign.protocol, OneRound):
        raise CampaignError(
            "campaign/round", f"{campaign.asked} asks several rounds: say which one with --round-document."
        )
    only = campaign.protocol.next_round([])
    assert only is not None
    return RoundDocument.of(campaign, only), campaign.min_reports


def count(path: Path, asked: RoundDocument) -> Tally:
    """The tally of a file of reports; refused as a whole if one of them is malformed, misplaced or there twice."""
    file = _opened(path)
    refuse_twice(path)
    mechanism = asked.mechanism
    total = Tally.empty(mechanism.fingerprint, mechanism.tally_shape)
    with progress_bar(file.metadata.num_rows) as (bar, task):
        bar.update(task, description="Counting")
        for block in file.iter_batches(batch_size=_AT_ONCE, columns=list(_COLUMNS)):
            total = total + _fold(block, asked, total.reports)
            bar.advance(task, len(block))
    return total


def _fold(block: pyarrow.RecordBatch, asked: RoundDocument, before: int) -> Tally:
    """The tally of a block of reports, of which so many came before."""
    numbers, payloads = block.column("round").to_numpy(zero_copy_only=False), block.column("payload").to_pylist()
    if len(strange := np.flatnonzero(numbers != asked.number)):
        found = int(numbers[strange[0]])
        raise _refused("round", before + int(strange[0]), f"belongs to round {found}, not {asked.number}")
    ids = _ids(block)
    if asked.part != EVERYONE:
        words = parting_words(ids, bytes.fromhex(asked.campaign))
        if len(strange := np.flatnonzero(~asked.part.members(words))):
            raise _refused("part", before + int(strange[0]), "is of somebody whom this round does not ask")
    codec, plain = asked.mechanism.codec, []
    for at, padded in enumerate(payloads):
        if padded is None:
            raise _refused("scrubbed", before + at, "was scrubbed: it was counted, and its payload is gone")
        plain.append(_checked(unpad, before + at, padded, asked.report_bytes, codec.varies))
    try:
        return asked.mechanism.tally_encoded([row.tobytes() for row in ids], plain)
    except ReportError:
        for at, payload in enumerate(plain):
            _checked(codec.decode, before + at, payload)  # which of them it was
        raise


def _checked(read: Callable[..., Any], row: int, *given: Any) -> Any:
    try:
        return read(*given)
    except ReportError as malformed:
        raise _refused(malformed.code.partition("/")[2], row, f"is refused: {malformed.sentence.rstrip('.')}") from None


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
    for block in _opened(path).iter_batches(batch_size=_AT_ONCE, columns=["id"]):
        if len(block):
            yield _ids(block)


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
    except FileNotFoundError:
        raise KeyveilError("input/file", f"There is no file {path}.") from None
    except (pyarrow.ArrowInvalid, OSError):
        raise KeyveilError("input/parquet", f"{path} is not a Parquet file.") from None
    kinds = {field.name: field.type for field in file.schema_arrow}
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
