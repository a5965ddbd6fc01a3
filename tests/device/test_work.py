"""Reading a document costs bounded work, whatever its numbers are: priced before it is done, and counted.

Two counts are held against limits, and no clock: the units that ``core.work`` prices, and the calls that the
interpreter makes. A search over options looks for the worst document.
"""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import Any

import pytest

from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.verification import DeviceLimits, _refuse_large, _refuse_numbers
from keyveil.core import work as work_module
from keyveil.core.errors import KeyveilError
from keyveil.core.work import Work, limited
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms import registry
from tests.device.collector import document

LIMITS = DeviceLimits()
MOST_CALLS = 1_000_000  # about half a second; the longest search found 260,000
NUMBERS = [1, 2, 3, 5, 8, 13, 30, 64, 100, 255, 256, 1000, 4096, 10_000, 65_536, 1 << 20, 1 << 32]
KEYS = [1, 2, 3, 8, 30, 100, 300, 1000, 4000, 16_000, 65_536]
NAMES = [name for name in registry.names() if getattr(registry.find(name), "takes", "every set") == "every set"]


class TooMuchWork(AssertionError):
    """More calls than a device should make for a document."""


class Calls:
    """Counts the calls of Python and C functions while it lasts, and ends what makes too many."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Calls:
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _called(self, frame: Any, event: str, argument: Any) -> None:
        self.count += event in ("call", "c_call")
        if self.count > MOST_CALLS:
            sys.setprofile(None)
            raise TooMuchWork


def reading(keys: int, protocol: dict[str, Any]) -> tuple[int, int, str]:
    """Calls and units that reading a document takes, and the code of its refusal or nothing."""
    made = document(schema={"keys": keys}, protocol={"epsilon": "1", **protocol})
    code, work = "", Work(LIMITS.units)
    with Calls() as calls:
        try:
            with limited(LIMITS.units) as work:
                _refuse_large(made, LIMITS)
                campaign = Campaign.from_document(made)
                _refuse_numbers(campaign.protocol.parameters, keys, LIMITS)
                first = campaign.protocol.next_round([])
                assert first is not None
                asked = RoundDocument.of(campaign, first)
                assert asked.cost and asked.report_bytes
                assert campaign.protocol.course  # what a later round is held to
        except KeyveilError as refused:
            code = refused.code
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError):
            code = "campaign/document"  # as ``read_notice`` says it
    return calls.count, work.spent, code


def sizes(count: int, largest: int) -> str:
    """A law of ``count`` set sizes up to the largest."""
    return ",".join(f"{max(1, largest - at)}:1/{count}" for at in range(count))


def any_protocol(coins: SeededCoins, name: str) -> dict[str, Any]:
    """A protocol with some of its options, each at some number."""
    options: dict[str, Any] = {"name": name}
    for one in fields(registry.find(name)):
        kind = str(one.type)
        if one.name in ("schema", "epsilon") or coins.chance(1, 3):
            continue
        number = NUMBERS[coins.below(len(NUMBERS))]
        if one.name in ("set_sizes", "sizes"):
            options[one.name] = sizes(1 + coins.below(256), 1 + coins.below(256))
        elif one.name == "groups":
            options[one.name] = ",".join(f"{['ssr', 'kvue', 'topsel', 'moments'][coins.below(4)]}:1" for _ in range(4))
        elif "int" in kind:
            options[one.name] = number
        elif "Fraction" in kind:
            options[one.name] = f"0.{number}"
    if name in ("pilot", "adaptive", "split"):
        options.setdefault("max_pairs", 1 + coins.below(256))
    return options


def worst(coins: SeededCoins, tries: int) -> tuple[int, int, dict[str, Any]]:
    """The largest counts that a search finds: random documents, then numbers of the worst one changed one by one."""
    best: tuple[int, int, dict[str, Any]] = (0, 0, {})
    found: dict[str, Any]
    for attempt in range(tries):
        if attempt < 2 * tries // 3 or not best[2]:
            name = NAMES[coins.below(len(NAMES))]
            found = {"keys": KEYS[coins.below(len(KEYS))], "protocol": any_protocol(coins, name)}
        else:
            protocol = {**best[2]["protocol"]}
            numbers = [option for option, value in protocol.items() if type(value) is int]
            if numbers:
                protocol[numbers[coins.below(len(numbers))]] = NUMBERS[coins.below(len(NUMBERS))]
            found = {"keys": KEYS[coins.below(len(KEYS))], "protocol": protocol}
        calls, units, _ = reading(found["keys"], found["protocol"])
        if calls + units > best[0] + best[1]:
            best = calls, units, found
    return best


def test_the_worst_document_that_a_search_finds_stays_within_the_limits(record_property: Any) -> None:
    calls, units, found = worst(SeededCoins(1), 150)
    record_property("worst", found)
    assert found and calls <= MOST_CALLS and units <= LIMITS.units


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_the_worst_document_of_a_long_search_stays_within_the_limits(seed: int) -> None:
    calls, units, _ = worst(SeededCoins(seed), 3000)
    assert calls <= MOST_CALLS and units <= LIMITS.units


@pytest.mark.parametrize(
    ("keys", "protocol", "code"),
    [
        (65_536, {"name": "moments", "order": 10_000}, "mechanism/too-many-keys"),
        (300, {"name": "topsel", "set_sizes": sizes(256, 256)}, "device/limits"),
        (65_536, {"name": "privkvm-harmony", "rounds": 100}, "device/limits"),
        (65_536, {"name": "ssr", "bins": 64, "max_pairs": 1}, "device/limits"),
        (300, {"name": "topsel", "set_sizes": "255:0.5,256:0.5"}, "device/limits"),
        (300, {"name": "topsel", "set_sizes": "1:1", "padding": 256}, "device/limits"),
        (300, {"name": "split", "groups": "topsel:1,kvue:1", "group_options": "topsel.set_sizes=255:0.5,256:0.5"}, ""),
        (16_000, {"name": "ssr", "bins": 250, "max_pairs": 1}, "device/limits"),
        (4000, {"name": "pilot", "options": "bins=100"}, "device/limits"),
        (300, {"name": "topsel", "set_sizes": "1:0.5,2:0.25,3:0.25"}, None),
        (300, {"name": "topsel", "set_sizes": sizes(256, 256), "buckets": 64, "marked": 20}, None),
        (65_536, {"name": "kvue"}, None),
        (1000, {"name": "ssr", "max_pairs": 30}, None),
    ],
    ids=str,
)
def test_what_took_minutes_is_refused_with_a_code_and_what_is_usual_is_read(
    keys: int, protocol: dict[str, Any], code: str | None
) -> None:
    calls, units, refused = reading(keys, protocol)
    assert calls <= MOST_CALLS and units <= LIMITS.units
    assert bool(refused) == (code is not None) and (not code or refused == code)


def test_a_price_that_is_forgotten_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search must be able to fail: without prices one of these documents makes too many calls."""
    monkeypatch.setattr(work_module, "spend", lambda units, what: None)
    monkeypatch.setattr("keyveil.mechanisms.families.cover.spend", lambda units, what: None)
    with pytest.raises(TooMuchWork):
        reading(300, {"name": "topsel", "set_sizes": "255:0.5,256:0.5"})
