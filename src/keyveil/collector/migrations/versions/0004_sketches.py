"""Sketches beside tallies."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "sketch",
        sa.Column("round_id", _NUMBER, sa.ForeignKey("round.id"), primary_key=True),
        sa.Column("shard", sa.Integer, primary_key=True),
        sa.Column("fingerprint", sa.LargeBinary(32), primary_key=True),
        sa.Column("chunk", sa.Integer, primary_key=True),
        sa.Column("reports", sa.BigInteger, nullable=False),
        sa.Column("counts", sa.LargeBinary, nullable=False),
    )
