"""What pages call "the same as code" is the same: command and program run, and give the numbers of the page."""

from __future__ import annotations

import html
import json
import re
import shlex
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.cli.app import run
from keyveil.core.estimates import Estimates
from keyveil.core.schema import Schema
from keyveil.device import HttpTransport
from keyveil.display.answers import comparison_sentence, conditional_sentence, interval_text, share_text
from keyveil.privacy.words import at_most
from tests.browser.accessibility import complaints
from tests.browser.chromium import Chromium
from tests.browser.conftest import administer
from tests.collector.campaigns import SNACKS, batch_of, snacks
from tests.collector.processes import Served
from tests.dashboard.browsing import Browser, Elements

NAME = "weekly-snacks"
SCHEMA = Schema.from_document(SNACKS["schema"])
PURPOSE = "Which snacks people buy."
WISH = {
    "goal": "frequency",
    "epsilon": "2",
    "change": "8",
    "people": "20000",
    "pairs": "1.5",
    "low": "1",
    "high": "5",
    "purpose": PURPOSE,
    "min_reports": "50",
}
PEOPLE: tuple[dict[str, float], ...] = ({"fries": 5.0, "pepsi": 4.0}, {"fries": 4.0}, {"burger": 2.0}, {})


def filled(server: Served, **fields: Any) -> None:
    document = snacks(name=NAME, protocol={"name": "moments", "epsilon": "4"}, min_reports=100, **fields)
    administer(server, "POST", "/v1/campaigns", document)
    view = administer(server, "PATCH", f"/v1/campaigns/{NAME}", {"action": "open"})
    asked = RoundDocument.from_document(view["round"]["document"], Campaign.from_document(view["campaign"]))
    administer(server, "POST", f"/v1/campaigns/{NAME}/reports", json.loads(batch_of(asked, 900, PEOPLE).to_json()))
    administer(server, "PATCH", f"/v1/campaigns/{NAME}", {"action": "stop"})
    for _ in range(200):
        if administer(server, "GET", f"/v1/campaigns/{NAME}")["state"] == "estimated":
            return
        time.sleep(0.1)
    raise AssertionError("The reports were not counted.")


@pytest.fixture(scope="module")
def pages(server: Served) -> Iterator[Browser]:
    """Somebody who looks at two campaigns of a series, over HTTP."""
    for purpose in ("This week.", "Next week."):
        filled(server, purpose=purpose)
    transport = HttpTransport(f"http://127.0.0.1:{server.port}")
    yield Browser(transport).sign_in(server.tokens["analyst"])
    transport.close()


