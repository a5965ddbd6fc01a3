"""Both devices walk the same random scripts: the same outcomes, codes, ids and ledgers after every call.

A script serves campaigns (some of a series, some of several rounds, some changed, late or with a token), turns the
clock, lets uploads fail, and calls a device in any order. All coins are zero on both sides, so nothing is left to luck
but the script, which a seed decides.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keyveil.core.coins import Coins
from keyveil.core.epsilon import decimal_text
from keyveil.core.errors import KeyveilError
from keyveil.device import Device, Outcome, Patience
from tests.clients.planted import planted
from tests.device.collector import (
    Collector,
    Sleeper,
    Watch,
    accept,
    document,
    later_round,
    lose_answer,
    problem,
)

HERE = Path(__file__).parent
SCRIPTS = 120
FEW = 30  # of them find a planted mistake
RETURNS = (1030, 1563)  # scripts in which a collector goes back to a round that was met, or serves it changed
START = date(2026, 11, 20)
NAMES = ("one", "two")
PROTOCOLS: tuple[dict[str, Any], ...] = (
    {"name": "kvue", "epsilon": "0.5"},
    {"name": "kvue", "epsilon": "1"},
    {"name": "kvue", "epsilon": "3"},
    {"name": "wsr", "epsilon": "1", "max_pairs": 2},
    {"name": "pilot", "epsilon": "1", "then": "wsr", "share": "0.4"},
)
ANSWERS: dict[str, Any] = {
    "accept": accept,
    "lose": lose_answer,
    "closed": lambda batch: problem(409, "round/closed"),
    "token": lambda batch: problem(401, "enrolment/needed"),
}


class Zeros(Coins):
    """Coins that all fall on one side."""

    def bytes(self, count: int) -> bytes:
        return bytes(count)


def script(chance: random.Random) -> list[dict[str, Any]]:
    """Thirty steps, most of them calls; a script has two sets of terms for each name, one of which is served often."""
    terms = chance.randrange(1000)
    day, steps = START, [{"do": "flush"}, *(_served(chance, START, terms) for _ in range(4))]
    steps += [{"do": "consent", "name": name} for name in NAMES]
    for _ in range(30):
        kind = chance.choice(
            ("serve", "serve", "day", "behave", "explain", "report", "report", "report", "consent", "rest")
        )
        name = chance.choice(NAMES)
        if kind == "serve":
            steps.append(_served(chance, day, terms))
        elif kind == "day":
            day += timedelta(days=chance.choice((1, 1, 3, 7, 7, 8, 20, -5, 500 if chance.random() < 0.2 else 40)))
            steps.append({"do": "day", "day": day.isoformat()})
        elif kind == "behave":
            steps.append({"do": "behave", "behaviour": chance.choice(list(ANSWERS))})
        elif kind == "report":
            record = chance.choice(({}, {"fries": 4}, {"fries": 1, "pepsi": 9, "tea": 2}))
            steps.append({"do": "report", "name": name, "record": record, "token": chance.choice((None, None, "kv-1"))})
        elif kind == "rest":
            rest = chance.choice(("withdraw", "flush", "flush", "limit", "trust"))
            changes = {chance.choice(("life", "period", "schema_life")): chance.choice(("1", "2.5", "6", "20"))}
            steps.append({"do": rest, "name": name, "changes": changes, "loosen": chance.random() < 0.5})
        else:
            steps.append({"do": kind, "name": name})
    return steps


def _served(chance: random.Random, day: date, kind: int) -> dict[str, Any]:
    """What a collector serves from now on under a name: often the same terms as before, with later dates."""
    name = chance.choice(NAMES)
    terms = random.Random(f"{name} {chance.choice((0, 0, 0, 1))} {kind}")
    opens = day + timedelta(days=chance.choice((-7, 0, 0, 0, 0, 1)))
    window = {"opens": opens.isoformat(), "closes": (opens + timedelta(days=chance.choice((5, 6)))).isoformat()}
    protocol = terms.choice(PROTOCOLS)
    several = protocol["name"] == "pilot"
    series = terms.choice(("plain", "dated", "every", "every", "periods", "turns"))
    more: dict[str, Any] = {}
    if series in ("every", "periods", "turns"):
        more["every_days"] = 7
    if series == "periods" and not several:
        more |= {"renew_days": terms.choice((14, 28)), "renew_from": "2026-11-16"}
    if series == "turns":
        more["one_in"] = 2
    asked = document(
        name=name,
        schema={"keys": ["burger", "fries", "pepsi", terms.choice(("tea", "milk"))], "low": 1, "high": 5},
        protocol=protocol,
        rounds=[{} if series == "plain" else window] * (2 if several else 1),
        enrolment=terms.choice(("none", "none", "token")),
        **more,
    )
    if several:
        later = {"opens": window["closes"], "closes": window["closes"]} if series != "plain" else {}
        asked["rounds"] = [asked["rounds"][0], later]
    collector = Collector()
    campaign = collector.open(asked)
    if several and chance.random() < 0.5:
        collector.open(asked, later_round(campaign, 2, max_pairs=chance.choice((1, 2))))
    view = collector.views[name]
    if chance.random() < 0.1:
        view["round"], view["state"] = None, chance.choice(("open", "finished"))
    return {"do": "serve", "name": name, "view": view}


def walk(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """What the Python device says to every call of a script, and its ledger at the end."""
    collector, watch = Collector(), Watch()
    device = Device(
        ":memory:", collector, clock=watch, coins=Zeros(), sleep=Sleeper(), patience=Patience(tries=1, pace=0)
    )
    behaviour, results = "accept", []
    for step in steps:
        if step["do"] == "serve":
            collector.views[step["name"]] = step["view"]
        elif step["do"] == "day":
            watch.now = datetime.fromisoformat(step["day"]).replace(hour=12, tzinfo=UTC)
        elif step["do"] == "behave":
            behaviour = step["behaviour"]
        else:
            collector.script = [ANSWERS[behaviour]] * 50
            try:
                results.append(_called(device, step))
            except KeyveilError as refused:
                results.append({"refused": refused.code})
    exported = json.loads(device.export())["entries"]
    fields = ("day", "epsilon", "report", "free", "round", "campaign", "state")
    return {"results": results, "ledger": [{name: entry[name] for name in fields} for entry in exported]}


def _called(device: Device, step: dict[str, Any]) -> Any:
    name = step.get("name", "")
    match step["do"]:
        case "explain":
            shown = device.explain(name)
            epsilon = None if shown.epsilon is None else decimal_text(shown.epsilon)
            refused = shown.refusal is not None
            return {"consent": shown.consent, "agreed": shown.agreed, "refused": refused, "epsilon": epsilon}
        case "consent":
            return device.consent(name)
        case "report":
            return _told(device.report(name, step["record"], step["token"]))
        case "withdraw":
            return device.withdraw(name)
        case "flush":
            return [_told(one) for one in device.flush()]
        case "limit":
            return device.limit(step["changes"], step["loosen"])
        case _:
            return device.trust_clock()


def _told(outcome: Outcome) -> dict[str, Any]:
    document = outcome.document()
    return {name: document[name] for name in ("state", "round", "epsilon", "report", "code", "used", "opens")}


def in_node(path: Path, scripts: list[list[dict[str, Any]]], program: Path = HERE / "twins.mjs") -> Any:
    path.write_text(json.dumps(scripts))
    ran = subprocess.run(["node", program, path], capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def differing(scripts: list[list[dict[str, Any]]], mine: list[Any], theirs: list[Any]) -> list[str]:
    """Where the two devices part: the calls and what each said."""
    found = []
    for steps, own, other in zip(scripts, mine, theirs, strict=True):
        calls = [step for step in steps if step["do"] not in ("serve", "day", "behave")]
        for call, one, two in zip(calls, own["results"], other["results"], strict=True):
            if one != two:
                found.append(f"{call}: {one} in Python, {two} in Node")
        found += [] if own["ledger"] == other["ledger"] else ["another ledger"]
    return found


Walked = tuple[list[list[dict[str, Any]]], list[Any]]


@pytest.fixture(scope="module")
def walked() -> Walked:
    """Scripts, and what the Python device says to them."""
    scripts = [script(random.Random(seed)) for seed in (*range(SCRIPTS), *RETURNS)]
    return scripts, [walk(steps) for steps in scripts]


def test_both_devices_say_the_same(walked: Walked, tmp_path: Path) -> None:
    scripts, mine = walked
    assert differing(scripts, mine, in_node(tmp_path / "scripts.json", scripts)) == []
    told = (one for own in mine for one in own["results"] if isinstance(one, dict))
    said = Counter(str(one.get("refused", one.get("state"))) for one in told)
    needed = {"sent", "waiting", "refused", "not-asked", "between", "closed", "budget/exceeded", "campaign/changed"}
    needed |= {
        "round/closed",
        "report/withdrawn",
        "consent/needed",
        "consent/withdrawn",
        "device/clock",
        "budget/looser",
    }
    needed |= {"enrolment/needed", "round/order"}
    assert needed <= set(said), said


@pytest.mark.parametrize(
    ("file", "right", "wrong"),
    [
        ("client/device.js", "starts > known.ends", "true"),
        (
            "client/device.js",
            "(round.opens ? round.opens <= paused?.day : paused?.campaign === own)",
            "paused?.campaign === own",
        ),
        ("client/rounds.js", "Math.max(0, ...Object.keys(seen)) < number", "true"),
    ],
)
def test_a_device_that_goes_its_own_way_is_noticed(
    walked: Walked, tmp_path: Path, file: str, right: str, wrong: str
) -> None:
    scripts, mine = (one[:FEW] for one in walked)
    program = planted(tmp_path, "twins.mjs", file, right, wrong)
    assert differing(scripts, mine, in_node(tmp_path / "scripts.json", scripts, program)) != []


@pytest.mark.soak
def test_both_devices_say_the_same_for_long(tmp_path: Path, record_property: Any) -> None:
    scripts = [script(random.Random(seed)) for seed in range(1000, 3000)]
    mine = [walk(steps) for steps in scripts]
    record_property("scripts", len(scripts))
    record_property("calls", sum(len(own["results"]) for own in mine))
    assert differing(scripts, mine, in_node(tmp_path / "scripts.json", scripts)) == []
