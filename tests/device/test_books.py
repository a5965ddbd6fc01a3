"""The books: what the file holds, what the export shows, and what neither gives away."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from pathlib import Path

import pytest

from keyveil.campaign.documents import Campaign, dictionary_of
from keyveil.campaign.rounds import RoundDocument
from keyveil.core.errors import DeviceError
from keyveil.device import Caps, DeviceLimits
from tests.device.collector import Collector, Watch, document, lose_answer, view_of
from tests.device.owner import RECORD, agreed, code_of, device, week


def test_the_export_shows_what_was_sent_and_keeps_secrets(tmp_path: Path) -> None:
    collector = Collector()
    collector.open(document(enrolment="token"))
    with agreed(collector, tmp_path / "device.db") as one:
        one.report("snack-survey", RECORD, token="kv-secret-token")
        exported = json.loads(one.export())
        secret = one.vault.secret.hex()

    (entry,) = exported["entries"]
    ((public, payload),) = collector.reports
    assert (entry["report"], entry["payload"], entry["state"]) == (public.hex(), payload.hex(), "sent")
    assert entry["day"] == "2026-11-20" and Fraction(entry["epsilon"]) < 1
    assert collector.headers[0]["Authorization"] == "Bearer kv-secret-token"
    assert "kv-secret-token" not in json.dumps(exported) and secret not in json.dumps(exported)
    assert b"kv-secret-token" not in (tmp_path / "device.db").read_bytes()  # forgotten once it has served


def test_the_file_is_the_owners_alone_and_lasts(tmp_path: Path) -> None:
    path = tmp_path / "home" / "device.db"
    collector = Collector()
    collector.open(document())
    with agreed(collector, path) as one:
        first = one.report("snack-survey", RECORD)
    assert path.stat().st_mode & 0o077 == 0
    with device(collector, path) as again:
        assert again.report("snack-survey", RECORD).report == first.report
        assert len(again.ledger()) == 1


@pytest.mark.parametrize("content", [b"not a database, but long enough to look like something" * 100])
def test_a_strange_file_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(DeviceError, match=r"notes\.txt"):
        device(Collector(), path)
    assert path.read_bytes() == content


def test_no_record_and_no_digest_of_one_lies_in_the_file(tmp_path: Path) -> None:
    """Whatever the record is, the file differs only in the randomised payload: here there is one of two lengths."""
    collector = Collector()
    collector.open(document())
    rows = []
    for name, record in (("a.db", {"fries": 4.125}), ("b.db", {})):
        with agreed(collector, tmp_path / name) as one:
            one.report("snack-survey", record)
            tables = one.vault.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            here = {table: one.vault.connection.execute(f"SELECT * FROM {table}").fetchall() for (table,) in tables}
            secret = here.pop("device")[0][0]
            (parcel,), (entry,) = here.pop("outbox"), here.pop("entry")
            assert entry[9] == parcel[4]
            rows.append((here, parcel[:4], parcel[6:], entry[:9], entry[10:]))
        assert len(secret) == 32
    assert rows[0] == rows[1]


def test_collectors_share_the_caps_but_not_the_series(tmp_path: Path) -> None:
    path, here, there = tmp_path / "device.db", Collector(script=[lose_answer] * 9), Collector()
    here.open(document())
    there.open(document(contact="other@example.org"))
    caps = Caps(life="1.5")
    with agreed(here, path, collector="https://here.example", caps=caps) as one:
        assert one.report("snack-survey", RECORD).state == "waiting"
    with agreed(there, path, collector="https://there.example", caps=caps) as other:
        assert other.flush() == []  # what waits is for somebody else
        assert code_of(lambda: other.report("snack-survey", RECORD)) == "budget/exceeded"
    assert not there.bodies


def test_a_long_list_of_keys_is_fetched_once_and_remembered() -> None:
    keys = [f"app-{number}" for number in range(300)]
    data = b" " + dictionary_of(keys)  # not the spelling that we would choose, but what its hash names
    name = hashlib.sha256(data).hexdigest()
    made = document(schema={"keys": {"sha256": name, "count": 300}, "low": 0, "high": 1})
    campaign = Campaign.from_document(made, lambda _: data)
    first = campaign.protocol.next_round([])
    assert first is not None
    collector = Collector(dictionaries={name: data})
    collector.views["snack-survey"] = view_of(campaign, RoundDocument.of(campaign, first))
    one = agreed(collector)
    assert one.report("snack-survey", {"app-7": 1}).state == "sent"
    collector.dictionaries.clear()
    assert one.report("snack-survey", {"app-7": 1}).state == "sent"
    assert (
        code_of(lambda: agreed(Collector(collector.views, {name: data}), limits=DeviceLimits(keys=200)))
        == "device/limits"
    )


def test_dates_are_held_to() -> None:
    collector, watch = Collector(), Watch()
    collector.open(week(1))
    one = agreed(collector, clock=watch)
    assert code_of(lambda: one.report("snack-survey", RECORD)) == "round/closed"
    watch.days_later(7)
    assert one.report("snack-survey", RECORD).state == "sent"
    collector.views["snack-survey"]["round"] = None
    assert one.report("snack-survey", RECORD).state == "between"
    collector.views["snack-survey"]["state"] = "closed"
    assert one.report("snack-survey", RECORD).state == "closed"


def test_a_device_between_two_rounds_is_told_the_day_of_the_next_one() -> None:
    collector = Collector()
    rounds = [{"opens": "2026-11-18", "closes": "2026-11-19"}, {"opens": "2026-11-24", "closes": "2026-11-30"}]
    collector.open(document(protocol={"name": "pilot", "epsilon": "1"}, rounds=rounds))
    collector.views["snack-survey"]["round"]["state"] = "closed"
    outcome = agreed(collector).report("snack-survey", RECORD)

    assert (outcome.state, outcome.document()["opens"]) == ("between", "2026-11-24")
