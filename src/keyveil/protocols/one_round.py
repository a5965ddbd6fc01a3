"""A single mechanism as a protocol of one round, so that code that drives protocols drives mechanisms too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from keyveil.core.errors import ProtocolError
from keyveil.core.estimates import Estimates
from keyveil.mechanisms.base import Mechanism
from keyveil.protocols.base import History, Protocol, Round


@dataclass(frozen=True)
class OneRound(Protocol):
    """Everybody answers one mechanism once, and that is all."""

    mechanism: Mechanism

    @property
    def name(self) -> str:  # type: ignore[override]  # what a class says of all its protocols, this one says of each
        return self.mechanism.name

    @property
    def parameters(self) -> dict[str, Any]:
        return self.mechanism.options

    @property
    def single(self) -> Mechanism:
        return self.mechanism

    def plan(self, finished: History) -> Round | None:
        return None if finished else Round(1, self.mechanism)

    def longest(self) -> list[Round]:
        return [Round(1, self.mechanism)]

    def estimate(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        if not finished:
            raise ProtocolError("protocol/empty", "Nothing was collected yet, so there is nothing to estimate.")
        return finished[0].estimates(confidence, population)


def one_round(mechanism: Mechanism) -> OneRound:
    return OneRound(mechanism.schema, mechanism.epsilon, mechanism)
