"""A running collector is asked sums over keys, of campaigns with several rounds and with several parts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keyveil.device import Device
from keyveil.device.upload import Patience
from tests.collector.campaigns import asked, batch_of, started
from tests.collector.running import Collector, problem, running

SPLIT = {"name": "split", "epsilon": "2", "groups": "ssr:1,kvue:1", "max_pairs": 2}


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    with running(tmp_path) as one:
        yield one


def ask(collector: Collector, **question: Any) -> Any:
    answer = collector.ask("POST", "/v1/campaigns/snacks/queries", question, collector.analyst)
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


def test_a_sum_is_answered_by_the_first_round_of_privkvm_when_the_second_is_open(collector: Collector) -> None:
    service, question = collector.service, {"kind": "subset", "keys": ["burger", "fries", "pepsi"]}
    fields = {"protocol": {"name": "privkvm", "epsilon": "8", "rounds": 2}, "rounds": [{"enough": 300}] * 2}
    service.submit("snacks", batch_of(started(service, **fields), 300)).result(30)
    service.settle()
    service.submit("snacks", batch_of(asked(service), 60)).result(30)
    service.settle()
    assert asked(service).number == 2

    found = ask(collector, **question)
    assert found["answers"] == ask(collector, **question, round=1)["answers"]
    (row,) = found["answers"]
    assert abs(row["sum"]["value"] - 1) <= 6 * row["sum"]["se"]  # two of three people hold three keys in all
    named = collector.ask("POST", "/v1/campaigns/snacks/queries", {**question, "round": 2}, collector.analyst)
    assert problem(named) == "estimate/no-frequency"


def test_devices_answer_a_split_and_their_collector_tells_a_sum(collector: Collector) -> None:
    started(collector.service, protocol=SPLIT)
    for number in range(60):
        with Device(":memory:", collector.transport, patience=Patience(pace=0)) as one:
            one.consent("snacks")
            assert one.report("snacks", ({}, {"fries": 4}, {"pepsi": 2, "burger": 5})[number % 3]).state == "sent"
    collector.service.settle()
    answer = collector.ask("GET", "/v1/campaigns/snacks/estimates", token=collector.analyst)
    found = json.loads(answer.body)
    assert (found["mechanism"], found["reports"], len(found["estimates"])) == ("split", 60, 3)
    (row,) = ask(collector, kind="subset", keys=["burger", "fries", "pepsi"])["answers"]
    assert row["sum"]["value"] == pytest.approx(sum(one["frequency"] for one in found["estimates"]))
    assert abs(row["sum"]["value"] - 1) <= 6 * row["sum"]["se"]
