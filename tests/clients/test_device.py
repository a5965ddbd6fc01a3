"""The rules of the device hold in JavaScript too: what Python's device refuses is refused, with the same codes."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from keyveil.device import Device, Patience
from tests.campaign.test_browser_term import PROTOCOLS
from tests.clients.planted import planted
from tests.device import test_hostile_documents
from tests.device.collector import Collector, Sleeper, Watch, document, json_answer, problem
from tests.device.test_hostile_documents import HOSTILE
from tests.device.test_upload import ODD_ANSWERS, says

HERE = Path(__file__).parent


def run(script: str | Path, *arguments: object) -> Any:
    ran = subprocess.run(["node", HERE / script, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def as_bytes(view: Any) -> str:
    return base64.b64encode(view if isinstance(view, bytes) else json.dumps(view).encode()).decode()


def test_hostile_documents_are_refused_with_the_codes_of_the_python_device(tmp_path: Path) -> None:
    collector = Collector()
    honest = collector.views[collector.open(document()).name]
    path = tmp_path / "views.json"
    path.write_text(json.dumps({"honest": as_bytes(honest), "views": [as_bytes(make()) for _, make, _ in HOSTILE]}))
    found = run("hostile.mjs", path)
    wanted = {name: code for name, _, code in HOSTILE}
    told = {name: one["code"] for (name, *_), one in zip(HOSTILE, found, strict=True)}
    assert told == wanted
    assert all(one["sent"] == 0 and one["same"] for one in found)


def test_the_small_device_refuses_the_same_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of campaigns for browsers, before anything is drawn. It has no reading of rounds that do not follow from the
    campaign, of sizes and of other mechanisms, so what is wrong with those has a plainer code."""
    monkeypatch.setattr(test_hostile_documents, "document", lambda **changes: document(**{"browser": True, **changes}))
    honest = test_hostile_documents.served()
    path = tmp_path / "views.json"
    path.write_text(json.dumps({"honest": as_bytes(honest), "views": [as_bytes(make()) for _, make, _ in HOSTILE]}))
    found = run("hostile.mjs", path, "small")
    assert all(one["sent"] == 0 and one["same"] and one["code"] != "nothing" for one in found)
    others = {one["code"] for (_, _, code), one in zip(HOSTILE, found, strict=True) if code != one["code"]}
    assert others == {"campaign/changed", "campaign/round", "campaign/document", "mechanism/unknown"}


@pytest.mark.parametrize("browser", [False, True])
def test_what_a_collector_serves_for_every_mechanism_is_taken(tmp_path: Path, browser: bool) -> None:
    """Campaigns as Python makes them, for browsers and for others: their first rounds are those that were planned."""
    views = []
    for protocol in SERVED:
        collector = Collector()
        term = {"browser": True} if browser else {}
        collector.open(document(**term, schema=SNACKS, protocol={**protocol, "epsilon": "1"}))
        views.append(as_bytes(collector.views["snack-survey"]))
    path = tmp_path / "views.json"
    path.write_text(json.dumps({"honest": None, "views": views}))
    found = run("hostile.mjs", path)
    assert [one["code"] for one in found] == ["nothing"] * len(SERVED)


SNACKS = {"keys": ["burger", "fries", "pepsi", "tea"], "low": 1, "high": 5}
SERVED = [
    *PROTOCOLS,
    {"name": "wsr", "max_pairs": 2, "weights": [1, 2, 3, 4]},
    {"name": "pckv-grr", "max_pairs": 2, "split": "paper"},
    {"name": "topsel", "mode": "direct"},
    {"name": "apart", "mode": "dense"},
    {"name": "split", "groups": "wsr:1,topsel:2", "options": {"topsel": {"set_sizes": "1"}}, "max_pairs": 2},
    {"name": "split", "groups": "kvue:1,block:2"},
    {"name": "split", "groups": "ssr:1,wsr:2", "options": {"ssr": {"max_pairs": 1}, "wsr": {"max_pairs": 2}}},
    {"name": "pilot"},
    {"name": "pilot", "then": "wsr", "share": "0.25", "most": 3},
]

