"""Arrival as the collector knows it: whole buckets of hours since 1970, never a moment."""

from __future__ import annotations

from datetime import datetime

BUCKET_HOURS = 6


def bucket_of(moment: datetime) -> int:
    return int(moment.timestamp()) // (3600 * BUCKET_HOURS)


def days_before(bucket: int, days: int) -> int:
    """The last bucket that lies whole days or more before this one."""
    return bucket - days * 24 // BUCKET_HOURS
