"""What a collector keeps. One schema for SQLite and PostgreSQL.

Nothing here tells who sent a report or when: arrival is known to the bucket of hours in which a group of reports was
committed, and who took part in a round is one row for everybody, deleted when the round closes.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    UniqueConstraint,
)

metadata = MetaData()

_Number = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows only in columns called INTEGER

campaign = Table(
    "campaign",
    metadata,
    Column("id", _Number, primary_key=True),
    Column("name", String(64), nullable=False, index=True),  # a series has several campaigns under one name
    Column("hash", String(64), nullable=False, unique=True),
    Column("document", LargeBinary, nullable=False),  # canonical JSON
    Column("state", String(16), nullable=False),
    Column("settled", Integer, nullable=False, server_default="0"),  # 1: nothing more happens by itself
)

dictionary = Table(
    "dictionary",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

round = Table(
    "round",
    metadata,
    Column("id", _Number, primary_key=True),
    Column("campaign_id", ForeignKey("campaign.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("document", LargeBinary, nullable=False),
    Column("cost", String(80)),  # epsilon at the worst broadcast, if it is not the mechanism's own
    Column("state", String(16), nullable=False),
    Column("closed", Integer),  # when it closed, in whole buckets of hours
    Column("forgotten", Integer, nullable=False, server_default="0"),  # NOTHING, PAYLOADS, IDS
    UniqueConstraint("campaign_id", "number"),
)

NOTHING, PAYLOADS, IDS = 0, 1, 2

# Reports that were committed together. Folding marks groups, not reports: one small row stands for many.
batch = Table(
    "batch",
    metadata,
    Column("id", _Number, primary_key=True),
    Column("round_id", ForeignKey("round.id"), nullable=False),
    Column("shard", Integer, nullable=False),  # which collector process wrote it
    Column("bucket", Integer, nullable=False),  # arrival, in whole buckets of hours
    Column("reports", Integer, nullable=False),
    Column("state", Integer, nullable=False),  # UNFOLDED, FOLDED, SCRUBBED, SET_ASIDE
    Index("batch_work", "round_id", "state"),
)

UNFOLDED, FOLDED, SCRUBBED, SET_ASIDE = 0, 1, 2, 3

report = Table(
    "report",
    metadata,
    Column("round_id", _Number, primary_key=True),
    Column("id", LargeBinary(16), primary_key=True),
    Column("payload", LargeBinary),  # padded, as it came; nothing after the scrub
    Column("batch_id", _Number, nullable=False, index=True),
)

tally = Table(
    "tally",
    metadata,
    Column("round_id", ForeignKey("round.id"), primary_key=True),
    Column("shard", Integer, primary_key=True),
    Column("chunk", Integer, primary_key=True),
    Column("reports", BigInteger, nullable=False),  # folded by this shard; only chunk 0 says so
    Column("counts", LargeBinary, nullable=False),  # int64, little-endian
)

# What is known of single reports, summed over all of them; only where the operator wants it.
sketch = Table(
    "sketch",
    metadata,
    Column("round_id", ForeignKey("round.id"), primary_key=True),
    Column("shard", Integer, primary_key=True),
    Column("fingerprint", LargeBinary(32), primary_key=True),  # of the mechanism and the form of the sketch
    Column("chunk", Integer, primary_key=True),
    Column("reports", BigInteger, nullable=False),  # in the sketch; only chunk 0 says so
    Column("counts", LargeBinary, nullable=False),  # int64, little-endian
)

enrolment = Table(
    "enrolment",
    metadata,
    Column("campaign_id", ForeignKey("campaign.id"), primary_key=True),
    Column("token_hash", LargeBinary(32), primary_key=True),
    Column("number", Integer, nullable=False, server_default="0"),  # its bit in participation; dealt at random
    Column("revoked", Integer, nullable=False, server_default="0"),
)

# One row for all people of a round, rewritten as a whole: a row for each would share its transaction with a report.
participation = Table(
    "participation",
    metadata,
    Column("round_id", ForeignKey("round.id"), primary_key=True),
    Column("claimed", LargeBinary, nullable=False),  # bit n is set once enrolment number n has reported
)

refusal = Table(
    "refusal",
    metadata,
    Column("campaign_id", ForeignKey("campaign.id"), primary_key=True),
    Column("bucket", Integer, primary_key=True),
    Column("code", String(64), primary_key=True),
    Column("count", BigInteger, nullable=False),
)

access = Table(
    "access",
    metadata,
    Column("token_hash", LargeBinary(32), primary_key=True),
    Column("role", String(16), nullable=False),
    Column("name", String(64), nullable=False, server_default=""),
    Column("campaigns", String(8192)),  # names of series, separated by spaces; null for all
    Column("expires", String(10)),  # the last day on which it is good
    Column("revoked", Integer, nullable=False, server_default="0"),
    Index("access_name", "name", unique=True),
)

# Whoever is signed in to the pages. Times are in whole minutes since 1970.
session = Table(
    "session",
    metadata,
    Column("secret_hash", LargeBinary(32), primary_key=True),  # of what the cookie holds
    Column("token_hash", LargeBinary(32), nullable=False, index=True),  # the token that signed in
    Column("began", Integer, nullable=False),
    Column("seen", Integer, nullable=False),  # the last request
)

# Every administrative act and every step of a campaign; each hash covers the entry before it.
journal = Table(
    "journal",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=False),
    Column("at", String(20), nullable=False),
    Column("actor", String(80), nullable=False),
    Column("action", String(40), nullable=False),
    Column("subject", String(160), nullable=False),
    Column("detail", LargeBinary, nullable=False),  # canonical JSON
    Column("hash", LargeBinary(32), nullable=False),
)

clock = Table(
    "clock",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),  # 1: there is one row
    Column("seen", BigInteger, nullable=False),  # the latest time that was believed, in seconds since 1970
)
