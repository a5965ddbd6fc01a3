"""``kv.certify`` and ``kv.audit`` for mechanisms, protocols and code of others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import pytest

import keyveil as kv
from keyveil.core.estimates import Estimates
from keyveil.protocols.base import History, Protocol, Round
from keyveil.protocols.certificate import certificate
from keyveil.protocols.privkvm import PrivKVM
from keyveil.protocols.proofs import ProtocolAudit

SCHEMA = kv.Schema(keys=2)


def test_a_certificate_is_about_whatever_it_is_asked_of() -> None:
    mechanism, protocol = kv.mechanism("kvue", SCHEMA, 1), PrivKVM(SCHEMA, Fraction(1), rounds=2)
    assert kv.certify(mechanism) == mechanism.certificate() and kv.certify(mechanism).mechanism == "kvue"
    assert kv.certify(protocol) == protocol.certificate() == certificate(protocol)
    assert kv.certify(protocol).sizes["rounds"] == 2 and kv.certify(protocol).certified


def test_every_round_of_a_protocol_is_attacked() -> None:
    stages: list[tuple[str, float]] = []
    protocol = kv.mechanism("privkvm", SCHEMA, 4, rounds=3)
    found = kv.audit(protocol, draws=40_000, progress=lambda stage, share: stages.append((stage, share)))
    assert isinstance(found, ProtocolAudit) and not found.violated
    assert found.mechanism == "privkvm" and found.requested_epsilon == 4 and found.confidence == 0.99
    first, later = found.rounds  # the second and the third are alike under the worst broadcast
    assert first.confidence == later.confidence == pytest.approx(0.995)
    assert found.lower_bound == max(first.lower_bound, later.lower_bound) > 0.5
    assert found.document()["rounds"] == [first.document(), later.document()]
    assert {stage.partition(":")[0] for stage, _ in stages} == {"Round 1", "Round 2"}
    assert all((share > 0.5) == stage.startswith("Round 2") for stage, share in stages if share != 0.5)
    assert not isinstance(kv.audit(kv.mechanism("kvue", SCHEMA, 1), draws=4_000), ProtocolAudit)


@dataclass(frozen=True)
class Greedy(Protocol):
    """Says that a round costs a tenth of what it tells."""

    name: ClassVar[str] = "greedy"

    def plan(self, finished: History) -> Round | None:
        return None if finished else Round(1, kv.mechanism("kvue", self.schema, 4), cost=Fraction(2, 5))

    def estimate(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        return finished[0].estimates(confidence, population)


def test_a_round_that_tells_more_than_it_costs_is_found() -> None:
    """The whole keeps its 5, one round does not keep its 0.4. Confidence 0.99: kvue at 4 is far beyond it."""
    found = kv.audit(Greedy(SCHEMA, Fraction(5)), draws=20_000)
    assert isinstance(found, ProtocolAudit) and found.violated and 0.4 < found.lower_bound < 5
    assert not replace(found, rounds=()).violated


def test_foreign_code_is_certified_and_attacked_as_before() -> None:
    def coin(record: Any) -> bool:
        return bool(record) ^ (kv.Coins().bytes(1)[0] < 64)

    assert kv.audit(coin, records=[{}, {"a": 1}], epsilon=0.5, draws=20_000).violated  # it spends ln 3 = 1.1
