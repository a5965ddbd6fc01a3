from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import pytest

from keyveil.cli import main
from keyveil.cli.app import run
from keyveil.collector.settings import Settings
from keyveil.core.schema import Schema
from keyveil.mechanisms.registry import mechanism_names
from tests.contract.cases import NOT_TIGHT

Output = pytest.CaptureFixture[str]


def certified(output: Output, *arguments: str) -> dict[str, object]:
    assert run(["certify", *arguments, "--json"]) == 0
    document: dict[str, object] = json.loads(output.readouterr().out)
    return document


@pytest.mark.parametrize("name", mechanism_names())
def test_everything_in_the_registry_is_certified(name: str, capsys: Output) -> None:
    document = certified(capsys, "--mechanism", name, "--epsilon", "0.5", "--keys", "6")
    assert set(document) == {
        "mechanism", "requested_epsilon", "exact_epsilon", "exact_epsilon_decimal", "at_most", "certified",
        "method", "sizes", "worst"
    }  # fmt: skip
    assert document["certified"] is True
    assert (0 if name in NOT_TIGHT else 0.5 - 1e-6) < float(str(document["exact_epsilon"])) <= 0.5


@pytest.mark.parametrize("epsilon", ["0.3", "0.7", "1.1"])
@pytest.mark.parametrize("name", ["grr", "kvue", "ssr", "privkvm"])
def test_the_exact_decimal_compares_with_the_request(name: str, epsilon: str, capsys: Output) -> None:
    document = certified(capsys, "--mechanism", name, "--epsilon", epsilon, "--keys", "6")
    assert document["certified"] is True
    assert Decimal(str(document["exact_epsilon_decimal"])) <= Decimal(epsilon)
    assert Decimal(float(str(document["exact_epsilon"]))) >= Decimal(str(document["exact_epsilon_decimal"]))


def told(document: Any) -> Iterator[dict[str, Any]]:
    """Every object of a document that tells an exact epsilon."""
    parts = list(document.values()) if isinstance(document, dict) else document if isinstance(document, list) else []
    if isinstance(document, dict) and "exact_epsilon" in document:
        yield document
    for part in parts:
        yield from told(part)


@pytest.mark.parametrize(
    "command",
    [
        "certify --mechanism kvue --epsilon 0.3",
        "simulate synthetic:uniform:200 --mechanism ssr --epsilon 0.3 --seed 1",
        "simulate synthetic:uniform:200 --mechanism privkvm --epsilon 0.3 --seed 1",
        "compare synthetic:uniform:200 --mechanisms kvue,ssr --epsilon 0.3",
        "campaign check FILE --people 200",
    ],
)
def test_wherever_an_exact_epsilon_is_told_its_decimal_stands_beside_it(
    command: str, tmp_path: Path, capsys: Output
) -> None:
    plain = ["--name", "c", "--purpose", "C.", "--keys", "4", "--mechanism", "kvue", "--epsilon", "0.3"]
    assert run(["campaign", "create", *plain, "--out", str(tmp_path / "c.json")]) == 0
    capsys.readouterr()

    assert run([*command.replace("FILE", str(tmp_path / "c.json")).split(), "--json"]) == 0
    found = list(told(json.loads(capsys.readouterr().out)))

    assert found
    for one in found:
        assert Decimal("0.1") < Decimal(one["exact_epsilon_decimal"]) <= Decimal("0.3")
        assert Decimal(one["exact_epsilon"]) >= Decimal(one["exact_epsilon_decimal"])


def test_small_domains_are_enumerated_as_they_are(capsys: Output) -> None:
    small = certified(capsys, "--mechanism", "kvue", "--epsilon", "1", "--keys", "2")
    large = certified(capsys, "--mechanism", "kvue", "--epsilon", "1", "--keys", "1000")
    assert (small["method"], large["method"]) == ("enumeration", "closed-form")


def test_all_at_once_as_a_table_and_as_json(capsys: Output) -> None:
    assert run(["certify", "--mechanism", "all", "--epsilon", "1", "--keys", "4"]) == 0
    table = capsys.readouterr().out
    assert all(name in table for name in mechanism_names())
    documents = certified(capsys, "--mechanism", "all", "--epsilon", "1", "--keys", "4")["certificates"]
    assert isinstance(documents, list)
    assert [document["mechanism"] for document in documents] == list(mechanism_names())


