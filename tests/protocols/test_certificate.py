"""What all rounds of a protocol together spend, proved, and held against the enumeration of hostile broadcasts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

from keyveil.core.coins import Coins
from keyveil.core.errors import PrivacyError
from keyveil.core.report import Payload
from keyveil.core.schema import GRID, Schema
from keyveil.lab import datasets
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.keyvalue.privkv_round import PrivKVRound
from keyveil.protocols.base import most_spent
from keyveil.protocols.certificate import announcements, certificate, most_telling, worst_loss, worst_ratio
from keyveil.protocols.facets import Coordinates
from keyveil.protocols.privkvm import PrivKVM
from keyveil.protocols.privkvm_plus import PrivKVMPlus
from keyveil.protocols.registry import create, names
from tests.protocols.hostile import records
from tests.protocols.rounds import finish

SCHEMA, ONE = Schema(keys=5), Fraction(1)
OPTIONS: dict[str, dict[str, Any]] = {"adaptive": {"max_pairs": 2}, "split": {"max_pairs": 2}}


@pytest.mark.parametrize("name", [name for name in names() if name not in ("privkvm-plus", "privkvm-meanest")])
def test_every_protocol_has_a_certificate(name: str) -> None:
    proof = certificate(create(name, SCHEMA, 1, **OPTIONS.get(name, {})))
    assert proof.certified and 0.5 < proof.exact_epsilon <= 1
    assert proof.mechanism == name and proof.worst.ratio <= proof.ratio
    assert set(proof.document()) == {
        "mechanism", "requested_epsilon", "exact_epsilon", "certified", "method", "sizes", "worst",
    }  # fmt: skip


@pytest.mark.parametrize(("rounds", "exact"), [(2, 0.8672), (3, 0.9132)])
def test_rounds_of_the_same_people_multiply(rounds: int, exact: float) -> None:
    """The total of privkvm is attained by somebody who holds a key against somebody who does not, in every round."""
    proof = certificate(PrivKVM(SCHEMA, ONE, rounds=rounds))
    assert float(proof.exact_epsilon) == pytest.approx(exact, abs=5e-5)
    assert proof.worst.ratio == proof.ratio
    assert isinstance(proof.worst.report, tuple) and len(proof.worst.report) == rounds


def test_rounds_of_other_people_do_not() -> None:
    split = create("split", SCHEMA, 1, groups="kvue:1,ssr:1,pckv-ue:1", max_pairs=2)
    assert float(certificate(split).exact_epsilon) == pytest.approx(1, abs=1e-6)
    both = create("adaptive", SCHEMA, 1, max_pairs=2, variant="published")
    assert certificate(both).sizes["answered"] == 2


def test_a_group_that_spends_less_is_not_what_the_certificate_speaks_about() -> None:
    cheap, dear = (create("split", SCHEMA, 1, groups=groups) for groups in ("krr-harmony:1", "krr-harmony:1,kvue:1"))
    assert float(certificate(cheap).exact_epsilon) == pytest.approx(0.7809, abs=5e-5)
    assert float(certificate(dear).exact_epsilon) == pytest.approx(1, abs=1e-6)


def test_the_certificate_covers_what_a_real_course_spends() -> None:
    people = datasets.independent(2000, np.full(5, 0.4), np.zeros(5), 1)
    asked: dict[str, dict[str, Any]] = {"privkvm": {"rounds": 4}, "privkvm-plus": {"price": "0.001"}, "pilot": {}}
    for name, options in asked.items():
        protocol = create(name, SCHEMA, 2, **options)
        spent = most_spent([one.round for one in finish(protocol, people, 3)])
        longest = most_spent(protocol.longest())
        assert spent <= longest <= 2


def test_coordinates_have_a_certificate_too() -> None:
    assert certificate(Coordinates(SCHEMA, ONE, "kvue", names=("x", "y"))).certified


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
        asked = super().plan(finished)
        if asked is None or asked.number == 1:
            return asked
        mechanism: Any = asked.mechanism
        return replace(asked, mechanism=Leaky(mechanism.schema, mechanism.epsilon, fake=mechanism.fake))


def test_a_leak_in_a_later_round_is_found() -> None:
    with pytest.raises(PrivacyError) as refused:
        certificate(Careless(Schema(keys=2), ONE, rounds=2))
    assert refused.value.code == "privacy/closed-form"


def test_an_announced_extreme_is_worth_more_than_a_fair_sign() -> None:
    first, second = PrivKVMPlus(Schema(keys=2), ONE, rounds=2).longest()
    assert worst_ratio(first) == first.mechanism.ratio
    assert worst_ratio(second) > second.mechanism.ratio
    hostile = most_telling(second)
    assert isinstance(hostile, PrivKVRound) and hostile.fake == (-GRID, -GRID)
    assert worst_loss([announcements(second.mechanism)], records(2)).ratio == worst_ratio(second) == hostile.ratio
