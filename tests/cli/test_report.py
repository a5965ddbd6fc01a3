"""``keyveil report`` against a collector on a real port."""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from keyveil.cli.app import run
from keyveil.device import Device
from tests.device.collector import Collector, document, problem

Output = pytest.CaptureFixture[str]


class Served(Collector):
    """The collector of the device's tests behind a real port."""

    url = ""


@pytest.fixture
def served() -> Iterator[Served]:
    collector = Served()
    collector.open(document())

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            said = collector.request(self.command, self.path, body, dict(self.headers))
            self.send_response(said.status)
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(said.body)))
            self.end_headers()
            self.wfile.write(said.body)

        do_GET = do_POST = answer  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        collector.url = f"http://127.0.0.1:{server.server_port}"
        yield collector
        server.shutdown()


class Terminal(io.StringIO):
    """Somebody who types."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "home" / "device.db")


def test_one_report_takes_one_request_for_the_campaign_and_one_look_at_the_record(
    served: Served, file: str, tmp_path: Path, capsys: Output
) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")  # can be read once only
    writer = threading.Thread(target=lambda: pipe.write_bytes(b'{"fries": 4}'))
    writer.start()
    ask = ["report", "snack-survey", "--server", served.url, "--device", file, "--yes", "--record-file", str(pipe)]

    assert run(ask) == 0
    writer.join()
    assert (served.gets, len(served.bodies)) == (1, 1)


def test_a_campaign_is_answered_by_its_hash(served: Served, file: str, capsys: Output) -> None:
    digits = served.views["snack-survey"]["hash"][:10]
    ask = ["report", digits, "--server", served.url, "--device", file, "--yes", "--record", "{}", "--json"]

    assert run(ask) == 0
    assert json.loads(capsys.readouterr().out)["campaign"] == f"{served.url}/snack-survey"


def test_a_report_is_explained_agreed_to_and_sent(served: Served, file: str, capsys: Output) -> None:
    ask = ["report", "snack-survey", "--server", served.url, "--device", file]

    assert run([*ask, "--explain"]) == 0
    text = capsys.readouterr().out
    for said in ("Which snacks people buy", "burger, fries, pepsi", "epsilon 1 ", "from 1 to 5", "privacy@example.org"):
        assert said in text
    assert not served.bodies

    assert run([*ask, "--record", '{"fries": 4}', "--yes", "--json"]) == 0
    captured = capsys.readouterr()
    outcome = json.loads(captured.out)
    assert outcome["state"] == "sent" and outcome["epsilon"].startswith("0.99999999")
    assert "Which snacks people buy" in captured.err  # shown before it was agreed to
    assert len(served.bodies) == 1

    assert run([*ask, "--record", '{"fries": 1}']) == 0  # agreed before; the same report, for which nobody is asked
    captured = capsys.readouterr()
    assert "nothing more" in captured.out and "was not used" in captured.err
    assert len(set(served.bodies)) == 1


def test_without_a_terminal_consent_must_be_said(
    served: Served, file: str, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = ["report", "snack-survey", "--server", served.url, "--device", file, "--record", "{}"]
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert run(ask) == 2
    assert "--yes" in capsys.readouterr().err.splitlines()[-1]
    assert not served.bodies


@pytest.mark.parametrize(("word", "status"), [("y\n", 0), ("n\n", 2), ("\n", 2), ("", 2)])
def test_at_a_terminal_the_owner_is_asked(
    served: Served, file: str, word: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(word))
    assert run(["report", "snack-survey", "--server", served.url, "--device", file, "--record", "{}"]) == status
    assert len(served.bodies) == (status == 0)


@pytest.mark.parametrize(
    "value", ["null", '"secret"', "[1]", '{"a": 1}', "NaN", "-Infinity", "1e400", "9" * 400, "9" * 10_000]
)
def test_a_value_that_is_no_number_counts_as_nothing_and_a_report_is_sent(
    served: Served, file: str, value: str, capsys: Output
) -> None:
    ask = ["report", "snack-survey", "--server", served.url, "--device", file, "--yes"]
    assert run([*ask, "--record", f'{{"fries": {value}, "pepsi": 2}}']) == 0
    assert len(served.bodies) == 1
    said = capsys.readouterr().err
    assert "The value of 'fries' is no number; that counts as nothing." in said
    assert "secret" not in said and "pepsi' is" not in said


@pytest.mark.parametrize("record", ["{}", '{"fries": 4}', '{"nope": 1}'])
def test_before_every_spending_the_owner_is_asked_whatever_the_record(
    served: Served, file: str, record: str, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where consent was given before: here the owner agrees, and a further campaign costs again."""
    ask = ["report", "snack-survey", "--server", served.url, "--device", file, "--record", record]
    first = {"opens": "2020-01-01", "closes": "2020-01-02"}
    served.open(document(rounds=[first]))
    with Device(file, served, collector=served.url) as one:
        one.consent("snack-survey")
    served.open(document(rounds=[{"opens": "2020-01-03", "closes": "2999-01-01"}]))
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert run(ask) == 2 and not served.bodies
    said = capsys.readouterr().err
    assert "This costs epsilon 1." in said and "Keys that count: " in said
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert run(ask) == 0 and len(served.bodies) == 1


