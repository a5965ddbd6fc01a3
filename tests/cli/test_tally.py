"""Reports on disk become the tally that a collector would have: counted once each, or refused with one sentence."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet as parquet
import pytest

from keyveil.campaign.documents import dictionary_of
from keyveil.cli.app import run
from keyveil.core.coins import Coins
from keyveil.core.estimates import Estimates
from keyveil.core.tally import Tally
from keyveil.robustness.sketches import sketch
from tests.engines.report_files import PILOT, SNACKS, first_round, reports, spoilt, written

Output = pytest.CaptureFixture[str]
GRR = {**SNACKS, "protocol": {"name": "pckv-grr", "epsilon": "1", "max_pairs": 2}}


def document(path: Path, content: Any) -> str:
    path.write_text(json.dumps(content))
    return str(path)


def test_a_file_of_reports_is_counted_and_estimated(tmp_path: Path, capsys: Output) -> None:
    first = first_round(SNACKS)
    rows = reports(first, 700)
    file, campaign = written(tmp_path / "r.parquet", rows), document(tmp_path / "c.json", SNACKS)

    assert run(["tally", str(file), "--campaign", campaign, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    mechanism, codec = first.mechanism, first.mechanism.codec
    plain = [mechanism.decode(padded.rstrip(b"\0")[:-1], public) for public, padded in rows if padded is not None]

    assert codec.varies and said["reports"] == 700 and said["mechanism"] == "ssr"
    assert Tally.from_bytes((tmp_path / "r.tally").read_bytes()) == mechanism.tally(plain)
    assert run(["estimate", str(tmp_path / "r.tally"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n"] == 700


def test_a_sketch_is_written_beside_the_tally_and_looked_at(tmp_path: Path, capsys: Output) -> None:
    unary = {**SNACKS, "protocol": {"name": "pckv-ue", "epsilon": "1", "max_pairs": 2}}
    first = first_round(unary)
    rows = reports(first, 700)
    file, campaign = written(tmp_path / "r.parquet", [*rows, rows[0]]), document(tmp_path / "c.json", unary)
    kept = tmp_path / "r.sketch"
    assert run(["tally", str(file), "--campaign", campaign, "--sketch", str(kept), "--json"]) == 0
    assert str(kept) in json.loads(capsys.readouterr().out)["written"]
    mechanism = first.mechanism
    plain = [mechanism.decode(padded.rstrip(b"\0")[:-1], public) for public, padded in rows if padded is not None]
    assert Tally.from_bytes(kept.read_bytes()) == sketch(mechanism, mechanism.gather(plain)), "copies count once"
    asked = ["estimate", str(tmp_path / "r.tally"), "--sketch", str(kept)]
    assert run([*asked, "--detect", "--recover", "removal", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["suspicion"]["tests"] == ["number of keys", "keys together"]
    assert said["postprocess"]["method"] == "recovery by removal"
    again = Estimates.from_document(said)
    assert "recovery by removal" in repr(again)
    assert run([*asked, "--detect", "--recover", "removal"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "Reports look as honest ones do." in told and "Recovered by removal" in told
    assert run(["tally", str(file), "--campaign", document(tmp_path / "d.json", GRR), "--sketch", str(kept)]) == 2
    assert "[detect/no-sketch]" in capsys.readouterr().err


def test_a_campaign_that_promised_silence_about_few_keeps_it(tmp_path: Path, capsys: Output) -> None:
    file = written(tmp_path / "r.parquet", reports(first_round(SNACKS), 99))
    assert run(["tally", str(file), "--campaign", document(tmp_path / "c.json", SNACKS)]) == 0
    assert (tmp_path / "r.tally").stat().st_mode & 0o777 == 0o600
    capsys.readouterr()

    assert run(["estimate", str(tmp_path / "r.tally")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "99 reports, fewer than 100" in err
    assert run(["estimate", str(tmp_path / "r.tally"), "--min-reports", "0"]) == 0  # whoever holds the counts may look


def test_copies_count_once_and_contradictions_are_one_sentence(tmp_path: Path, capsys: Output) -> None:
    rows, campaign = reports(first_round(SNACKS), 60), document(tmp_path / "c.json", SNACKS)
    file = written(tmp_path / "r.parquet", [*rows, rows[3]])
    assert run(["tally", str(file), "--campaign", campaign, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["reports"], said["copies"], said["files"]) == (60, 1, 1)

    other = next(payload for _, payload in rows if payload != rows[3][1])
    written(file, [*rows, (rows[3][0], other)])
    assert run(["tally", str(file), "--campaign", campaign]) == 2
    error = capsys.readouterr().err
    assert rows[3][0].hex() in error and "report/twice" in error and error.count("\n") == 1


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
    first = first_round(PILOT)
    file, campaign = written(tmp_path / "r.parquet", reports(first, 60)), document(tmp_path / "c.json", PILOT)
    round_document = document(tmp_path / "round.json", first.document())

    assert run(["tally", str(file), "--campaign", campaign]) == 2
    assert "--round-document" in capsys.readouterr().err
    assert run(["tally", str(file), "--campaign", campaign, "--round-document", round_document, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mechanism"] == "set-size"


def test_reports_of_other_people_and_other_rounds_are_refused(tmp_path: Path, capsys: Output) -> None:
    first = first_round(PILOT)
    campaign = document(tmp_path / "c.json", PILOT)
    common = ["--campaign", campaign, "--round-document", document(tmp_path / "round.json", first.document())]
    rows = reports(first, 60)
    everybody = [*rows[:20], *((Coins().bytes(16), payload) for _, payload in rows[20:])]  # a quarter belongs here

    assert run(["tally", str(written(tmp_path / "p.parquet", everybody)), *common]) == 2
    assert "report/part" in capsys.readouterr().err
    assert run(["tally", str(written(tmp_path / "r.parquet", rows, replace(first, number=2))), *common]) == 2
    assert "report/round" in capsys.readouterr().err


def test_a_long_list_of_keys_may_lie_beside(tmp_path: Path, capsys: Output) -> None:
    names = dictionary_of([f"app-{number:04d}" for number in range(2500)])
    sha256 = hashlib.sha256(names).hexdigest()
    content = {
        **SNACKS,
        "schema": {"keys": {"sha256": sha256, "count": 2500}},
        "protocol": {"name": "kvue", "epsilon": "2"},
    }
    file, campaign = (
        written(tmp_path / "r.parquet", [(bytes(16), b"\x01")]),
        document(tmp_path / "c.json", content),
    )

    assert run(["tally", str(file), "--campaign", campaign]) == 2
    assert "campaign/dictionary" in capsys.readouterr().err
    (tmp_path / f"{sha256}.json").write_bytes(names)
    assert run(["tally", str(file), "--campaign", campaign, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reports"] == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["missing.parquet"], "no file missing.parquet."),
        (["."], "input/parquet"),
        (["r.parquet", "--campaign", "digits.json"], "input/json"),
        (["r.parquet", "--out", "."], "output/file"),
        (["r.parquet", "--keys-file", "missing"], "'missing' does not exist"),
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


def test_a_name_that_no_file_can_have_is_one_sentence(capsys: Output) -> None:
    assert run(["tally", "x" * 5000]) == 2
    assert capsys.readouterr().err.strip() == "keyveil: No file has so long a name. [input/file]"