def test_what_a_mechanism_must_know_is_assumed_and_said(capsys: Output) -> None:
    assert run(["certify", "--mechanism", "ssr", "--epsilon", "1", "--keys", "20", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["certified"] is True
    assert "--max-pairs" in err
    assert run(["certify", "--mechanism", "ssr", "--epsilon", "1", "--keys", "20", "--max-pairs", "4", "--json"]) == 0
    assert capsys.readouterr().err == ""


def test_what_does_not_fit_is_left_out_with_its_reason(capsys: Output) -> None:
    assert run(["certify", "--mechanism", "all", "--epsilon", "1", "--keys", "12", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document["left_out"]) == {"ioh"}
    assert run(["certify", "--mechanism", "ioh", "--epsilon", "1", "--keys", "12"]) == 2


def test_options_reach_the_mechanism(capsys: Output) -> None:
    document = certified(capsys, "--mechanism", "olh", "--epsilon", "1", "--set", "buckets=3")
    assert document["certified"] is True
    assert run(["certify", "--mechanism", "grr", "--epsilon", "1", "--set", "buckets=3"]) == 2


def test_what_is_not_certified_ends_with_status_one(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    from tests.contract.test_mutants import LooseRounding

    loose = LooseRounding(Schema(keys=3), Fraction(1))
    monkeypatch.setattr("keyveil.cli.certify.without_data", lambda name, keys, epsilon, options: loose)
    assert run(["certify", "--mechanism", "grr", "--epsilon", "1", "--keys", "3", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["certified"] is False


@pytest.mark.parametrize(
    "arguments",
    [
        ["certify", "--mechanism", "grr", "--epsilon", "0"],
        ["certify", "--mechanism", "grr", "--epsilon", "-1"],
        ["certify", "--mechanism", "grr", "--epsilon", "nan"],
        ["certify", "--mechanism", "grr", "--epsilon", "inf"],
        ["certify", "--mechanism", "grr", "--epsilon", "1", "--keys", "0"],
        ["certify", "--mechanism", "grr", "--epsilon", "1", "--keys", "1"],
        ["certify", "--mechanism", "grr", "--epsilon", "1", "--keys", "many"],
        ["certify", "--mechanism", "unknown", "--epsilon", "1"],
        ["certify", "--mechanism", "grr", "--epsilon", "1", "--set", "nonsense"],
        ["certify", "--mechanism", "grr", "--epsilon", "1", "--max-pairs", "3"],
        ["certify", "--mechanism", "grr"],
        ["certify", "--nonsense"],
        ["nonsense"],
        ["demo", "--people", "3"],
        ["simulate", "synthetic:linear-s:" + "9" * 5000, "--mechanism", "grr", "--epsilon", "1"],
        ["campaign", "create", "--keys", "9" * 5000],
    ],
    ids=lambda arguments: " ".join(arguments)[:60],
)
def test_bad_input_ends_with_one_line_and_status_two(arguments: list[str], capsys: Output) -> None:
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("keyveil: ") and err.count("\n") == 1


def test_help_and_version_are_there(capsys: Output) -> None:
    assert run([]) == run(["--help"]) == run(["certify", "--help"]) == run(["--version"]) == 0
    assert "certify" in capsys.readouterr().out


@pytest.mark.parametrize("named", ["other.db", "sqlite:///OTHER"])
def test_a_collector_takes_a_file_or_an_address(named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    served: list[Settings] = []
    monkeypatch.setattr("keyveil.collector.serving.serve", lambda settings, *_: served.append(settings))
    assert run(["serve", "--database", named]) == 0
    expected = named if "://" in named else f"sqlite:///{tmp_path / named}"
    assert served[0].database_url == expected


def test_an_interrupt_while_modules_load_is_silent(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    class Impatient(MetaPathFinder):
        def find_spec(self, name: str, *_: object) -> None:
            if name == "keyveil.cli.app":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "keyveil.cli.app")
    monkeypatch.setattr(sys, "meta_path", [Impatient(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "")


def test_the_command_is_installed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "keyveil", "certify", "--mechanism", "grr", "--epsilon", "x"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_certify_says_what_shuffling_would_add(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "certify",
        "--mechanism",
        "kvue",
        "--epsilon",
        "1",
        "--keys",
        "5",
        "--shuffled",
        "10000",
        "--delta",
        "1e-6",
    ]
    assert run([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["shuffled"]["method"] == "closed-form"
    assert 0 < found["shuffled"]["epsilon"] < 0.1
    assert found["shuffled"]["local_epsilon"] == pytest.approx(found["exact_epsilon"], abs=2e-9)
    assert run(arguments) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "the local epsilon is 1" in told
    assert "Today's collector is not such a channel" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--mechanism kvue --epsilon 1 --shuffled 100", "--shuffled N --delta D"),
        ("--mechanism kvue --epsilon 1 --shuffled 0 --delta 0.1", "At least one report"),
        ("--mechanism kvue --epsilon 1 --shuffled 10 --delta 2", "Delta lies between 1e-100 and 1"),
        ("--mechanism all --epsilon 1 --shuffled 10 --delta 0.1", "needs one name"),
        ("--mechanism privkvm --epsilon 1 --shuffled 10 --delta 0.1", "several rounds"),
        ("--mechanism kvue", "needs --mechanism and --epsilon"),
    ],
)
def test_certify_refuses_what_shuffling_cannot_be_about(
    arguments: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["certify", *arguments.split()]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "told"), [("--enrolment token", "enrolment token"), ("--renew 7 --closes 2030-01-01", "Standing reports")]
)
def test_shuffling_is_refused_for_campaigns_that_link_reports(
    flags: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, plain = tmp_path / "one.json", tmp_path / "plain.json"
    created = "campaign create --name x --purpose y --keys a,b --mechanism kvue --epsilon 1 --min-reports 100 --out"
    assert run([*created.split(), str(path), *flags.split()]) == 0
    assert run([*created.split(), str(plain)]) == 0
    capsys.readouterr()
    assert run(["certify", "--campaign", str(path), "--shuffled", "1000", "--delta", "1e-6"]) == 2
    assert told in capsys.readouterr().err
    assert run(["certify", "--campaign", str(plain), "--shuffled", "1000", "--delta", "1e-6", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["shuffled"]["people"] == 1000
