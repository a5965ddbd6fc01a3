"""What all rounds of a protocol together spend, proved, and held against the enumeration of hostile broadcasts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Any, ClassVar

import numpy as np
import pytest

from keyveil.core.coins import Coins
from keyveil.core.epsilon import keeps, levels
from keyveil.core.errors import PrivacyError
from keyveil.core.report import Payload
from keyveil.core.schema import GRID, Schema
from keyveil.lab import datasets
from keyveil.mechanisms.announcements import NothingAnnounced
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.keyvalue.kvue import KVUE
from keyveil.mechanisms.keyvalue.wsr import WSR
from keyveil.mechanisms.registry import protocol_names
from keyveil.mechanisms.rounds.privkvm import PrivKVRound
from keyveil.protocols.base import Protocol, most_spent
from keyveil.protocols.certificate import (
    certificate,
    courses_of,
    forms_of,
    kinds_of,
    most_telling,
    people_of,
    worst_loss,
    worst_ratio,
)
from keyveil.protocols.pilot import Pilot
from keyveil.protocols.privkvm import PrivKVM
from keyveil.protocols.privkvm_plus import PrivKVMPlus
from keyveil.protocols.registry import create
from tests.protocols.hostile import records
from tests.protocols.rounds import finish

SCHEMA, ONE = Schema(keys=5), Fraction(1)
OPTIONS: dict[str, dict[str, Any]] = {
    "adaptive": {"max_pairs": 2},
    "privkvm-plus": {"rounds": 3},
}
HOSTILE: list[tuple[str, dict[str, Any]]] = [
    *((name, OPTIONS.get(name, {})) for name in protocol_names()),
    ("adaptive", {"max_pairs": 2, "variant": "published"}),
    ("pilot", {"then": "wsr", "theta": "0.25"}),
    ("pilot", {"then": "topsel"}),
    ("pilot", {"then": "wheel"}),
    ("pilot", {"then": "pckv-grr"}),
    ("topsel-project", {"set_sizes": "1:0.5,2:0.5"}),
]


@pytest.mark.parametrize("name", protocol_names())
def test_every_protocol_has_a_certificate(name: str) -> None:
    proof = certificate(create(name, SCHEMA, 1, **OPTIONS.get(name, {})))
    assert proof.certified and 0.7 < proof.exact_epsilon <= 1
    assert proof.mechanism == name and proof.worst.ratio <= proof.ratio
    assert set(proof.document()) == {
        "mechanism", "requested_epsilon", "exact_epsilon", "exact_epsilon_decimal", "certified",
        "at_most", "method", "sizes", "worst",
    }  # fmt: skip


@pytest.mark.parametrize(("rounds", "exact"), [(2, 0.8672), (3, 0.9132)])
def test_rounds_of_the_same_people_multiply(rounds: int, exact: float) -> None:
    """The total of privkvm is attained by somebody who holds a key against somebody who does not, in every round."""
    proof = certificate(PrivKVM(SCHEMA, ONE, rounds=rounds))
    assert float(proof.exact_epsilon) == pytest.approx(exact, abs=5e-5)
    assert proof.worst.ratio == proof.ratio
    assert isinstance(proof.worst.report, tuple) and len(proof.worst.report) == rounds


def test_rounds_of_other_people_do_not() -> None:
    pilot = create("pilot", SCHEMA, 1, then="wsr", theta="0.5", max_pairs=2)
    assert float(certificate(pilot).exact_epsilon) == pytest.approx(1, abs=1e-6)
    both = create("adaptive", SCHEMA, 1, max_pairs=2, variant="published")
    assert certificate(both).sizes["answered"] == 2


def test_the_certificate_covers_what_a_real_course_spends() -> None:
    people = datasets.independent(2000, np.full(5, 0.4), np.zeros(5), 1)
    tried: dict[str, dict[str, Any]] = {"privkvm": {"rounds": 4}, "privkvm-plus": {"price": "0.001"}, "pilot": {}}
    for name, options in tried.items():
        protocol = create(name, SCHEMA, 2, **options)
        spent = most_spent([one.round for one in finish(protocol, people, 3)])
        longest = most_spent(protocol.longest())
        assert spent <= longest <= 2


@dataclass(frozen=True)
class Leaky(PrivKVRound):
    """Tells the truth about values in later rounds, whatever its closed form says."""

    name: ClassVar[str] = "leaky"

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        held = dict(pairs).get(self.encoder.key(word))
        if held is not None and coins.chance(1, 2):
            return 1 + (held > 0)
        return super().respond(pairs, word, coins)


@dataclass(frozen=True)
class Careless(PrivKVM):
    """PrivKVM with a leak in its second round."""

    name: ClassVar[str] = "careless"

    def plan(self, finished: Any) -> Any:
        following = super().plan(finished)
        if following is None or following.number == 1:
            return following
        mechanism: Any = following.mechanism
        return replace(following, mechanism=Leaky(mechanism.schema, mechanism.epsilon, fake=mechanism.fake))


def test_a_leak_in_a_later_round_is_found() -> None:
    with pytest.raises(PrivacyError) as refused:
        certificate(Careless(Schema(keys=2), ONE, rounds=2))
    assert refused.value.code == "privacy/closed-form"


@pytest.mark.parametrize(("name", "options"), HOSTILE)
def test_whatever_a_collector_announces_nobody_loses_more_than_epsilon(name: str, options: dict[str, Any]) -> None:
    protocol = create(name, Schema(keys=3), 1, **options)
    rounds, announces = protocol.longest(), protocol.announces
    kinds = {one.number: kinds_of(protocol, one) for one in rounds}
    forms = {number: [form for kind in found for form in forms_of(kind, announces)] for number, found in kinds.items()}
    assert all(len(forms[one.number]) > 1 for one in rounds[1:]) == announces
    for course in courses_of(rounds):
        mine = [forms[one.number] for one in course]
        ratio = worst_loss(mine, people_of(mine)).ratio
        worst = prod(max(worst_ratio(kind, announces) for kind in kinds[one.number]) for one in course)
        assert keeps(ratio, ONE) and ratio <= worst


@dataclass(frozen=True)
class PlainTruth(NothingAnnounced, KVUE):
    """Tells the state of its key, whatever its closed form says."""

    name: ClassVar[str] = "plain-truth"

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        held = dict(pairs).get(self.encoder.key(word))
        return 0 if held is None else 1 + (held > 0)


@dataclass(frozen=True)
class CarelessPilot(Pilot):
    """A leak in the round of all but the pilot."""

    name: ClassVar[str] = "careless-pilot"

    def main_round(self, *learnt: Any) -> Mechanism:
        return PlainTruth(self.schema, self.epsilon)


@dataclass(frozen=True)
class OneBonus(WSR):
    """Every held symbol gains as much as the heaviest: right as long as all weights are alike."""

    name: ClassVar[str] = "one-bonus"

    def answer(self, held: list[int], word: int, coins: Coins) -> Payload:
        (high, low), labels = levels(self.epsilon), self.labels.count
        weights = [low * beta for beta in self.beta.tolist() for _ in range(labels)]
        for symbol in held:
            weights[symbol] += (high - low) * max(self.beta.tolist())
        return coins.choose([*weights, self.total - sum(weights)])


@dataclass(frozen=True)
class UnfairPilot(Pilot):
    """A main round that leaks under announced weights only."""

    name: ClassVar[str] = "unfair-pilot"

    def main_round(self, cap: int, law: Any, weights: tuple[int, ...] | None) -> Mechanism:
        return OneBonus(self.schema, self.epsilon, cap, weights=weights)


@pytest.mark.parametrize(
    "careless",
    [
        CarelessPilot(SCHEMA, ONE),
        UnfairPilot(SCHEMA, ONE, "wsr", theta=Fraction(1, 4)),
    ],
)
def test_a_leak_in_any_group_is_found(careless: Protocol) -> None:
    """Also where another group spends as much, so that the figure of the certificate is not the leaky one's."""
    with pytest.raises(PrivacyError) as refused:
        certificate(careless)
    assert refused.value.code == "privacy/closed-form"


def test_an_announced_extreme_is_worth_more_than_a_fair_sign() -> None:
    first, second = PrivKVMPlus(Schema(keys=2), ONE, rounds=2).longest()
    assert worst_ratio(first) == first.mechanism.ratio
    assert worst_ratio(second) > second.mechanism.ratio
    hostile = most_telling(second)
    assert isinstance(hostile, PrivKVRound) and hostile.fake == (-GRID, -GRID)
    forms = forms_of(second, announces=True)
    assert worst_loss([forms], records(2)).ratio == worst_ratio(second) == hostile.ratio
