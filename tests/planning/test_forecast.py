from __future__ import annotations

from typing import Any

import pytest

from keyveil.core.errors import ProtocolError
from keyveil.core.schema import Schema
from keyveil.mechanisms.capabilities import Takes
from keyveil.mechanisms.registry import make
from keyveil.planning import forecast as module
from keyveil.planning.forecast import Forecast, forecast
from keyveil.protocols.registry import as_protocol

SNACKS = Schema(keys=["burger", "fries", "pepsi", "tea"], low=1, high=5)


def expected(name: str, people: int = 3000, epsilon: str = "2", **options: Any) -> Forecast:
    return forecast(as_protocol(make(name, SNACKS, epsilon, **options)), people)


@pytest.mark.parametrize(
    ("name", "takes", "sentence"),
    [
        ("oue", "one key", "everybody holds one key, the k-th with a weight of 1/k"),
        ("duchi", "every key", "everybody has a value for every key"),
        ("kvue", "every set", "the k-th key is held by 1/(2k) of the people, 1 pairs a person"),
    ],
)
def test_people_are_invented_whom_the_mechanism_can_take(name: str, takes: Takes, sentence: str) -> None:
    found = expected(name)
    (only,) = found.rounds
    assert only.round.mechanism.takes == takes and only.reports == 3000
    assert found.crowd == sentence
    assert (found.frequency is None) == (takes == "every key") and (found.mean is None) == (takes == "one key")


def test_more_people_than_are_invented_have_errors_that_are_smaller_by_the_square_root(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exact = expected("kvue", 2000)
    monkeypatch.setattr(module, "MOST_INVENTED", 2000)
    larger = expected("kvue", 200_000)
    assert (larger.people, larger.invented) == (200_000, 2000)
    assert larger.frequency is not None and exact.frequency is not None
    assert larger.frequency == pytest.approx([error / 10 for error in exact.frequency])
    assert larger.rounds[0].reports == 100 * exact.rounds[0].reports


def test_every_round_has_its_price_and_the_whole_its_sum() -> None:
    found = expected("privkvm", rounds=3)
    assert [one.round.number for one in found.rounds] == [1, 2, 3]
    assert all(0 < one.exact_epsilon <= 2 and one.bits > 0 for one in found.rounds)
    assert float(found.spent) == pytest.approx(float(sum(one.exact_epsilon for one in found.rounds)), abs=1e-6)
    assert [one["round"] for one in found.document()["rounds"]] == [1, 2, 3]


def test_progress_hears_of_everybody() -> None:
    heard: list[int] = []
    forecast(as_protocol(make("kvue", SNACKS, 1)), 1500, heard.append)
    assert sum(heard) == 1500


def test_nobody_cannot_be_forecast() -> None:
    with pytest.raises(ProtocolError, match="one person or more, not for 0") as refusal:
        expected("kvue", 0)
    assert refusal.value.code == "forecast/people"
