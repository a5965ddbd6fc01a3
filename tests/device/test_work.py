"""Reading a document costs bounded work, whatever its numbers are: priced before it is done, and counted.

Two counts are held against limits, and no clock: the units that ``core.work`` prices, and the calls that the
interpreter makes. A search looks for the worst document; ``python -m benchmarks`` measures what the worst ones take.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest

from keyveil.lab.coins import SeededCoins
from tests.device.hard_documents import HARD, LIMITS, Hard, any_document, changed, read, sizes

UNITS = LIMITS.units // 16  # searches have less room than a device, so that a try is short: prices hold at any size
CALLS = 2  # for each unit; a unit is about a microsecond
_COMB = 12  # a binomial coefficient of k out of n is one call, and takes as long as about k^2 / 2^12


class TooMuchWork(AssertionError):
    """More calls than a device should make for a document."""


class Calls:
    """Counts the calls of Python and C functions while it lasts, and ends what makes more than ``most``.

    Large binomial coefficients count by their length.
    """

    def __init__(self, most: int) -> None:
        self.count, self.most = 0, most
        self._comb = math.comb

    def __enter__(self) -> Calls:
        math.comb = self._counted_comb  # type: ignore[assignment]
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        math.comb = self._comb

    def _called(self, frame: Any, event: str, argument: Any) -> None:
        self._add(event in ("call", "c_call"))

    def _counted_comb(self, n: int, k: int) -> int:
        self._add(max(min(k, n - k), 0) ** 2 >> _COMB)
        return self._comb(n, k)

    def _add(self, calls: int) -> None:
        self.count += calls
        if self.count > self.most:
            sys.setprofile(None)
            raise TooMuchWork


def reading(keys: int, protocol: dict[str, Any], most: int = LIMITS.units) -> tuple[int, int, str]:
    """Calls and units that reading a document takes within ``most`` units, and the code of its refusal or nothing."""
    with Calls(_calls(keys, most)) as calls:
        units, code = read(keys, protocol, most)
    return calls.count, units, code


def _calls(keys: int, units: int) -> int:
    """The most calls within so many units: reading a short document, and each key a few times, is not priced."""
    return CALLS * units + 8 * keys + 30_000


def worst(coins: SeededCoins, tries: int) -> tuple[int, int, Hard]:
    """The largest counts that a search finds: hand-picked documents and random ones, then what lies near the worst."""
    judged: list[tuple[int, int, Hard]] = []
    for attempt in range(tries):
        if attempt < len(HARD):
            found = HARD[attempt]
        elif attempt < 2 * tries // 3:
            found = any_document(coins)
        else:
            found = changed(coins, judged[coins.below(3)][2])
        calls, units, _ = reading(*found, UNITS)
        judged = sorted([*judged, (calls, units, found)], key=lambda one: -one[0] - one[1])[:3]
    return judged[0]


def test_the_worst_document_that_a_search_finds_stays_within_the_limits() -> None:
    _, units, _ = worst(SeededCoins(1), 60)  # too many calls end it
    assert UNITS // 2 < units <= UNITS  # and the search comes near the limit


@pytest.mark.soak
def test_hand_picked_documents_stay_within_a_devices_own_limits(record_property: Any) -> None:
    found = [reading(*hard) for hard in HARD]  # ends what makes too many calls
    record_property("most calls", f"{max(calls for calls, _, _ in found):,}")
    record_property("most units", f"{max(units for _, units, _ in found):,} of {LIMITS.units:,}")
    assert all(units <= LIMITS.units for _, units, _ in found)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_the_worst_document_of_a_long_search_stays_within_the_limits(seed: int, record_property: Any) -> None:
    calls, units, found = worst(SeededCoins(seed), 3000)
    record_property("worst", f"{found[1]} of {found[0]:,} keys")
    record_property("units", f"{units:,} of {UNITS:,}")
    record_property("calls", f"{calls:,} of {_calls(found[0], UNITS):,}")
    assert units <= UNITS


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
    _, units, refused = reading(keys, protocol)
    assert units <= LIMITS.units
    assert bool(refused) == (code is not None) and (not code or refused == code)


def free(units: int, what: str) -> None:
    """A price of zero."""


def test_the_search_rejects_a_price_of_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: choosing the buckets of topsel costs nothing, and the search meets one that makes too many calls."""
    monkeypatch.setattr("keyveil.mechanisms.families.cover.spend", free)
    with pytest.raises(TooMuchWork):
        worst(SeededCoins(1), 60)


PRICED: list[tuple[str, int, dict[str, Any], int]] = [  # where, a document, and what it is to be priced at least
    ("mechanisms.families.cover", 300, {"name": "topsel", "set_sizes": "3"}, 50_000),
    ("mechanisms.families.answer_size", 1000, {"name": "ssr", "bins": 8, "max_pairs": 30}, 15_000),
    ("protocols.base", 2, {"name": "privkvm", "rounds": 20}, 15_000),
    ("protocols.second_round", 2000, {"name": "topsel-project"}, 8_000),
    ("core.work", 4000, {"name": "ssr", "max_pairs": 3}, 4_700),
]


@pytest.mark.parametrize(("place", "keys", "protocol", "least"), PRICED, ids=str)
def test_work_that_no_call_shows_is_priced(
    place: str, keys: int, protocol: dict[str, Any], least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays and long numbers take time in few calls, which a search cannot count; the mutant has no price for them."""
    assert read(keys, protocol)[0] >= least
    monkeypatch.setattr(f"keyveil.{place}.spend", free)
    assert read(keys, protocol)[0] < least
