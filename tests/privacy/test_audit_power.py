"""How often the audit finds planted mistakes, and how often it accuses programs that keep their promise exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import cycle, islice
from time import process_time
from typing import Any

import pytest

from keyveil.lab.coins import SeededCoins
from keyveil.privacy import audit as room
from keyveil.privacy import search
from keyveil.privacy.audit import Audit, audit
from tests.privacy.planted import PLANTED, Planted, RareTruth, RareWord

CONFIDENCE = 0.99
SEEDS = range(100, 120)  # none of them was looked at while the search was written
Record = Callable[[str, object], None]


def attacked(case: Planted, subject: Any, draws: int, seed: int) -> Audit:
    return audit(
        subject,
        records=case.records,
        epsilon=case.epsilon,
        draws=draws,
        confidence=CONFIDENCE,
        coins=SeededCoins(seed),
    )


def alarms(runs: int, draws: int, cases: Iterable[Planted] = PLANTED.values()) -> int:
    """Audits of programs that spend exactly what they promise, and that are refuted nevertheless."""
    cases = islice(cycle(cases), runs)
    return sum(attacked(case, case.right(), draws, seed).violated for seed, case in enumerate(cases))


QUICK: dict[str, tuple[Callable[[], Any], int]] = {  # what takes long at full size is ten times as frequent here
    **{name: (case.wrong, 30_000) for name, case in PLANTED.items()},
    "rare truth": (lambda: RareTruth(one_in=200), 80_000),
    "rare word": (lambda: RareWord(one_in=6), 30_000),
}


@pytest.mark.parametrize("name", PLANTED)
def test_each_mistake_is_found(name: str) -> None:
    wrong, draws = QUICK[name]
    assert attacked(PLANTED[name], wrong(), draws, seed=1).violated


def test_programs_that_keep_their_promise_are_not_accused() -> None:
    """Seeds are fixed; at fresh ones ten runs at a confidence of 0.99 have an alarm with probability below 0.1."""
    assert alarms(10, 3_000) == 0


def test_counts_without_bounds_would_accuse_the_honest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: the plain ratio of two counts lies above the promise about every other time."""
    monkeypatch.setattr(room, "epsilon_at_least", lambda a, b, draws, alarm: math.log(max(a, 1) / max(b, 1)))
    assert alarms(10, 3_000, [PLANTED["reused coins"]]) >= 4


def test_what_chance_might_have_shown_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant follows up nothing but what exceeds chance already; of these seeds it misses the truth in both."""
    case, wrong = PLANTED["rare truth"], RareTruth(one_in=200)
    assert all(attacked(case, wrong, 40_000, seed).violated for seed in (4, 12))
    monkeypatch.setattr(search, "_DOUBT", 0.0)
    monkeypatch.setattr(search, "_SUSPECTS", 1)
    assert not any(attacked(case, wrong, 40_000, seed).violated for seed in (4, 12))


@pytest.mark.soak
@pytest.mark.parametrize("name", PLANTED)
def test_each_mistake_is_found_in_nearly_all_runs(name: str, record_property: Record) -> None:
    case, found, began = PLANTED[name], 0, process_time()
    for seed in SEEDS:
        found += attacked(case, case.wrong(), case.draws, seed).violated
    record_property("kind", case.kind)
    record_property("found", f"{found} of 20")
    record_property("draws", f"{case.draws:,}")
    record_property("seconds of processor a run", f"{(process_time() - began) / 20:.1f}")
    assert found >= 19


@pytest.mark.soak
def test_alarms_are_as_rare_as_the_confidence_says(record_property: Record) -> None:
    began = process_time()
    found = alarms(200, 20_000)
    record_property("honest runs with alarms", f"{found} of 200 at a confidence of {CONFIDENCE}")
    record_property("seconds of processor a run", f"{(process_time() - began) / 200:.1f}")
    assert found <= 200 * (1 - CONFIDENCE)
