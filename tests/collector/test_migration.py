"""From the first schema, with data in it, to the present one: nothing is lost, doubled or locked out."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import Connection, text

from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import Batch
from keyveil.collector.database import Database
from keyveil.collector.service import Service
from keyveil.core.canonical import canonical
from tests.collector.campaigns import asked, batch_of, count, merged, snacks

SECRET = bytes(range(32))


@pytest.fixture
def first_schema(url: str, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A database as the first version left it."""
    upgrade = command.upgrade
    with monkeypatch.context() as patched:
        patched.setattr(command, "upgrade", lambda config, _: upgrade(config, "0001"))
        return Database(url)


def put(connection: Connection, table: str, **row: Any) -> None:
    names = ", ".join(row)
    connection.execute(text(f'INSERT INTO "{table}" ({names}) VALUES ({", ".join(":" + name for name in row)})'), row)


def fill(connection: Connection, tokens: list[str]) -> tuple[RoundDocument, list[Batch]]:
    """Two campaigns: one that is over, and one with enrolment in whose open round three of the people reported."""
    over = Campaign.from_document(snacks(name="over"))
    campaign = Campaign.from_document(snacks(enrolment="token", min_reports=2))
    first = campaign.protocol.next_round([])
    assert first is not None
    document = RoundDocument.of(campaign, first)
    for number, (one, state) in enumerate([(over, "estimated"), (campaign, "open")], 1):
        about = {"name": one.name, "hash": one.hash, "document": canonical(one.document()), "state": state}
        put(connection, "campaign", id=number, **about)
        made = RoundDocument.of(one, first)
        row = {"number": 1, "hash": made.hash, "document": canonical(made.document()), "cost": None}
        kept = {"state": "open", "secret": SECRET} if number == 2 else {"state": "folded", "secret": None}
        put(connection, "round", id=number, campaign_id=number, **row, **kept)
    put(connection, "batch", id=7, round_id=1, shard=0, bucket=81_000, reports=5, state=2)
    for token in tokens:
        put(connection, "enrolment", campaign_id=2, token_hash=hashed(token))
    batches = [batch_of(document, 1) for _ in range(3)]
    for place, (token, batch) in enumerate(zip(tokens, batches, strict=False)):
        put(connection, "batch", id=8 + place, round_id=2, shard=0, bucket=82_000, reports=1, state=0)
        put(connection, "report", round_id=2, id=batch.ids[0], payload=batch.payloads[0], batch_id=8 + place)
        put(connection, "participation", round_id=2, pseudonym=hmac.digest(SECRET, hashed(token), "sha256"))
    for role, token in (("admin", "first"), ("admin", "second"), ("analyst", "third")):
        put(connection, "access", token_hash=hashed(token), role=role)
    return document, batches


def hashed(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def test_a_database_of_the_first_schema_goes_on(first_schema: Database, url: str) -> None:
    tokens = [f"token-{number}" for number in range(20)]
    with first_schema.write() as connection:
        document, batches = fill(connection, tokens)
        if first_schema.postgresql:  # rows came with their numbers here, as they never do
            for table in ("campaign", "round", "batch"):
                connection.execute(text(f"SELECT setval('{table}_id_seq', 100)"))
    first_schema.close()

    service = Service(url)
    for token, batch in zip(tokens, batches, strict=False):
        assert service.submit("snacks", batch, token).result().duplicates == 1
        other = batch_of(document, 1)
        assert service.submit("snacks", other, token).result().refused == ((other.ids[0], "enrolment/used"),)
    assert asked(service).hash == document.hash
    later = [batch_of(document, 1) for _ in tokens[3:]]
    for token, batch in zip(tokens[3:], later, strict=True):
        assert service.submit("snacks", batch, token).result().accepted == 1
    service.act("snacks", "stop")
    service.settle()

    assert service.tally("snacks")[1] == count(document, list(merged(*batches, *later)))
    holders = [service.roles.admit(token) for token in ("first", "second", "third", "fourth")]
    assert [holder and holder.role for holder in holders] == ["admin", "admin", "analyst", None]
    assert sorted(one["name"] for one in service.roles.tokens()) == ["first-admin", "first-admin-2", "first-analyst"]
    assert {one["name"]: one["state"] for one in service.campaigns()} == {"over": "estimated", "snacks": "estimated"}
    service.act("over", "archive")
    service.settle()
    service.close()


def test_nothing_of_the_old_pseudonyms_stays_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, tokens = f"sqlite:///{tmp_path / 'keyveil.db'}", [f"token-{number}" for number in range(20)]
    upgrade = command.upgrade
    with monkeypatch.context() as patched:
        patched.setattr(command, "upgrade", lambda config, _: upgrade(config, "0001"))
        old = Database(url)
    with old.write() as connection:
        fill(connection, tokens)
    old.close()
    Service(url).close()

    found = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert hashed(tokens[0]) in found  # the search can find what is there
    assert SECRET not in found
    assert not any(hmac.digest(SECRET, hashed(token), "sha256") in found for token in tokens)
