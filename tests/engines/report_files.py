"""Campaigns and files of reports as a collector exports them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.feather as feather
import pyarrow.parquet as parquet

from keyveil.campaign.documents import Campaign
from keyveil.campaign.report_schema import marks
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import pad
from keyveil.core.coins import Coins
from keyveil.mechanisms.parting import parting_words

Rows = list[tuple[bytes, bytes | None]]

SNACKS: dict[str, Any] = {
    "keyveil": 1,
    "name": "snack-survey",
    "purpose": "Which snacks people buy and how they rate them.",
    "schema": {"keys": ["burger", "fries", "pepsi"], "low": 1, "high": 5},
    "protocol": {"name": "ssr", "epsilon": "2", "max_pairs": 2},
    "rounds": [{"enough": 2000}],
    "min_reports": 100,
}
PILOT = {**SNACKS, "protocol": {"name": "pilot", "epsilon": "2", "share": "0.25"}}


def first_round(document: dict[str, Any]) -> RoundDocument:
    campaign = Campaign.from_document(document)
    first = campaign.protocol.next_round([])
    assert first is not None
    return RoundDocument.of(campaign, first)


def reports(document: RoundDocument, people: int) -> Rows:
    """Padded reports of people who belong to the round, sorted by id as exports are."""
    mechanism, coins, rows = document.mechanism, Coins(), dict[bytes, bytes | None]()
    while len(rows) < people:
        public = coins.bytes(16)
        word = parting_words(np.frombuffer(public, np.uint8).reshape(1, 16), bytes.fromhex(document.campaign))
        if document.part.members(word)[0]:
            report = mechanism.perturb({"burger": 4, "pepsi": 2}, coins, public)
            rows[public] = pad(mechanism.encode(report), document.report_bytes, mechanism.codec.varies)
    return sorted(rows.items())


def written(path: Path, rows: Rows, document: RoundDocument | None = None, **kinds: Any) -> Path:
    """A file of reports, which says whose they are if it is told."""
    columns = {
        "id": pyarrow.array([public for public, _ in rows], kinds.get("id", pyarrow.binary(16))),
        "payload": pyarrow.array([payload for _, payload in rows], kinds.get("payload", pyarrow.binary())),
    }
    table = pyarrow.table(columns).replace_schema_metadata(None if document is None else marks(document))
    if path.suffix == ".arrow":
        feather.write_feather(table, path, compression="uncompressed")
    else:
        parquet.write_table(table, path)
    return path


def spoilt(rows: Rows, at: int, payload: bytes | None) -> Rows:
    """The same reports, one of them with another payload."""
    return [(public, payload if place == at else old) for place, (public, old) in enumerate(rows)]
