from __future__ import annotations

from typing import Any

import pytest

from keyveil.core.errors import ProtocolError
from keyveil.core.schema import Schema
from keyveil.mechanisms.capabilities import Takes
from keyveil.mechanisms.registry import make
from keyveil.planning import forecast as module
from keyveil.planning.forecast import Forecast, forecast
from keyveil.planning.people import invented
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
    exact = expected("adaptive", 2000, max_pairs=2)
    monkeypatch.setattr(module, "MOST_INVENTED", 2000)
    larger = expected("adaptive", 200_000, max_pairs=2)
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


def test_progress_hears_of_everybody_who_is_simulated() -> None:
    heard: list[int] = []
    forecast(as_protocol(make("adaptive", SNACKS, 1, max_pairs=2)), 1500, heard.append)
    assert sum(heard) == 1500


CLOSED_FORMS: list[tuple[str, dict[str, Any]]] = [
    ("oue", {}),
    ("duchi", {}),
    ("kvue", {}),
    ("ssr", {"max_pairs": 2, "overflow": "0.03"}),
    ("split", {"groups": "ssr:1,kv-sw:1", "max_pairs": 2}),
]


@pytest.mark.parametrize(("name", "options"), CLOSED_FORMS)
def test_a_closed_form_says_what_a_simulation_would(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stated errors differ from run to run by much less than a tenth; those of means rest on estimated frequencies."""
    predicted = expected(name, 20_000, **options)
    assert (predicted.method, predicted.invented) == ("closed form", 0)
    monkeypatch.setattr(module, "has_closed_form", lambda protocol: False)
    simulated = expected(name, 20_000, **options)
    assert (simulated.method, simulated.invented) == ("simulation", 20_000)
    assert (predicted.frequency is None) == (simulated.frequency is None)
    if predicted.frequency and simulated.frequency:
        assert predicted.frequency == pytest.approx(simulated.frequency, rel=0.08)
    if predicted.mean and simulated.mean:
        assert predicted.mean[0] == pytest.approx(simulated.mean[0], rel=0.2)
    assert (predicted.spent, predicted.means_known) == (simulated.spent, simulated.means_known)


def test_rounds_are_simulated_on_the_people_whom_the_author_describes() -> None:
    protocol = as_protocol(make("adaptive", SNACKS, 2, max_pairs=2))
    rare, held = (
        forecast(protocol, 3_000, described=invented(3_000, 4, frequency=[share] * 4)) for share in (0.05, 0.8)
    )
    assert rare.method == "simulation" and "0.2 pairs on average" in rare.crowd
    assert rare.means_known < held.means_known == 4


def test_nobody_cannot_be_forecast() -> None:
    with pytest.raises(ProtocolError, match="one person or more, not for 0") as refusal:
        expected("kvue", 0)
    assert refusal.value.code == "forecast/people"