@pytest.fixture
def folder(server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "analyst.token").write_text(server.tokens["analyst"] + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def blocks(page: Browser) -> list[str]:
    """The code that a page shows."""
    return [html.unescape(one) for one in re.findall(r"<pre><code>(.*?)</code></pre>", page.text, re.DOTALL)]


def both(page: Browser, output: pytest.CaptureFixture[str], json_too: bool = True) -> tuple[Any, Any]:
    """What the page's command prints as JSON, and what its program holds as the answer."""
    command, program = blocks(page)
    first, *words = shlex.split(command)
    assert first == "keyveil" and run(words) == 0, output.readouterr().err
    output.readouterr()
    printed = None
    if json_too:
        assert run([*words, "--json"]) == 0
        printed = json.loads(output.readouterr().out)
    names: dict[str, Any] = {}
    exec(program, names)
    return printed, names["answer"]


def rows_of(printed: Any) -> Any:
    """The rows of the one kind of question that was asked."""
    (rows,) = filter(None, printed.values())
    return rows


def at(page: Browser, end: str) -> Browser:
    page.get(f"/campaigns/{NAME}{end}")
    assert page.answer.status == 200, page.words
    return page


def test_questions(pages: Browser, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = at(pages, "/ask?kind=conditional&has=fries&key=pepsi")
    printed, answer = both(page, capsys)
    assert rows_of(printed) == answer and conditional_sentence(answer[0]) in page.words
    page = at(pages, "/ask?kind=compare&first=fries&second=burger")
    printed, answer = both(page, capsys)
    assert rows_of(printed) == answer and comparison_sentence(answer[0]) in page.words
    page = at(pages, "/ask?kind=top&count=3")
    printed, answer = both(page, capsys)
    assert rows_of(printed) == answer and answer[0]["key"] == "fries"
    selected = [{**one, "low": one["selected_low"], "high": one["selected_high"]} for one in answer]
    assert all(share_text(one) in page.words for one in selected)
    page = at(pages, "/ask?kind=subset&keys=fries%0D%0Apepsi")
    printed, answer = both(page, capsys)
    assert rows_of(printed) == answer and interval_text(answer[0]["sum"], 0, 2) in page.words


def test_the_heat_map(pages: Browser, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = at(pages, "/ask?kind=heat&count=3")
    printed, answer = both(page, capsys)
    assert rows_of(printed) == [row for rows in answer.values() for row in rows] and len(answer) == 6
    cells = re.findall(r'title="Of those who hold (\w+), (.*?) hold (\w+);', page.text)
    told = {(one, other): share_text(rows[0]["frequency"]) for (one, other), rows in answer.items()}
    assert cells and all(told[one, other] == share for one, share, other in cells)


def test_results_processed_and_files(pages: Browser, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for end in ("", "?attackers=20"):
        page = at(pages, end)
        printed, answer = both(page, capsys)
        assert printed["estimates"] == answer["estimates"]
        found = Estimates.from_document(answer, SCHEMA)
        assert all(str(found.frequency[key]) in page.words for key in SCHEMA.keys), page.words
    page = at(pages, "/processed?method=base-cut")
    printed, answer = both(page, capsys)
    found = Estimates.from_document(answer, SCHEMA)
    moved = [one["key"] for one in printed["estimates"] if f"{found.frequency[one['key']]}" in page.words]
    assert moved or "moved 0 of" in page.words
    page = at(pages, "/files")
    _, answer = both(page, capsys, json_too=False)
    assert (
        answer
        == (folder / f"{NAME}.csv").read_bytes().decode()
        == page.get(f"/campaigns/{NAME}/files/estimates.csv").text
    )
    assert (folder / f"{NAME}.html").read_text().startswith("<!doctype html>")


def test_changes_and_the_certificate(pages: Browser, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = at(pages, "/compare")
    printed, answer = both(page, capsys)
    assert all(str(one.difference) in page.words for one in answer.values())
    assert json.dumps(printed).count('"key"') >= 3 or printed
    page = at(pages, "/privacy")
    printed, (exact,) = both(page, capsys)
    assert at_most(Decimal(exact)) in page.words and json.dumps(printed).count(exact) >= 1


def test_what_changed_has_no_violation_in_a_browser(pages: Browser, browser: Chromium, server: Served) -> None:
    """The page that needs two campaigns of a series; all others are looked at in test_dashboard."""
    window = browser.private()
    page = window.new_page()
    page.goto(f"http://127.0.0.1:{server.port}")
    page.get_by_label("Token").fill(server.tokens["analyst"])
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Sign out").wait_for()
    page.goto(f"http://127.0.0.1:{server.port}/campaigns/{NAME}/compare")
    page.get_by_role("table").first.wait_for()
    assert complaints(page) == []
    window.close()


@pytest.mark.parametrize("count", [3, 2500])
def test_the_wizard(server: Served, folder: Path, capsys: pytest.CaptureFixture[str], count: int) -> None:
    """Program, commands and page create the same draft; a long list of keys lies beside it."""
    (folder / "admin.token").write_text(server.tokens["admin"] + "\n")
    transport = HttpTransport(f"http://127.0.0.1:{server.port}")
    page = Browser(transport).sign_in(server.tokens["admin"])
    name, keys = f"planned-{count}", "\n".join(f"key-{number}" for number in range(count))
    page.get("/new")
    page.post("/new", stage="check", keys=keys, name=name, **WISH)
    assert f"{name} is in order" in page.words, page.words
    shown, commands, program = blocks(page)
    sent = next(one["value"] for one in Elements(page.text).named("input") if one.get("name") == "document")
    (folder / f"{name}.json").write_text(shown)
    names: dict[str, Any] = {}

    exec(program, names)
    first, number = made(server, name)
    assert names["answer"] == number
    (folder / f"{name}.json").write_text(shown.replace(PURPOSE, "By command."))  # what was deleted is never back
    for command in commands.splitlines():
        start, *words = shlex.split(command)
        assert (start, run([*words, "--json"])) == ("keyveil", 0), capsys.readouterr().err
    assert made(server, name)[0] == {**first, "purpose": "By command."}
    page.post("/new", stage="create", document=sent.replace(PURPOSE, "By the page."))
    assert made(server, name)[0] == {**first, "purpose": "By the page."}
    transport.close()


def made(server: Served, name: str) -> tuple[dict[str, Any], str]:
    """The document of a draft and its hash; it is deleted."""
    view = administer(server, "GET", f"/v1/campaigns/{name}")
    assert view["state"] == "draft"
    administer(server, "DELETE", f"/v1/campaigns/{name}")
    return view["campaign"], view["hash"]
