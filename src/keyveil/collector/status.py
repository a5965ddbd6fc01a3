"""Figures about a collection: what came in, what was refused and why, roughly when, and what still waits."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, func, select

from keyveil.collector.buckets import BUCKET_HOURS
from keyveil.collector.folding import read_tally, set_aside, unfolded
from keyveil.collector.repository import StoredCampaign, StoredRound
from keyveil.collector.rounds import arrived
from keyveil.collector.sketching import read_sketch
from keyveil.collector.storing import DUPLICATE
from keyveil.collector.tables import SET_ASIDE, UNFOLDED, batch, refusal, tally
from keyveil.robustness.detection import Detection, detect, tests_words

WATCHED = 0.001  # the chance that one look at honest reports warns: people look often


def headline(connection: Connection, stored: StoredCampaign) -> dict[str, Any]:
    """A campaign in one line."""
    return {
        "name": stored.campaign.name,
        "hash": stored.campaign.hash,
        "state": stored.state,
        "rounds": len(stored.rounds),
        "reports": sum(arrived(connection, one.id) for one in stored.rounds),
    }


def status(connection: Connection, stored: StoredCampaign) -> dict[str, Any]:
    """A campaign in full: its states and counts, and those of its rounds."""
    refused = _refused(connection, stored)
    rounds = [_round_status(connection, one, stored.campaign.min_reports) for one in stored.rounds]
    return {
        "name": stored.campaign.name,
        "hash": stored.campaign.hash,
        "state": stored.state,
        "reports": sum(one["reports"] for one in rounds),
        "duplicates": refused.pop(DUPLICATE, 0),
        "refused": refused,
        "bucket_hours": BUCKET_HOURS,
        "arrivals": _arrivals(connection, stored),
        "rounds": rounds,
    }


def all_unfolded(connection: Connection) -> int:
    """Reports of all rounds that are stored but not counted yet."""
    return int(connection.execute(select(func.sum(batch.c.reports)).where(batch.c.state == UNFOLDED)).scalar() or 0)


def all_set_aside(connection: Connection) -> int:
    """Reports of all rounds that are stored but cannot be counted."""
    return int(connection.execute(select(func.sum(batch.c.reports)).where(batch.c.state == SET_ASIDE)).scalar() or 0)


def folded(connection: Connection, round_id: int) -> int:
    """Reports of a round that were counted."""
    counted = select(func.sum(tally.c.reports)).where(tally.c.round_id == round_id, tally.c.chunk == 0)
    return int(connection.execute(counted).scalar() or 0)


def _refused(connection: Connection, stored: StoredCampaign) -> dict[str, int]:
    counted = connection.execute(
        select(refusal.c.code, func.sum(refusal.c.count))
        .where(refusal.c.campaign_id == stored.id)
        .group_by(refusal.c.code)
    )
    return {code: int(count) for code, count in counted}


def _arrivals(connection: Connection, stored: StoredCampaign) -> list[dict[str, int]]:
    counted = connection.execute(
        select(batch.c.bucket, func.sum(batch.c.reports))
        .where(batch.c.round_id.in_([one.id for one in stored.rounds]))
        .group_by(batch.c.bucket)
        .order_by(batch.c.bucket)
    )
    return [{"bucket": bucket, "reports": int(count)} for bucket, count in counted]


def _round_status(connection: Connection, one: StoredRound, least: int) -> dict[str, Any]:
    waiting, aside = unfolded(connection, one.id), set_aside(connection, one.id)
    total = arrived(connection, one.id)
    suspicion = _suspicion(connection, one, least)
    return {
        "round": one.document.number,
        "mechanism": one.document.mechanism.name,
        "hash": one.document.hash,
        "document": one.document.document(),
        "state": one.state,
        "reports": total + aside,
        "folded": total - waiting,
        "waiting": waiting,
        "set_aside": aside,
        "suspicion": None if suspicion is None else suspicion.document(),
        "note": " ".join([*_notes(one.state, waiting, aside, least), *_warning(suspicion)]) or None,
    }


def _suspicion(connection: Connection, one: StoredRound, least: int) -> Detection | None:
    """What tally and sketch of a round show of crafted reports; nothing below the least number, or if they cannot."""
    sketch = read_sketch(connection, one.id, one.document)
    if sketch is None and not tests_words(one.document.mechanism):
        return None
    told = read_tally(connection, one.id, one.document)
    return detect(one.document.mechanism, told, sketch, WATCHED) if told.reports >= max(least, 1) else None


def _warning(suspicion: Detection | None) -> list[str]:
    return [f"Warning: {suspicion} See docs/robustness.md."] if suspicion is not None and suspicion.alarm else []


def _notes(state: str, waiting: int, aside: int, least: int) -> list[str]:
    """Why not all reports of a round are counted; nothing if they are."""
    sentences = []
    if waiting and state == "open":
        sentences.append(
            f"{waiting:,} wait to be counted: while a round is open, reports are counted in steps of at least "
            f"{least:,}, so that the difference of two looks is never a single report. When it closes, all are."
        )
    elif waiting:
        sentences.append(f"{waiting:,} wait to be counted; the round is closed, so this takes moments.")
    if aside:
        sentences.append(
            f"{aside:,} could not be counted and were set aside; the log says when; keyveil campaign retry tries again."
        )
    return sentences
