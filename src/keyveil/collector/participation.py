"""Who has reported in a round, so that each enrolment counts once, without telling which report is whose.

Whoever reads the tables sees which transaction wrote a row and where it lies. A row for each person, written together
with that person's report, would tie the two. So all people of a round share one row that every commit rewrites as a
whole: it tells who took part, and the last commit, but not whose report that commit stored. The enrolments themselves
are dealt new numbers and written anew, in the order of their hashes, whenever one is added beside an open round: the
order in which people enrolled does not lie beside the order in which reports came (docs/decisions/0033).
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, update

from keyveil.collector.tables import enrolment, participation, round


class Claims:
    """The enrolments that have reported in a round: bit ``n`` is set once number ``n`` has."""

    def __init__(self, bits: bytes = b"") -> None:
        self._bits = bytearray(bits)
        self.changed = False

    def __contains__(self, number: int) -> bool:
        return number < 8 * len(self._bits) and bool(self._bits[number // 8] >> number % 8 & 1)

    def add(self, number: int) -> None:
        self._bits.extend(bytes(max(0, number // 8 + 1 - len(self._bits))))
        self._bits[number // 8] |= 1 << number % 8
        self.changed = True

    def discard(self, number: int) -> None:
        if number in self:
            self._bits[number // 8] ^= 1 << number % 8

    def __bytes__(self) -> bytes:
        return bytes(self._bits)


@dataclass(frozen=True)
class Enrolled:
    """An enrolment as uploads meet it."""

    number: int
    revoked: bool


def locked_claims(connection: Connection, round_ids: Collection[int]) -> dict[int, Claims]:
    """The claims of some rounds, kept from other processes until this transaction ends. Rounds without enrolment have
    none. Numbers of enrolments must be read after this, since ``deal`` changes both together."""
    found = connection.execute(
        select(participation)
        .where(participation.c.round_id.in_(sorted(round_ids)))
        .order_by(participation.c.round_id)
        .with_for_update()
    )
    return {row.round_id: Claims(bytes(row.claimed)) for row in found}


def save_claims(connection: Connection, round_id: int, claims: Claims) -> None:
    connection.execute(update(participation).where(participation.c.round_id == round_id).values(claimed=bytes(claims)))


def begin(connection: Connection, campaign_id: int, round_id: int) -> None:
    """Nobody has reported in a new round yet; in which order people enrolled is forgotten before anybody does."""
    connection.execute(insert(participation).values(round_id=round_id, claimed=b""))
    deal(connection, campaign_id)


def end(connection: Connection, round_id: int) -> None:
    """Forget who took part."""
    connection.execute(delete(participation).where(participation.c.round_id == round_id))


def enrol(connection: Connection, campaign_id: int, token_hashes: Collection[bytes]) -> None:
    """Add enrolments. The caller holds the campaign's row."""
    known = connection.execute(
        select(enrolment.c.number).where(enrolment.c.campaign_id == campaign_id).order_by(enrolment.c.number.desc())
    ).first()
    first = 0 if known is None else known.number + 1
    rows = [
        {"campaign_id": campaign_id, "token_hash": one, "number": first + place}
        for place, one in enumerate(sorted(token_hashes))
    ]
    connection.execute(insert(enrolment), rows)
    deal(connection, campaign_id)


def deal(connection: Connection, campaign_id: int) -> None:
    """Give the enrolments of a campaign new numbers at random and write their rows anew, sorted by hash.

    Without an open round there are no reports whose order could be compared, and nothing is done.
    """
    here = select(round.c.id).where(round.c.campaign_id == campaign_id)
    claims = locked_claims(connection, list(connection.execute(here).scalars()))
    if not claims:
        return
    mine = enrolment.c.campaign_id == campaign_id
    rows = connection.execute(select(enrolment).where(mine).order_by(enrolment.c.token_hash)).all()
    numbers = sorted(range(len(rows)), key=lambda _: secrets.token_bytes(16))
    for round_id, before in claims.items():
        after = Claims()
        for row, number in zip(rows, numbers, strict=True):
            if row.number in before:
                after.add(number)
        save_claims(connection, round_id, after)
    if rows:
        connection.execute(delete(enrolment).where(mine))
        dealt = zip(rows, numbers, strict=True)
        connection.execute(insert(enrolment), [{**row._mapping, "number": number} for row, number in dealt])
