"""Tokens, the journal, the clock and the end of campaigns from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import bindparam, update

from keyveil.cli.app import run
from keyveil.collector.service import Service
from keyveil.collector.tables import report
from tests.collector.campaigns import asked, batch_of, snacks

Output = pytest.CaptureFixture[str]


@pytest.fixture
def database(tmp_path: Path) -> str:
    """A campaign that is over, one that is a draft, and nobody with a token."""
    path = str(tmp_path / "keyveil.db")
    service = Service(f"sqlite:///{path}")
    service.create(snacks(enrolment="token"))
    service.act("snacks", "open")
    (tmp_path / "enrolled").write_text("\n".join(service.enrol("snacks", 3)[:2]) + "\nunknown\n")
    service.create(snacks(name="drafted"))
    service.close()
    return path


def said(output: Output, *arguments: str) -> Any:
    """The object that a command prints."""
    assert run([*arguments, "--json"]) == 0, output.readouterr().err
    return json.loads(output.readouterr().out)


def refused(output: Output, *arguments: str) -> str:
    """The line with which a command ends that cannot be done."""
    assert run(list(arguments)) == 2
    out, err = output.readouterr()
    assert out == "" and err.startswith("keyveil: ") and err.count("\n") == 1, err
    return err


def test_tokens_are_made_listed_and_revoked(database: str, tmp_path: Path, capsys: Output) -> None:
    here, out = ("--database", database), tmp_path / "anna.token"
    wanted = ("token", "create", "anna", "--role", "analyst", "--campaign", "snacks", "--expires", "2999-12-31")
    assert said(capsys, *wanted, "--out", str(out), *here)["campaigns"] == ["snacks"]
    token = out.read_text().strip()
    assert len(token) >= 20 and out.stat().st_mode & 0o777 == 0o600

    assert "output/file" in refused(capsys, *wanted, "--out", str(out), *here)  # never over a file that is there
    assert "access/exists" in refused(capsys, *wanted, "--out", str(tmp_path / "other"), *here)
    assert not (tmp_path / "other").exists()
    listed = said(capsys, "token", "list", *here)["tokens"]
    assert [(one["name"], one["state"]) for one in listed] == [("anna", "good")] and token not in str(listed)
    assert run(["token", "list", *here]) == 0 and "anna" in capsys.readouterr().out
    assert said(capsys, "token", "revoke", "anna", *here) == {"name": "anna"}
    assert "access/no-token" in refused(capsys, "token", "revoke", "anna", *here)
    for wrong in (
        ("--role", "king"),
        ("--role", "admin", "--expires", "soon"),
        ("--role", "admin", "--campaign", "A B"),
    ):
        refused(capsys, "token", "create", "bob", *wrong, "--out", str(tmp_path / "bob"), *here)
        assert not (tmp_path / "bob").exists()


def test_the_journal_is_exported_and_checked(database: str, tmp_path: Path, capsys: Output) -> None:
    here, out = ("--database", database), tmp_path / "journal.jsonl"
    exported = said(capsys, "journal", "export", "--out", str(out), *here)
    assert exported["entries"] == 5
    assert said(capsys, "journal", "verify", str(out), "--head", exported["head"])["entries"] == 5
    assert said(capsys, "journal", "verify", *here)["head"] == exported["head"]

    lines = out.read_text().splitlines()
    out.write_text("\n".join([*lines[:2], lines[2].replace("operator", "nobody"), *lines[3:]]))
    assert "entry 3 was changed" in refused(capsys, "journal", "verify", str(out))
    out.write_text("\n".join(lines[:3]))
    assert "journal/broken" in refused(capsys, "journal", "verify", str(out), "--head", exported["head"])
    for content in ("{", "[]\n", '{"number": 1}', "\xff"):
        out.write_bytes(content.encode("latin-1"))
        assert "journal/" in refused(capsys, "journal", "verify", str(out))
    assert "journal/file" in refused(capsys, "journal", "verify", str(tmp_path / "missing"))


def test_the_clock_is_shown_and_confirmed(database: str, capsys: Output) -> None:
    assert said(capsys, "clock", "show", "--database", database)["held_hours"] is None
    assert said(capsys, "clock", "confirm", "--database", database)["held_hours"] is None
    assert run(["clock", "show", "--database", database]) == 0
    assert "is believed" in capsys.readouterr().out


def test_campaigns_end_and_enrolments_are_revoked(database: str, tmp_path: Path, capsys: Output) -> None:
    here = ("--database", database)
    revoked = said(capsys, "campaign", "revoke", "snacks", "--tokens", str(tmp_path / "enrolled"), *here)
    assert revoked == {"revoked": 2, "given": 3}
    assert "campaign/state" in refused(capsys, "campaign", "archive", "snacks", *here)
    assert said(capsys, "campaign", "stop", "snacks", *here)["state"] == "closed"
    assert said(capsys, "campaign", "archive", "snacks", *here)["state"] == "archived"
    assert "campaign/delete" in refused(capsys, "campaign", "delete", "snacks", *here)
    for name in ("snacks", "drafted"):
        assert said(capsys, "campaign", "delete", name, "--yes", *here) == {"name": name}
    assert said(capsys, "campaign", "list", *here) == {"campaigns": []}


def test_what_was_set_aside_is_tried_again(tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "keyveil.db"
    service = Service(f"sqlite:///{path}")
    service.create(snacks())
    service.act("snacks", "open")
    batch = batch_of(asked(service), 30)
    service.submit("snacks", batch).result(30)
    change = update(report).where(report.c.id == bindparam("which")).values(payload=bindparam("bytes"))

    def put(payloads: list[bytes]) -> None:
        rows = [{"which": number, "bytes": data} for number, data in zip(batch.ids, payloads, strict=False)]
        service.writer.run(lambda connection: connection.execute(change, rows))

    put([b"\xff" * len(batch.payloads[0])] * 20)
    service.settle()
    put(list(batch.payloads[:20]))
    service.close()

    here = ("campaign", "retry", "snacks", "--database", str(path))
    told = said(capsys, *here)
    assert told["reports"] == 30 and told["folded"] + told["waiting"] == 30 and told["set_aside"] == 0
    assert "campaign/state" in refused(capsys, *here)
