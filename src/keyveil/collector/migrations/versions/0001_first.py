"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "campaign",
        sa.Column("id", _NUMBER, primary_key=True),
        sa.Column("name", sa.String(64), nullable=False, index=True),
        sa.Column("hash", sa.String(64), nullable=False, unique=True),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
    )
    op.create_table(
        "dictionary",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "round",
        sa.Column("id", _NUMBER, primary_key=True),
        sa.Column("campaign_id", _NUMBER, sa.ForeignKey("campaign.id"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("cost", sa.String(80)),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("secret", sa.LargeBinary),
        sa.UniqueConstraint("campaign_id", "number"),
    )
    op.create_table(
        "batch",
        sa.Column("id", _NUMBER, primary_key=True),
        sa.Column("round_id", _NUMBER, sa.ForeignKey("round.id"), nullable=False),
        sa.Column("shard", sa.Integer, nullable=False),
        sa.Column("bucket", sa.Integer, nullable=False),
        sa.Column("reports", sa.Integer, nullable=False),
        sa.Column("state", sa.Integer, nullable=False),
        sa.Index("batch_work", "round_id", "state"),
    )
    op.create_table(
        "report",
        sa.Column("round_id", _NUMBER, primary_key=True, autoincrement=False),
        sa.Column("id", sa.LargeBinary(16), primary_key=True),
        sa.Column("payload", sa.LargeBinary),
        sa.Column("batch_id", _NUMBER, nullable=False, index=True),
    )
    op.create_table(
        "tally",
        sa.Column("round_id", _NUMBER, sa.ForeignKey("round.id"), primary_key=True),
        sa.Column("shard", sa.Integer, primary_key=True),
        sa.Column("chunk", sa.Integer, primary_key=True),
        sa.Column("reports", sa.BigInteger, nullable=False),
        sa.Column("counts", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "enrolment",
        sa.Column("campaign_id", _NUMBER, sa.ForeignKey("campaign.id"), primary_key=True),
        sa.Column("token_hash", sa.LargeBinary(32), primary_key=True),
    )
    op.create_table(
        "participation",
        sa.Column("round_id", _NUMBER, sa.ForeignKey("round.id"), primary_key=True),
        sa.Column("pseudonym", sa.LargeBinary(32), primary_key=True),
        sqlite_with_rowid=False,  # rows in the order of arrival would tell whose report is whose
    )
    op.create_table(
        "refusal",
        sa.Column("campaign_id", _NUMBER, sa.ForeignKey("campaign.id"), primary_key=True),
        sa.Column("bucket", sa.Integer, primary_key=True),
        sa.Column("code", sa.String(64), primary_key=True),
        sa.Column("count", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "access",
        sa.Column("token_hash", sa.LargeBinary(32), primary_key=True),
        sa.Column("role", sa.String(16), nullable=False),
    )
