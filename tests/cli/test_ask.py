"""``keyveil campaign ask``: a campaign answers the questions that ``keyveil estimate`` asks of its tally."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from keyveil.cli.app import run
from keyveil.collector.service import Service
from tests.collector.campaigns import batch_of, started
from tests.collector.processes import served

Output = pytest.CaptureFixture[str]

MECHANISMS: dict[str, dict[str, Any]] = {
    "shares": {"name": "ssr", "epsilon": "4", "max_pairs": 2},
    "values": {"name": "kv-sw", "epsilon": "4", "max_pairs": 2},
    "together": {"name": "moments", "epsilon": "4", "order": 3},
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with three campaigns that take reports, of three mechanisms that tell different things."""
    path = tmp_path_factory.mktemp("ask") / "collector.db"
    service = Service(f"sqlite:///{path}")
    for name, protocol in MECHANISMS.items():
        service.submit(name, batch_of(started(service, name=name, protocol=protocol), 1500)).result(60)
    service.settle()
    service.close()
    return str(path)


def printed(output: Output, *arguments: str) -> Any:
    assert run([*arguments, "--json"]) == 0, output.readouterr().err
    return json.loads(output.readouterr().out)


QUESTIONS = [
    ("shares", ["--rank", "2"], "ranking"),
    ("shares", ["--rank", "3", "--confidence", "0.5"], "ranking"),
    ("shares", ["--subset", "burger,fries"], "sums"),
    ("shares", ["--compare", "burger,fries", "--compare", "burger,pepsi"], "comparisons"),
    ("shares", ["--compare", "burger,fries", "--of", "mean", "--confidence", "0.8"], "comparisons"),
    ("values", ["--quantiles", "0.25,0.5"], "quantiles"),
    ("values", ["--quantiles", "0.5", "--keys", "pepsi"], "quantiles"),
    ("together", ["--given", "pepsi|burger,!fries", "--given", "pepsi|burger"], "given"),
]


@pytest.mark.parametrize(("name", "options", "group"), QUESTIONS, ids=str)
def test_a_campaign_answers_as_its_tally_does(
    name: str, options: list[str], group: str, database: str, tmp_path: Path, capsys: Output
) -> None:
    tally = str(tmp_path / "counts.tally")
    assert run(["campaign", "export", name, "--tally", "--out", tally, "--database", database]) == 0
    capsys.readouterr()

    found = printed(capsys, "campaign", "ask", name, *options, "--database", database)
    expected = printed(capsys, "estimate", tally, *options)

    assert found[group] and found == {kind: expected[kind] for kind in found}
    assert [kind for kind, rows in found.items() if rows] == [group]


def test_answers_are_shown_as_tables(database: str, capsys: Output) -> None:
    assert run(["campaign", "ask", "shares", "--rank", "2", "--subset", "burger,fries", "--database", database]) == 0
    out = capsys.readouterr().out
    assert "The most frequent keys" in out and "burger + fries" in out and "1 to " in out

    assert run(["campaign", "ask", "together", "--given", "pepsi|burger,!fries", "--database", database]) == 0
    assert "burger, not fries" in capsys.readouterr().out


def test_a_question_may_be_given_as_json(database: str, capsys: Output) -> None:
    question = '{"kind": "top", "count": 2, "confidence": "0.9", "round": 1}'
    raw = printed(capsys, "campaign", "ask", "shares", "--question", question, "--database", database)
    options = ["--rank", "2", "--confidence", "0.9", "--round", "1"]

    assert raw == printed(capsys, "campaign", "ask", "shares", *options, "--database", database)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("shares", ["--given", "pepsi|burger"], "moments"),
        ("shares", ["--quantiles", "0.5"], "kv-sw"),
        ("shares", [], "question/nothing"),
        ("shares", ["--of", "mean", "--rank", "2"], "question/of"),
        ("shares", ["--keys", "pepsi", "--rank", "2"], "question/keys"),
        ("shares", ["--rank", "2", "--confidence", "2"], "question/confidence"),
        ("shares", ["--rank", "2", "--round", "2"], "round/unknown"),
        ("shares", ["--rank", "9"], "question/top"),
        ("shares", ["--subset", "nothing"], "schema/unknown-key"),
        ("shares", ["--compare", "burger"], "question/keys"),
        ("shares", ["--question", "[]"], "question/document"),
        ("shares", ["--question", "{"], "question/document"),
        ("shares", ["--question", '{"kind": "median"}'], "question/kind"),
        ("nobody", ["--rank", "2"], "campaign/unknown"),
    ],
    ids=str,
)
def test_what_cannot_be_answered_is_refused_in_one_line(
    name: str, options: list[str], said: str, database: str, capsys: Output
) -> None:
    assert run(["campaign", "ask", name, *options, "--database", database]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("keyveil: ") and err.count("\n") == 1
    assert said in err


def test_a_running_collector_is_asked_over_http(database: str, tmp_path: Path, capsys: Output) -> None:
    token = tmp_path / "token"
    options = ["campaign", "ask", "shares", "--rank", "3", "--compare", "burger,pepsi"]
    expected = printed(capsys, *options, "--database", database)

    with served(tmp_path / "collector", "--database", database) as one:
        token.write_text(one.tokens["analyst"])
        where = ["--server", f"http://127.0.0.1:{one.port}", "--token-file", str(token)]
        assert printed(capsys, *options, *where) == expected
