"""One view of a record each: what a person loses through them, enumerated from the raw record on (erratum A11)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import pytest

from keyveil.core.coins import Coins
from keyveil.core.epsilon import keeps
from keyveil.core.errors import ProtocolError
from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.rounds.privkvm import PrivKVRound
from keyveil.privacy.certify import enumerate_worst
from keyveil.privacy.enumerate import law
from keyveil.protocols.base import EVERYONE, History, Round, collected
from keyveil.protocols.certificate import certificate
from keyveil.protocols.coordinates import Coordinates
from keyveil.protocols.hierarchy import Levels
from keyveil.protocols.one_view import OneView
from tests.protocols.hostile import worst_loss

ONE, TWO_KEYS = Fraction(1), Schema(keys=["fries", "pepsi"], low=1, high=5)
AISLES = Schema(keys=["food/apple", "food/bread", "drink/tea"])
VECTORS = [None, *product((1, 3, 5), (0, 10, 20))]
BASKETS: list[Mapping[str, Any]] = [
    {key: vector for key, vector in zip(TWO_KEYS.keys, vectors, strict=True) if vector is not None}
    for vectors in product(VECTORS, repeat=2)
]
SHELVES: list[Mapping[str, Any]] = [
    {key: value for key, value in zip(AISLES.keys, values, strict=True) if value is not None}
    for values in product((None, -1, 0, 1), repeat=3)
]
INNER: dict[str, dict[str, Any]] = {
    "kvue": {},
    "privkv": {},
    "kvoh": {},
    "ssr": {"max_pairs": 2},
    "wsr": {"max_pairs": 2},
    "pckv-ue": {"max_pairs": 2},
    "kv-sw": {"max_pairs": 2},
    "topsel": {"mode": "direct"},
    "moments": {},
}


def rated(mechanism: str = "kvue", kind: type[Coordinates] = Coordinates) -> Coordinates:
    """Rating and price of two keys, and the mean of their product."""
    names, ranges, products = ("rating", "price"), ((1, 5), (0, 20)), (("rating", "price"),)
    return kind(TWO_KEYS, ONE, mechanism, INNER[mechanism], names=names, ranges=ranges, products=products)


def shelved(mechanism: str = "kvue") -> Levels:
    return Levels(AISLES, ONE, mechanism, INNER[mechanism], depths=(1, 2))


def losses(protocol: OneView, people: Sequence[Mapping[str, Any]]) -> list[Fraction]:
    """Round by round the largest ratio for two raw records, through everything that a device does with them."""
    found = []
    for view, current in enumerate(protocol.longest()):
        small = current.mechanism.reduced()  # perhaps of fewer keys
        shown = {tuple(current.mechanism.read(protocol.view_of(record, view))) for record in people}
        inputs: list[Pairs] = [pairs for pairs in shown if all(key < small.schema.d for key, _ in pairs)]
        found.append(worst_loss([[small]], inputs))
    return found


def lost(protocol: OneView, people: Sequence[Mapping[str, Any]]) -> Fraction:
    """The same over all rounds that somebody answers, for the public word that is worst for them."""
    rounds, ratios = protocol.longest(), losses(protocol, people)
    words = [math.ceil(one.part.start * 2**32) << 32 for one in rounds]
    answered = [[ratio for one, ratio in zip(rounds, ratios, strict=True) if one.part.holds(word)] for word in words]
    return max(math.prod(some, start=ONE) for some in answered)


@dataclass(frozen=True)
class AsPrinted(Coordinates):
    """Everybody tells every coordinate, each with the whole budget."""

    def plan(self, finished: History) -> Round | None:
        following = super().plan(finished)
        return None if following is None else replace(following, part=EVERYONE)


def test_erratum_A11_everybody_tells_one_coordinate_and_loses_epsilon_once() -> None:  # noqa: N802
    assert float(lost(rated(), BASKETS)) == pytest.approx(math.e)
    assert keeps(lost(rated(), BASKETS), ONE)
    proof = certificate(rated())
    assert proof.certified and proof.sizes["rounds"] == 3 and proof.sizes["answered"] == 1


def test_erratum_A11_a_budget_for_every_coordinate_is_as_many_budgets() -> None:  # noqa: N802
    printed = rated(kind=AsPrinted)
    assert math.log(lost(printed, BASKETS)) == pytest.approx(3, abs=1e-6)
    assert not certificate(printed).certified
    first = printed.next_round([])
    assert first is not None
    with pytest.raises(ProtocolError) as refused:
        printed.next_round([collected(first, [])])
    assert refused.value.code == "protocol/budget"


def test_erratum_A11_coordinates_under_one_key_coin_cost_each_their_own() -> None:  # noqa: N802
    """As printed in PrivKV: one coin for the key, then all of ε₂ for each of two values; ε₁ = ε₂ = ½."""
    presence, truth = PrivKVRound(Schema(keys=1), ONE, ONE / 2).truths

    def printed(signs: tuple[bool, ...] | None, coins: Coins) -> Hashable:
        speaks = coins.chance(presence.numerator, presence.denominator)
        if speaks == (signs is None):
            return "silent"
        told = signs or (False, False)  # a made-up value is the announced one
        return tuple(sign == coins.chance(truth.numerator, truth.denominator) for sign in told)

    laws = [law(partial(printed, signs)) for signs in (None, *product((False, True), repeat=2))]
    most = max(one[output] / other[output] for one in laws for other in laws for output in one)
    assert math.log(most) == pytest.approx(0.5 + 2 * 0.5, abs=1e-8)


@pytest.mark.parametrize("mechanism", INNER)
def test_every_view_spends_what_its_mechanism_spends_from_the_raw_record_on(mechanism: str) -> None:
    for protocol, people in ((rated(mechanism), BASKETS), (shelved(mechanism), SHELVES)):
        for current, ratio in zip(protocol.longest(), losses(protocol, people), strict=True):
            assert keeps(ratio, ONE)
            assert ratio == enumerate_worst(current.mechanism.reduced()).ratio


@pytest.mark.parametrize("mechanism", INNER)
def test_views_have_a_certificate_whatever_mechanism_they_have(mechanism: str) -> None:
    for protocol in (rated(mechanism), shelved(mechanism)):
        proof = certificate(protocol)
        assert proof.certified and proof.sizes["answered"] == 1
        assert proof.ratio == max(one.mechanism.ratio for one in protocol.longest())
