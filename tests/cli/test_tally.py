"""Reports on disk become the tally that a collector would have: counted once each, or refused with one sentence."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet as parquet
import pytest

from keyveil.campaign.documents import Campaign, dictionary_of
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import pad
from keyveil.cli.app import run
from keyveil.cli.tally import count
from keyveil.core.coins import Coins
from keyveil.core.tally import Tally
from keyveil.protocols.base import parting_words

Output = pytest.CaptureFixture[str]
Rows = list[tuple[bytes, bytes | None]]

SNACKS: dict[str, Any] = {
    "keyveil": 1,
    "name": "snack-survey",
    "purpose": "Which snacks people buy and how they rate them.",
    "schema": {"keys": ["burger", "fries", "pepsi"], "low": 1, "high": 5},
    "protocol": {"name": "ssr", "epsilon": "2", "max_pairs": 2},
    "rounds": [{"enough": 2000}],
    "min_reports": 100,
}
PILOT = {**SNACKS, "protocol": {"name": "pilot", "epsilon": "2", "share": "0.25"}}


def first_round(document: dict[str, Any]) -> RoundDocument:
    campaign = Campaign.from_document(document)
    asked = campaign.protocol.next_round([])
    assert asked is not None
    return RoundDocument.of(campaign, asked)


def reports(asked: RoundDocument, people: int) -> Rows:
    """Padded reports of people who belong to the round, sorted by id as exports are."""
    coins, rows = Coins(), dict[bytes, bytes | None]()
    while len(rows) < people:
        public = coins.bytes(16)
        word = parting_words(np.frombuffer(public, np.uint8).reshape(1, 16), bytes.fromhex(asked.campaign))
        if asked.part.members(word)[0]:
            report = asked.mechanism.perturb({"burger": 4, "pepsi": 2}, coins, public)
            rows[public] = pad(asked.mechanism.encode(report), asked.report_bytes, asked.mechanism.codec.varies)
    return sorted(rows.items())


def written(path: Path, rows: Rows, number: int = 1, **kinds: Any) -> Path:
    columns = {
        "id": pyarrow.array([public for public, _ in rows], kinds.get("id", pyarrow.binary(16))),
        "payload": pyarrow.array([payload for _, payload in rows], pyarrow.binary()),
        "round": pyarrow.array([number] * len(rows), pyarrow.int32()),
    }
    parquet.write_table(pyarrow.table(columns), path)
    return path


def document(path: Path, content: Any) -> str:
    path.write_text(json.dumps(content))
    return str(path)


def test_a_file_of_reports_is_counted_and_estimated(tmp_path: Path, capsys: Output) -> None:
    asked = first_round(SNACKS)
    rows = reports(asked, 700)
    file, campaign = written(tmp_path / "r.parquet", rows), document(tmp_path / "c.json", SNACKS)

    assert run(["tally", str(file), "--campaign", campaign, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    mechanism, codec = asked.mechanism, asked.mechanism.codec
    plain = [mechanism.decode(padded.rstrip(b"\0")[:-1], public) for public, padded in rows if padded is not None]

    assert codec.varies and said["reports"] == 700 and said["mechanism"] == "ssr"
    assert Tally.from_bytes((tmp_path / "r.tally").read_bytes()) == mechanism.tally(plain)
    assert run(["estimate", str(tmp_path / "r.tally"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n"] == 700


def test_a_campaign_that_promised_silence_about_few_keeps_it(tmp_path: Path, capsys: Output) -> None:
    file = written(tmp_path / "r.parquet", reports(first_round(SNACKS), 99))
    assert run(["tally", str(file), "--campaign", document(tmp_path / "c.json", SNACKS)]) == 0
    assert (tmp_path / "r.tally").stat().st_mode & 0o777 == 0o600
    capsys.readouterr()

    assert run(["estimate", str(tmp_path / "r.tally")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "99 reports, fewer than 100" in err
    assert run(["estimate", str(tmp_path / "r.tally"), "--min-reports", "0"]) == 0  # whoever holds the counts may look


def test_order_and_blocks_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = first_round(SNACKS)
    rows = reports(asked, 300)
    sorted_rows, mixed = written(tmp_path / "a", rows), written(tmp_path / "b", rows[::-1], id=pyarrow.binary())
    whole = count(sorted_rows, asked)
    monkeypatch.setattr("keyveil.cli.tally._AT_ONCE", 7)

    assert count(sorted_rows, asked) == count(mixed, asked) == whole


@pytest.mark.parametrize("apart", [1, 150])
@pytest.mark.parametrize("ordered", [True, False])
def test_who_is_there_twice_is_found_wherever_the_two_are(
    apart: int, ordered: bool, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keyveil.cli.tally._AT_ONCE", 10)
    rows = reports(first_round(SNACKS), 200)
    rows.insert(3 + apart, rows[3])
    file = written(tmp_path / "r.parquet", sorted(rows) if ordered else rows[::-1])

    assert run(["tally", str(file), "--campaign", document(tmp_path / "c.json", SNACKS)]) == 2
    error = capsys.readouterr().err
    assert rows[3][0].hex() in error and "report/twice" in error and error.count("\n") == 1


def spoilt(rows: Rows, at: int, payload: bytes | None) -> Rows:
    return [(public, payload if place == at else old) for place, (public, old) in enumerate(rows)]


@pytest.mark.parametrize(
    ("payload", "code"),
    [(b"", "report/size"), (b"\0\0", "report/malformed"), (b"\xff\x80", "report/malformed"), (None, "report/scrubbed")],
)
def test_what_no_device_sent_is_refused_with_its_place(
    payload: bytes | None, code: str, tmp_path: Path, capsys: Output
) -> None:
    rows = spoilt(reports(first_round(SNACKS), 50), 11, payload)
    file = written(tmp_path / "r.parquet", rows)

    assert run(["tally", str(file), "--campaign", document(tmp_path / "c.json", SNACKS)]) == 2
    error = capsys.readouterr().err
    assert "Report 12 " in error and code in error and error.count("\n") == 1
    assert not (tmp_path / "r.tally").exists()


def test_rounds_of_protocols_need_their_document(tmp_path: Path, capsys: Output) -> None:
    asked = first_round(PILOT)
    file, campaign = written(tmp_path / "r.parquet", reports(asked, 60)), document(tmp_path / "c.json", PILOT)
    round_document = document(tmp_path / "round.json", asked.document())

    assert run(["tally", str(file), "--campaign", campaign]) == 2
    assert "--round-document" in capsys.readouterr().err
    assert run(["tally", str(file), "--campaign", campaign, "--round-document", round_document, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mechanism"] == "set-size"


def test_reports_of_other_people_and_other_rounds_are_refused(tmp_path: Path, capsys: Output) -> None:
    asked = first_round(PILOT)
    campaign = document(tmp_path / "c.json", PILOT)
    common = ["--campaign", campaign, "--round-document", document(tmp_path / "round.json", asked.document())]
    rows = reports(asked, 60)
    everybody = [*rows[:20], *((Coins().bytes(16), payload) for _, payload in rows[20:])]  # a quarter belongs here

    assert run(["tally", str(written(tmp_path / "p.parquet", everybody)), *common]) == 2
    assert "report/part" in capsys.readouterr().err
    assert run(["tally", str(written(tmp_path / "r.parquet", rows, number=2)), *common]) == 2
    assert "report/round" in capsys.readouterr().err


def test_a_long_list_of_keys_may_lie_beside(tmp_path: Path, capsys: Output) -> None:
    names = dictionary_of([f"app-{number:04d}" for number in range(2500)])
    sha256 = hashlib.sha256(names).hexdigest()
    asked = {
        **SNACKS,
        "schema": {"keys": {"sha256": sha256, "count": 2500}},
        "protocol": {"name": "kvue", "epsilon": "2"},
    }
    file, campaign = written(tmp_path / "r.parquet", [(bytes(16), b"\x01")]), document(tmp_path / "c.json", asked)

    assert run(["tally", str(file), "--campaign", campaign]) == 2
    assert "campaign/dictionary" in capsys.readouterr().err
    (tmp_path / f"{sha256}.json").write_bytes(names)
    assert run(["tally", str(file), "--campaign", campaign, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reports"] == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["missing.parquet"], "no file missing.parquet."),
        (["."], "input/file"),
        (["r.parquet", "--campaign", "digits.json"], "input/json"),
        (["r.parquet", "--out", "."], "output/file"),
        (["r.parquet", "--keys-file", "missing"], "'missing' does not exist"),
        (["r.parquet", "--engine", "spark"], "engine/unknown"),
        (["r.parquet", "--engine", "abacus"], "engine/unknown"),
        (["r.parquet", "--campaign", "missing.json"], "input/file"),
        (["r.parquet", "--campaign", "r.parquet"], "input/file"),
        (["c.json"], "input/parquet"),
        (["other.parquet"], "input/parquet"),
    ],
    ids=str,
)
def test_bad_input_ends_with_one_line(
    arguments: list[str], code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.chdir(tmp_path)
    written(Path("r.parquet"), reports(first_round(SNACKS), 3))
    document(Path("c.json"), SNACKS)
    Path("digits.json").write_text("9" * 10_000)
    parquet.write_table(pyarrow.table({"id": [1], "payload": ["x"], "round": [1]}), "other.parquet")
    named = arguments if "--campaign" in arguments else [*arguments, "--campaign", "c.json"]

    assert run(["tally", *named]) == 2
    out, err = capsys.readouterr()
    assert out == "" and code in err and err.startswith("keyveil: ") and err.count("\n") == 1
