"""Sketches beside tallies: what is known of single reports, summed over all of them, where the operator wants it.

A sketch changes with the tally, in the same transaction and by the same steps, so that two successive ones differ by at
least ``min_reports`` reports as well. It never holds a tally up: where it fails, reports are counted without it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sqlalchemy import Connection

from keyveil.campaign.reading import sketch_of
from keyveil.campaign.rounds import RoundDocument
from keyveil.collector import logs
from keyveil.collector.chunks import add_counts, read_counts
from keyveil.collector.tables import sketch
from keyveil.core.codecs.payloads import Payloads
from keyveil.core.report import PUBLIC_BYTES
from keyveil.core.tally import Tally
from keyveil.robustness.sketches import can_sketch, sketch_fingerprint, sketch_shape

log = logs.logger()


def sketched(document: RoundDocument, reports: Sequence[tuple[int, bytes, bytes]]) -> Tally | None:
    """The sketch of stored reports that were counted; none where the mechanism has none, or it failed."""
    if not reports or not can_sketch(document.mechanism):
        return None
    publics = np.frombuffer(b"".join(number for _, number, _ in reports), np.uint8).reshape(-1, PUBLIC_BYTES)
    try:
        return sketch_of(document, publics, Payloads.of([payload for *_, payload in reports]))
    except Exception:  # a tally is worth more than a sketch
        log.error("Reports were counted without a sketch.", reports=len(reports), exc_info=True)
        return None


def add_sketch(connection: Connection, shard: int, round_id: int, found: Tally | None) -> None:
    """Add to the sketch of a round, beside its tally."""
    if found is not None:
        place = {"round_id": round_id, "shard": shard, "fingerprint": found.fingerprint}
        add_counts(connection, sketch, found, place)


def read_sketch(connection: Connection, round_id: int, document: RoundDocument) -> Tally | None:
    """The sketch of a round; none where no report was sketched. Sketches of an earlier form are left out."""
    if not can_sketch(document.mechanism):
        return None
    own, shape = sketch_fingerprint(document.mechanism), sketch_shape(document.mechanism)
    found = read_counts(connection, sketch, shape, own, {"round_id": round_id, "fingerprint": own})
    return found if found.reports else None