ANSWERS = [
    *ODD_ANSWERS,
    json_answer({"accepted": 1, "duplicates": 0, "refused": []}),
    json_answer({"accepted": 0, "duplicates": 1, "refused": []}),
    problem(409, "round/closed"),
    problem(401, "enrolment/needed"),
    problem(404, "campaign/unknown"),
    problem(404, "round/unknown"),
    problem(409, "round/waiting"),
    *(problem(429, "queue/full", retry_after=after) for after in ("7", "0", "x", "86400", "9" * 30)),
    problem(503, "storage/unavailable", retry_after="Fri, 20 Nov 2026 12:00:30 GMT"),
    problem(503, "storage/unavailable", retry_after="Fri, 20 Nov 2020 12:00:30 GMT"),
    problem(503, "storage/unavailable", retry_after="Fri, 20 Nov 2099 12:00:00 GMT"),
]


def test_answers_to_uploads_mean_what_they_mean_to_the_python_device(tmp_path: Path) -> None:
    compare_answers(tmp_path, HERE / "answers.mjs")


def compare_answers(tmp_path: Path, script: Path) -> None:
    """The same state and code, as many tries, and pauses between the same bounds; always the same bytes."""
    collector = Collector()
    view = collector.views[collector.open(document()).name]
    told = [
        {"status": one.status, "headers": dict(one.headers), "body": base64.b64encode(one.body).decode()}
        for one in ANSWERS
    ]
    path = tmp_path / "answers.json"
    path.write_text(json.dumps({"view": as_bytes(view), "answers": told}))
    for answer, found in zip(ANSWERS, run(script, path), strict=True):
        served, sleeper = Collector(script=[says(answer)] * 2), Sleeper()
        served.open(document())
        device = Device(":memory:", served, clock=Watch(), sleep=sleeper, patience=Patience(pace=0, tries=2))
        device.consent("snack-survey")
        outcome = device.report("snack-survey", {"fries": 4})
        assert (found["state"], found["code"]) == (outcome.state, outcome.code), answer
        assert (found["sent"], found["different"]) == (len(served.bodies), 1), answer
        assert len(found["naps"]) == len(sleeper.naps)
        for mine, theirs in zip(found["naps"], sleeper.naps, strict=True):
            assert mine == theirs or (0.5 <= mine <= 1 and 0.5 <= theirs <= 1), answer


def test_the_rules_of_the_device(tmp_path: Path) -> None:
    """Every step of device.mjs says what it expects; it prints how many there were."""
    assert run("device.mjs", tmp_path)["steps"] >= 47


