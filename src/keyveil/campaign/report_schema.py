"""How reports lie in files: the columns ``id`` and ``payload``; campaign and round stand in the schema's metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keyveil.campaign.rounds import RoundDocument
from keyveil.core.report import PUBLIC_BYTES

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

CAMPAIGN, ROUND = b"keyveil.campaign", b"keyveil.round"


def marks(document: RoundDocument) -> dict[bytes, bytes]:
    """The metadata of a file with reports of a round."""
    return {CAMPAIGN: document.campaign.encode(), ROUND: str(document.number).encode()}


def report_schema(document: RoundDocument) -> pyarrow.Schema:
    """The schema of a file with reports of a round."""
    import pyarrow

    return pyarrow.schema({"id": pyarrow.binary(PUBLIC_BYTES), "payload": pyarrow.binary()}, marks(document))


def parquet_writer(target: Any, schema: pyarrow.Schema) -> pyarrow.parquet.ParquetWriter:
    """Writes reports to a file or stream; every page has a checksum, by which damage is told from a wrong report."""
    import pyarrow.parquet

    return pyarrow.parquet.ParquetWriter(target, schema, write_page_checksum=True)
