from __future__ import annotations

import json
from pathlib import Path

import pytest

from keyveil.cli.app import run

Output = pytest.CaptureFixture[str]

FOREIGN = """
import secrets

def fair(record):
    return secrets.randbelow(4)

def leaky(record):
    return record if secrets.randbelow(4) else 1 - record

class Device:
    def perturb(self, record):
        return len(record) if secrets.randbelow(2) else 0

device = Device()
"""


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"foreign_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(FOREIGN)
    monkeypatch.chdir(tmp_path)
    return name


def test_a_mechanism_of_the_registry_is_not_refuted(capsys: Output) -> None:
    # Real coins: at this confidence a false alarm has probability below 1e-9.
    arguments = [
        "--mechanism",
        "kvue",
        "--epsilon",
        "1",
        "--keys",
        "3",
        "--seconds",
        "1",
        "--confidence",
        "0.999999999",
    ]
    assert run(["audit", *arguments, "--json"]) == 0
    output = capsys.readouterr()
    document = json.loads(output.out)
    assert set(document) == {"mechanism", "requested_epsilon", "lower_bound", "confidence", "worst"}
    assert 0 < document["lower_bound"] <= 1


def test_foreign_code_that_tells_too_much_ends_with_status_one(foreign: str, capsys: Output) -> None:
    arguments = [
        "--subject",
        f"{foreign}:leaky",
        "--epsilon",
        "0.5",
        "--record",
        "0",
        "--record",
        "1",
        "--seconds",
        "1",
    ]
    assert run(["audit", *arguments]) == 1
    shown = capsys.readouterr().out
    assert "PROMISE BROKEN" in shown
    assert "leaky" in shown
    assert "report is" in shown


def test_foreign_objects_get_records_of_a_schema(foreign: str, capsys: Output) -> None:
    assert run(["audit", "--subject", f"{foreign}:device", "--epsilon", "1", "--keys", "3", "--seconds", "1"]) == 1
    assert "PROMISE BROKEN" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Give --mechanism or --subject"),
        (["--mechanism", "grr", "--subject", "os:getcwd"], "Give --mechanism or --subject"),
        (["--subject", "os"], "takes module:attribute"),
        (["--subject", "there_is_no_such:thing"], "cannot be imported"),
        (["--subject", "os:nothing"], "cannot be imported"),
        (["--subject", "decimal:Decimal"], "is a class"),
        (["--subject", "os:getcwd", "--record", "{"], "takes JSON"),
        (["--mechanism", "grr", "--confidence", "2"], "lies between 0 and 1"),
        (["--mechanism", "nothing-known"], "There is no mechanism"),
        (["--mechanism", "kvue", "--record", '{"zzz":1}', "--record", "{}"], "no key 'zzz'"),
        (["--mechanism", "kvue", "--record", '{"10":1}', "--record", "{}"], "'0' to '9'. [audit/unknown-key]"),
        (["--mechanism", "kvue", "--record", '{"1":5}', "--record", '{"1":1}'], "the same: nothing differs. [audit/s"),
        (["--mechanism", "kvue", "--record", '{"1":null}', "--record", "{}"], "[audit/same-record]"),
        (["--mechanism", "grr", "--record", '{"1":0}', "--record", '{"1":1}'], "[audit/same-record]"),
        (["--mechanism", "privkvm", "--record", '{"zzz":1}', "--record", "{}"], "[audit/unknown-key]"),
        (["--subject", "os:getcwd", "--record", "7", "--record", "7"], "[audit/same-record]"),
    ],
)
def test_mistakes_end_with_one_line_and_status_two(arguments: list[str], words: str, capsys: Output) -> None:
    assert run(["audit", "--epsilon", "1", *arguments]) == 2
    mistake = capsys.readouterr().err
    assert words in mistake
    assert mistake.count("\n") == 1


def test_mechanisms_side_by_side_are_not_refuted(capsys: Output) -> None:
    # Real coins: at this confidence a false alarm has probability below 1e-9.
    words = "--mechanism split --epsilon 1 --keys 3 --max-pairs 2 --seconds 1 --confidence 0.999999999"
    assert run(["audit", *words.split(), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["mechanism"] == "split" and document["lower_bound"] <= 1
