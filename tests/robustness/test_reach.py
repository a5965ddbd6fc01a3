"""Limits of estimates that are made of others: the worst people replaced in random tallies do not go beyond them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.kernels.normal import hazard
from keyveil.lab.attacks.crafting import thought_of
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms import reach
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.counting import counts_of_each
from keyveil.mechanisms.registry import create
from keyveil.mechanisms.side_by_side import SideBySide
from keyveil.robustness import influence as influence_module
from keyveil.robustness.influence import influence

FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "split": ("split", {"max_pairs": 2}),
    "split of two unlike": ("split", {"groups": "ssr:3,moments:1", "max_pairs": 2}),
    "ssr": ("ssr", {"max_pairs": 2, "overflow": "0.2"}),
    "wsr": ("wsr", {"max_pairs": 2, "overflow": "0.2"}),
    "pckv-grr": ("pckv-grr", {"max_pairs": 1, "overflow": "0.2"}),
    "pckv-ue": ("pckv-ue", {"max_pairs": 1, "overflow": "0.2"}),
    "apart": ("apart", {"max_pairs": 2}),
    "apart in dense mode": ("apart", {"mode": "dense", "size": 2}),
    "topsel": ("topsel", {"set_sizes": "1:0.4,2:0.4,3:0.2", "refine": True}),
}


def made(title: str, epsilon: float) -> Mechanism:
    name, options = FORMS[title]
    return create(name, Schema(keys=4), epsilon, **options)


def kinds_of(mechanism: Mechanism) -> np.ndarray:
    """What reports can add to a tally, in every part, each as a row of the counts and the report itself."""
    if isinstance(mechanism, SideBySide):
        nobody = [Tally.empty(part.fingerprint, part.tally_shape) for part in mechanism.parts]
        rows = []
        for number, part in enumerate(mechanism.parts):
            for row in kinds_of(part):
                one = Tally(part.fingerprint, 1, row.reshape(part.tally_shape))
                whole = mechanism.whole_tally([*nobody[:number], one, *nobody[number + 1 :]])
                rows.append(whole.counts.reshape(-1))
        return np.array(rows)
    pool = thought_of(mechanism, 0, SeededCoins(1), 60)
    return np.unique(
        counts_of_each(mechanism, pool.payloads, mechanism.read_words(pool.publics)).reshape(60, -1), axis=0
    )


def random_attacks(
    mechanism: Mechanism, kinds: np.ndarray, people: int, m: int, rng: np.random.Generator, tried: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """How many people report each kind, and how many after m of them are replaced."""
    weights = rng.dirichlet(np.full(len(kinds), rng.choice([0.1, 0.4, 2.0])))
    held = rng.multinomial(people, weights)
    for _ in range(tried):
        gone, left = np.zeros_like(held), m
        for kind in rng.permutation(len(kinds))[: rng.integers(1, 4)]:
            gone[kind] = min(left, held[kind])
            left -= gone[kind]
        some = rng.choice(len(kinds), size=rng.integers(1, 3))
        come = rng.multinomial(gone.sum(), np.full(len(some), 1 / len(some)))
        after = held - gone
        np.add.at(after, some, come)
        yield held, after


def beyond(title: str, epsilon: float, people: int, m: int, seed: int, tried: int) -> dict[str, float]:
    """How far the worst of many attacks on a random tally goes, as a multiple of what the limits allow; 1 within.

    Of frequencies and of means; nothing where the limits are not called proved.
    """
    mechanism, rng = made(title, epsilon), np.random.default_rng(seed)
    kinds = kinds_of(mechanism)
    kinds = kinds[rng.permutation(len(kinds))[:14]] if rng.random() < 0.5 else kinds

    def tally(of: np.ndarray) -> Tally:
        return Tally(mechanism.fingerprint, int(of.sum()), (of @ kinds).reshape(mechanism.tally_shape))

    worst: dict[str, float] = {}
    limits = None
    for held, after in random_attacks(mechanism, kinds, people, m, rng, tried):
        if limits is None:
            before = mechanism.estimate(tally(held))
            limits = influence(mechanism, tally(held), m, before)
        moved = mechanism.estimate(tally(after))
        for which, kind in (("frequency", limits.frequency_kind), ("mean", limits.mean_kind)):
            if kind != "bound":
                continue
            start, end = (getattr(one, which).values for one in (before, moved))
            if which == "mean":
                start, end = np.clip(start, -1, 1), np.clip(end, -1, 1)
            low, high = getattr(limits, f"{which}_low"), getattr(limits, f"{which}_high")
            known = np.isfinite(start) & np.isfinite(end)
            room = np.where(end > start, high - start, start - low)[known]
            gone = np.abs(end - start)[known]
            share = float(np.max(gone / np.maximum(room, 1e-9), initial=0.0, where=gone > 1e-7))
            worst[which] = max(worst.get(which, 0.0), share)
    return worst


@pytest.mark.parametrize(("epsilon", "people", "m"), [(1, 40, 4), (5, 1500, 15)])
@pytest.mark.parametrize("title", FORMS)
def test_the_worst_people_replaced_in_random_tallies_do_not_go_beyond(
    title: str, epsilon: float, people: int, m: int
) -> None:
    found = beyond(title, epsilon, people, m, 1, 20)
    assert all(share <= 1 + 1e-6 for share in found.values()), found


plain_parted: Any = influence_module._one_parted
plain_averaged = reach.averaged


def nobody_comes(*given: Any) -> reach.Interval:
    found: reach.Interval = plain_parted(*given[:-1], 0)
    return found


def only_the_first(parts: Any, tell: Any) -> reach.Reach:
    return plain_averaged(parts[:1], tell[:1])


PLANTED = {
    "parts that attackers may be in": (reach, "averaged", only_the_first),
    "people who come": (influence_module, "_one_parted", nobody_comes),
}


@pytest.mark.parametrize("left_out", PLANTED)
def test_limits_that_leave_something_out_are_broken(left_out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, instead = PLANTED[left_out]
    monkeypatch.setattr(where, name, instead)
    assert any(max(beyond("split", 1, 300, 15, seed, 40).values()) > 1.05 for seed in range(20))


def test_where_the_correction_has_no_limit_nothing_is_called_proved() -> None:
    """Few people of whom nearly all can be attackers: the sum of all frequencies may be made nothing."""
    mechanism = made("pckv-ue", 1)
    kinds = kinds_of(mechanism)
    held = np.random.default_rng(1).multinomial(300, np.full(len(kinds), 1 / len(kinds)))
    tally = Tally(mechanism.fingerprint, 300, (held @ kinds).reshape(mechanism.tally_shape))
    limits = influence(mechanism, tally, 100)
    assert limits.frequency_kind == "largest found" and limits.mean_kind == "bound"
    assert np.isfinite([limits.frequency_low, limits.frequency_high]).all()


def test_means_under_common_errors_are_pulled_no_further_than_said() -> None:
    """r²·h(r)/(r + h(r)), on a fine grid."""
    r = np.linspace(1e-6, 12, 200_001)
    assert 0.95 * reach.PULL < (r**2 * hazard(r) / (r + hazard(r))).max() < reach.PULL
    moved = r * hazard(r) / (r + hazard(r))
    assert (np.diff(moved[r > reach.NEAR]) < 0).all(), "what is said at the least ratio holds for all larger ones"


def test_a_limit_of_one_average_holds_any_who_leave_and_any_who_come() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        numbers, m = rng.choice([-1.0, 0.2, 2.0], size=12), int(rng.integers(1, 6))
        leave, come = rng.integers(0, m + 1, size=2)
        low, high = influence_module._one_parted(
            np.array([numbers.mean()]), np.array([-1.0]), np.array([2.0]), np.array([12.0]), m, m
        )
        kept = np.sort(numbers)[leave:], np.sort(numbers)[: 12 - leave]
        most, least = (np.append(one, np.full(come, end)).mean() for one, end in zip(kept, (2.0, -1.0), strict=True))
        assert low[0] - 1e-9 <= least <= most <= high[0] + 1e-9
