"""A protocol over people, for tests that want no more than its finished rounds."""

from __future__ import annotations

from keyveil.frames.population import Population
from keyveil.lab.rounds import ask
from keyveil.protocols.base import Finished, Protocol


def finish(protocol: Protocol, people: Population, seed: int) -> list[Finished]:
    """All rounds of a protocol."""
    return ask(protocol, [people.records(protocol.schema)], seed)