BROKEN = [  # a mistake, and the step of device.mjs that finds it
    ("client/device.js", "if (earlier) {", "if (false) {", "two devices on one file spend once"),
    ("client/device.js", 'must(consents[series], "consent/needed"', 'must(true, "c"', "nothing leaves without consent"),
    (
        "client/device.js",
        "if (!kept) refuseBeyond(",
        "if (false) refuseBeyond(",
        "many campaigns stay within the caps",
    ),
    (
        "client/device.js",
        "round.due?.(state) ?? round.cost",
        "round.cost",
        "a pilot sets its whole price aside at the first round that is answered",
    ),
    (
        "client/device.js",
        "[today, state.latest].sort()[1]",
        "today",
        "a clock far ahead is not believed, and one set back gives nothing back",
    ),
    (
        "client/device.js",
        "!(round.opens ? round.opens <= paused?.day : paused?.campaign === own)",
        "true",
        "withdrawal deletes what waits, and what has begun is not answered",
    ),
    (
        "client/device.js",
        "must(durable || document.browser",
        "must(true",
        "where storage may be forgotten only campaigns for browsers are answered",
    ),
    (
        "client/device.js",
        "this.prefix = collector &&",
        'this.prefix = "" &&',
        "two collectors see ids of their own, and each gets its own reports",
    ),
    (
        "client/device.js",
        "if (document.one_in && !dry && !this.#turn(state, campaign)) return silent;",
        "",
        "one_in answers one of so many campaigns",
    ),
    (
        "client/device.js",
        "must((await this.storage.read()) === text",
        "must(true",
        "what is written must be read back, and what is no book is not read",
    ),
    (
        "client/ledger.js",
        "span(one.day, day) < state.caps.days",
        "true",
        "a period of a cap ends after so many days, a life never does",
    ),
    (
        "client/ledger.js",
        "[...state.entries, ...aside(state, campaign, day)]",
        "state.entries",
        "a pilot sets its whole price aside at the first round that is answered",
    ),
    (
        "client/rounds.js",
        "planned(json(said) === json(options))",
        "planned(true)",
        "a round is held to the options that were named, and to the usual ones",
    ),
    (
        "client/rounds.js",
        "overflow: null, ",
        "",
        "a round is held to the options that were named, and to the usual ones",
    ),
    (
        "client/rounds.js",
        "__proto__: null, ",
        "",
        "options of a group that is called like a prototype change no prototype",
    ),
    (
        "mechanisms.js",
        "work <= 2 ** 32",
        "work <= 2 ** 34",
        "documents that would keep a device busy are refused, or take no time",
    ),
    (
        "client/explain.js",
        '.replace(/[\\p{C}\\p{Z}]/gu, " ")',
        "",
        "an explanation says what, why, how often, until when, at what price, and what a series costs",
    ),
]


@pytest.mark.parametrize(("file", "right", "wrong", "step"), BROKEN)
def test_a_device_that_breaks_a_rule_is_noticed(tmp_path: Path, file: str, right: str, wrong: str, step: str) -> None:
    """Planted mistakes: each makes a step of device.mjs fail, which is run alone here."""
    script = planted(tmp_path, "device.mjs", file, right, wrong)
    ran = subprocess.run(["node", script, tmp_path, step], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 1
    assert f'In the step "{step}":' in ran.stderr
    assert "AssertionError" in ran.stderr or "KeyveilError" in ran.stderr


def test_a_channel_that_tells_more_than_it_says_is_refused(tmp_path: Path) -> None:
    """Planted: weights above e^epsilon. The device computes the ratio from the integers that it would draw with."""
    levels = "export const levels = (epsilon) => [exp(epsilon) >> 32n"
    script = planted(tmp_path, "device.mjs", "wire.js", levels, f"{levels} | 1n << 40n")
    ran = subprocess.run(["node", script, tmp_path, "an explanation says the price"], capture_output=True, text=True)
    assert ran.returncode == 1 and "privacy/exceeded" in ran.stderr


def test_steps_that_find_mistakes_pass_by_themselves(tmp_path: Path) -> None:
    steps = {step for *_, step in BROKEN}
    assert run("device.mjs", tmp_path, *steps)["steps"] == len(steps)


def test_an_answer_about_another_report_is_not_believed(tmp_path: Path) -> None:
    """Planted: a client that believes it differs from Python's device."""
    right, wrong = "one(0, 0, { id, code })", "one(0, 0, { ...answer.refused[0] })"
    script = planted(tmp_path, "answers.mjs", "client/http.js", right, wrong)
    with pytest.raises(AssertionError):
        compare_answers(tmp_path, script)


def test_the_wire_vectors() -> None:
    """The conformance kit of the wire format: hashes, ids, words, groups, payloads, batches, and what is refused."""
    told = run("wire.mjs", HERE.parent / "campaign" / "wire_vectors.json")
    assert told["wrong"] == []
    kit = json.loads((HERE.parent / "campaign" / "wire_vectors.json").read_text())
    counts = {"payload": "payloads", "group": "groups", "id": "ids", "part": "partings", "terms": "campaigns"}
    assert {what: told["checked"][what] for what in counts} == {what: len(kit[of]) for what, of in counts.items()}
    refused = [one for one in kit["refused"] if one["form"] in ("campaign", "round")]
    assert told["checked"]["refused"] == len(refused) >= 20
