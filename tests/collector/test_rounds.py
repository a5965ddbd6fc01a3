"""What is shown of rounds: nothing that rests on fewer reports than the campaign's least number."""

from __future__ import annotations

import pytest

from keyveil.collector.service import Service
from tests.collector.campaigns import asked, batch_of, refusal, started


def test_nothing_is_shown_below_the_least_number_of_reports(service: Service) -> None:
    document = started(service)
    service.submit("snacks", batch_of(document, 9)).result()
    service.settle()

    assert_hidden(service)
    service.act("snacks", "stop")
    service.settle()
    assert service.view("snacks")["state"] == "closed"


@pytest.mark.parametrize("action", ["close", "stop"])
def test_one_report_too_few_stays_hidden_when_a_round_closes(service: Service, action: str) -> None:
    """An open round counts nothing below the least number; a closed one counts what there is, and must not show it."""
    document = started(service, min_reports=10)
    service.submit("snacks", batch_of(document, 9)).result()
    service.act("snacks", action)
    service.settle()

    assert service.status("snacks")["rounds"][0]["folded"] == 9
    assert_hidden(service)


@pytest.mark.parametrize("action", ["close", "stop"])
def test_the_least_number_of_reports_is_enough_to_be_shown(service: Service, action: str) -> None:
    document = started(service, min_reports=10)
    service.submit("snacks", batch_of(document, 10)).result()
    service.act("snacks", action)
    service.settle()

    assert service.view("snacks")["state"] == "estimated"
    assert service.estimates("snacks").n == service.estimates("snacks", round=1).n == 10
    assert service.tally("snacks")[1].reports == 10


def test_a_round_below_the_least_number_is_left_out_of_what_is_shown(service: Service) -> None:
    protocol = {"name": "pilot", "epsilon": "1", "share": "0.5", "then": "wsr", "theta": "0.5", "max_pairs": 2}
    first = started(service, protocol=protocol, rounds=[{}], min_reports=30)
    service.submit("snacks", batch_of(first, 40)).result()
    service.act("snacks", "close")
    service.settle()
    before = service.estimates("snacks").frequency.values
    service.submit("snacks", batch_of(asked(service), 1)).result()
    service.act("snacks", "stop")
    service.settle()

    assert (service.estimates("snacks").frequency.values == before).all()


def test_a_short_round_in_the_middle_hides_what_rests_on_it(service: Service) -> None:
    """The difference between the joint answer and the other rounds would be that of nine people."""
    document = started(service, protocol={"name": "privkvm", "epsilon": "4", "rounds": 3}, rounds=[{}], min_reports=10)
    for people in (40, 9, 40):
        service.submit("snacks", batch_of(document, people)).result()
        service.act("snacks", "close")
        service.settle()
        document = asked(service)

    assert [one["folded"] for one in service.status("snacks")["rounds"]] == [40, 9, 40]
    assert_hidden(service, round=2)
    assert [service.estimates("snacks", round=number).n for number in (1, 3)] == [40, 40]


def test_a_short_round_that_says_nothing_about_keys_hides_nothing(service: Service) -> None:
    """The pilot's first round counts set sizes only."""
    pilot = {"name": "pilot", "epsilon": "1", "share": "0.5"}
    document = started(service, protocol=pilot, rounds=[{}], min_reports=10)
    for people in (9, 40):
        service.submit("snacks", batch_of(document, people)).result()
        service.act("snacks", "close")
        service.settle()
        document = asked(service)

    assert [one["folded"] for one in service.status("snacks")["rounds"]] == [9, 40]
    assert service.estimates("snacks").n == 49
    assert refusal(lambda: service.estimates("snacks", round=1)) == "campaign/too-few"


def test_between_two_looks_at_an_open_round_lie_many_reports(service: Service) -> None:
    document = started(service, min_reports=20)
    service.submit("snacks", batch_of(document, 20)).result()
    service.settle()
    before = service.tally("snacks")[1]
    for _ in range(19):
        service.submit("snacks", batch_of(document, 1)).result()
        service.settle()
    assert service.tally("snacks")[1] == before
    service.submit("snacks", batch_of(document, 1)).result()
    service.settle()

    assert service.tally("snacks")[1].reports == 40


def assert_hidden(service: Service, round: int = 1) -> None:
    """Neither the round nor the campaign as a whole shows anything."""
    for call in (service.estimates, service.finished, service.tally):
        assert refusal(lambda call=call: call("snacks", round)) == "campaign/too-few"  # type: ignore[misc]
    assert refusal(lambda: service.estimates("snacks")) == "campaign/too-few"
