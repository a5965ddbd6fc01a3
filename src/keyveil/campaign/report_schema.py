"""How reports lie in files: the columns ``id`` and ``payload``; campaign and round stand in the schema's metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keyveil.campaign.rounds import RoundDocument
from keyveil.core.report import PUBLIC_BYTES

if TYPE_CHECKING:
    import pyarrow

CAMPAIGN, ROUND = b"keyveil.campaign", b"keyveil.round"


def marks(document: RoundDocument) -> dict[bytes, bytes]:
    """The metadata of a file with reports of a round."""
    return {CAMPAIGN: document.campaign.encode(), ROUND: str(document.number).encode()}


def report_schema(document: RoundDocument) -> pyarrow.Schema:
    """The schema of a file with reports of a round."""
    import pyarrow

    return pyarrow.schema({"id": pyarrow.binary(PUBLIC_BYTES), "payload": pyarrow.binary()}, marks(document))