def test_what_the_campaign_does_not_know_is_named(
    served: Served, file: str, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = ["report", "snack-survey", "--server", served.url, "--device", file, "--record", '{"nope": 4, "fries": 2}']
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert run(ask) == 2 and not served.bodies
    assert "does not ask about 'nope';" in capsys.readouterr().err

    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert run(ask) == 0 and len(served.bodies) == 1
    capsys.readouterr()
    assert run([*ask, "--yes"]) == 0
    assert "'nope'" in capsys.readouterr().err


def test_nothing_is_spent_without_the_token_that_is_needed(
    served: Served, file: str, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.open({**document(), "enrolment": "token"})
    ask = ["report", "snack-survey", "--server", served.url, "--device", file, "--record", "{}", "--yes"]
    monkeypatch.delenv("KEYVEIL_TOKEN", raising=False)
    assert run(ask) == 2
    assert "KEYVEIL_TOKEN. [enrolment/token]" in capsys.readouterr().err
    assert run(["report", "--device", file, "--export"]) == 0
    books = json.loads(capsys.readouterr().out)
    assert books["entries"] == [] and books["consents"] == {}

    monkeypatch.setenv("KEYVEIL_TOKEN", "kv-token")
    assert run(ask) == 0
    assert served.headers[-1]["Authorization"] == "Bearer kv-token"
    monkeypatch.delenv("KEYVEIL_TOKEN")
    assert run(ask) == 0  # the same report once more


def test_a_token_of_the_environment_goes_only_to_those_who_ask(
    served: Served, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYVEIL_TOKEN", "kv-admin")
    assert run(["report", "snack-survey", "--server", served.url, "--device", file, "--record", "{}", "--yes"]) == 0
    assert "Authorization" not in served.headers[-1]


@pytest.mark.parametrize(("state", "said"), [("draft", "not open yet"), ("closed", "over"), ("estimated", "over")])
def test_a_campaign_that_is_not_running_takes_no_consent(
    served: Served, file: str, capsys: Output, state: str, said: str
) -> None:
    served.views["snack-survey"] |= {"state": state, "round": None}
    ask = ["report", "snack-survey", "--server", served.url, "--device", file, "--record", "{}", "--yes"]
    assert run(ask) == 1
    assert capsys.readouterr() == (f"snack-survey is {said}.\n", "")
    assert run([*ask, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["state"] == "closed"
    assert run(["report", "--device", file, "--export"]) == 0
    assert json.loads(capsys.readouterr().out)["consents"] == {}


def test_the_books_can_be_read_flushed_and_closed(served: Served, file: str, tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "record.json").write_text('{"pepsi": 2.5}')
    (tmp_path / "token").write_text("kv-token\n")
    served.script = [lambda batch: problem(503, "storage/unavailable", retry_after="3600")]
    ask = ["report", "--device", file]
    tell = ["--record-file", str(tmp_path / "record.json"), "--token-file", str(tmp_path / "token"), "--yes"]

    assert run([*ask, "snack-survey", "--server", served.url, *tell]) == 1
    assert "--flush" in capsys.readouterr().out
    served.script.clear()
    assert run([*ask, "--flush", "--server", served.url]) == 0
    assert run([*ask, "--flush", "--server", served.url]) == 0
    assert "Nothing waits" in capsys.readouterr().out
    assert served.headers[-1]["Authorization"] == "Bearer kv-token"
    assert len(set(served.bodies)) == 1

    assert run([*ask, "--ledger"]) == 0
    assert "kvue" in capsys.readouterr().out
    assert run([*ask, "--export"]) == 0
    assert json.loads(capsys.readouterr().out)["entries"][0]["state"] == "sent"
    assert run([*ask, "--withdraw", "snack-survey", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"withdrawn": "snack-survey", "deleted": 0}
    assert run([*ask, "--withdraw", "other"]) == 2


def test_a_cap_is_an_error_in_one_line(served: Served, file: str, capsys: Output) -> None:
    ask = ["report", "snack-survey", "--server", served.url, "--device", file, "--record", "{}", "--yes"]
    assert run([*ask, "--cap", "life=0.5"]) == 2
    assert "budget/exceeded" in capsys.readouterr().err.splitlines()[-1]
    assert run([*ask]) == 2  # the file remembers
    assert run([*ask, "--cap", "life=1"]) == 2
    assert "budget/looser" in capsys.readouterr().err.splitlines()[-1]
    assert not served.bodies
    assert run([*ask, "--cap", "life=1", "--loosen"]) == 0
    assert run(["report", "--device", file, "--export"]) == 0
    assert json.loads(capsys.readouterr().out.split("\n", 1)[1])["caps"]["life"] == "1"


def test_every_key_can_be_named(served: Served, file: str, capsys: Output) -> None:
    keys = [f"app-{number}" for number in range(12)] + ["hiv-positive", "another"]
    served.open(document(schema={"keys": keys, "low": 0, "high": 1}))
    ask = ["report", "snack-survey", "--server", served.url, "--device", file]

    assert run([*ask, "--explain"]) == 0
    text = capsys.readouterr().out
    assert "hiv-positive" not in text and "and 2 that are not named here" in text
    assert run([*ask, "--explain", "--keys"]) == 0
    text = capsys.readouterr().out
    assert "hiv-positive" in text and "not named" not in text
    assert run([*ask, "--record", "{}", "--yes"]) == 0
    assert "--keys" in capsys.readouterr().err  # whoever is asked to agree learns how to see the rest


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "NAME"),
        (["snack-survey", "--flush"], "NAME"),
        (["snack-survey", "--record", "{}"], "--server"),
        (["snack-survey", "--server", "URL", "--yes"], "record/missing"),
        (["snack-survey", "--server", "URL", "--record", "{'fries': 4}"], "record/json"),
        (["snack-survey", "--server", "URL", "--record", '["secret"]'], "record/json"),
        (["snack-survey", "--server", "URL", "--record-file", "nowhere.json"], "record/file"),
        (["snack-survey", "--server", "URL", "--record", "{}", "--cap", "death=1"], "epsilon/cap"),
        (["unknown", "--server", "URL", "--record", "{}"], "campaign/unknown"),
        (["snack-survey", "--server", "http://192.0.2.1", "--record", "{}"], "--plain. [transport/plain]"),
        (["snack-survey", "--server", "http://127.0.0.1:1", "--record", "{}"], "http://127.0.0.1:1"),
        (["snack-survey", "--server", "URL", "--record", "[" * 100_000], "record/json"),
        (["snack-survey", "--server", "URL", "--record", '{"fries": 1, "fries": 2}'], "record/twice"),
        (["snack-survey", "--server", "URL", "--record", "{}", "--record-file", "r.json"], "not both"),
        (["snack-survey", "--ledger", "--record", "{}"], "not several"),
        (["--ledger", "--record", "{}"], "NAME"),
        (["--ledger"], "device/file"),
        (["--withdraw", "snack-survey"], "device/file"),
    ],
)
def test_mistakes_are_one_line_and_status_2(
    served: Served, file: str, capsys: Output, arguments: list[str], said: str
) -> None:
    filled = [served.url if argument == "URL" else argument for argument in arguments]
    assert run(["report", "--device", file, *filled]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line and "secret" not in line
    assert not served.bodies and not (served.gets and said.startswith("record/"))  # no visit without a report


def test_a_refusal_cannot_steer_the_terminal(served: Served, file: str, capsys: Output) -> None:
    served.views["snack-survey"]["campaign"]["protocol"]["\x1b[2J\u202e"] = 10**12
    assert run(["report", "snack-survey", "--server", served.url, "--device", file, "--explain"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "device/limits" in line and line.isprintable()


def test_every_sentence_of_an_error_is_plain(file: str, capsys: Output) -> None:
    assert run(["report", "--device", file, "--withdraw", "x", "--record", "{}"]) == 2
    assert run(["report", "--device", f"{file}\x1b[2J", "--ledger"]) == 2
    assert all(line.isprintable() for line in capsys.readouterr().err.splitlines())
