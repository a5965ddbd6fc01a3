"""Named tokens, a journal, a believed clock, what was forgotten; and who took part as one row for each round."""

from __future__ import annotations

import hmac
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.add_column("campaign", sa.Column("settled", sa.Integer, nullable=False, server_default="0"))
    op.add_column("round", sa.Column("closed", sa.Integer))
    op.add_column("round", sa.Column("forgotten", sa.Integer, nullable=False, server_default="0"))
    op.add_column("enrolment", sa.Column("number", sa.Integer, nullable=False, server_default="0"))
    op.add_column("enrolment", sa.Column("revoked", sa.Integer, nullable=False, server_default="0"))
    op.add_column("access", sa.Column("name", sa.String(64), nullable=False, server_default=""))
    op.add_column("access", sa.Column("campaigns", sa.String(8192)))
    op.add_column("access", sa.Column("expires", sa.String(10)))
    op.add_column("access", sa.Column("revoked", sa.Integer, nullable=False, server_default="0"))
    op.create_table(
        "journal",
        sa.Column("number", _NUMBER, primary_key=True, autoincrement=False),
        sa.Column("at", sa.String(20), nullable=False),
        sa.Column("actor", sa.String(80), nullable=False),
        sa.Column("action", sa.String(40), nullable=False),
        sa.Column("subject", sa.String(160), nullable=False),
        sa.Column("detail", sa.LargeBinary, nullable=False),
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
    )
    op.create_table(
        "clock",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("seen", sa.BigInteger, nullable=False),
    )
    connection = op.get_bind()
    _name_tokens(connection)
    op.create_index("access_name", "access", ["name"], unique=True)
    _number_enrolments(connection)
    claims = _claims(connection)
    op.drop_table("participation")
    op.execute('ALTER TABLE "round" DROP COLUMN secret')
    remade = op.create_table(
        "participation",
        sa.Column("round_id", _NUMBER, sa.ForeignKey("round.id"), primary_key=True),
        sa.Column("claimed", sa.LargeBinary, nullable=False),
    )
    if claims:
        op.bulk_insert(remade, [{"round_id": number, "claimed": bits} for number, bits in claims.items()])
    # The last arrival stands for the end of rounds that closed before ends were kept.
    op.execute(
        'UPDATE "round" SET closed = (SELECT coalesce(max(bucket), 0) FROM batch WHERE batch.round_id = "round".id) '
        "WHERE state IN ('closed', 'folded')"
    )


def _name_tokens(connection: sa.Connection) -> None:
    """Tokens of the first schema were those that a first start printed."""
    found = connection.execute(sa.text("SELECT token_hash, role FROM access ORDER BY role, token_hash")).all()
    counts: dict[str, int] = {}
    for token_hash, role in found:
        counts[role] = counts.get(role, 0) + 1
        name = f"first-{role}" if counts[role] == 1 else f"first-{role}-{counts[role]}"
        rename = sa.text("UPDATE access SET name = :name WHERE token_hash = :token_hash")
        connection.execute(rename, {"name": name, "token_hash": token_hash})


def _number_enrolments(connection: sa.Connection) -> None:
    """Numbers in the order of hashes, which is random."""
    every = sa.text("SELECT campaign_id, token_hash FROM enrolment ORDER BY campaign_id, token_hash")
    found = connection.execute(every)
    rows: list[dict[str, Any]] = []
    for campaign_id, token_hash in found:
        first = not rows or rows[-1]["campaign_id"] != campaign_id
        number = 0 if first else rows[-1]["number"] + 1
        rows.append({"campaign_id": campaign_id, "token_hash": token_hash, "number": number})
    if rows:
        renumber = "UPDATE enrolment SET number = :number WHERE campaign_id = :campaign_id AND token_hash = :token_hash"
        connection.execute(sa.text(renumber), rows)


def _claims(connection: sa.Connection) -> dict[int, bytes]:
    """Who has reported in each round that still knows it, as bits by the numbers of enrolments."""
    kept = sa.text('SELECT id, campaign_id, secret FROM "round" WHERE secret IS NOT NULL')
    tokens = sa.text("SELECT token_hash, number FROM enrolment WHERE campaign_id = :campaign_id")
    pseudonyms = sa.text("SELECT pseudonym FROM participation WHERE round_id = :round_id")
    claims: dict[int, bytes] = {}
    for round_id, campaign_id, secret in connection.execute(kept).all():
        enrolled = connection.execute(tokens, {"campaign_id": campaign_id}).all()
        marks = {bytes(mark) for (mark,) in connection.execute(pseudonyms, {"round_id": round_id})}
        bits = bytearray(-(-len(enrolled) // 8))
        for token_hash, number in enrolled:
            if hmac.digest(bytes(secret), bytes(token_hash), "sha256") in marks:
                bits[number // 8] |= 1 << number % 8
        claims[round_id] = bytes(bits)
    return claims
