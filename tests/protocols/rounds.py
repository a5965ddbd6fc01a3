"""A protocol over people in ten lines, for tests: everybody has one public word that parts them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.core.population import Population
from keyveil.core.records import Records
from keyveil.lab.coins import SeededCoins
from keyveil.protocols.base import Finished, Protocol


def finish(protocol: Protocol, people: Population, seed: int) -> list[Finished]:
    """All rounds of a protocol."""
    records = people.records(protocol.schema)
    words, finished = SeededCoins(seed).words(people.n), list[Finished]()
    while (asked := protocol.next_round(finished)) is not None:
        answering = chosen(records, asked.part.members(words))
        reports = asked.mechanism.perturb_many(answering, SeededCoins(seed, asked.number))
        finished.append(Finished(asked, asked.mechanism.tally(reports)))
    return finished


def chosen(records: Records, members: NDArray[np.bool_]) -> Records:
    """The records of some people."""
    rows = np.repeat(members, records.sizes)
    offsets = np.concatenate(([0], np.cumsum(records.sizes[members])))
    return Records(offsets, records.keys[rows], records.values[rows], records.d)
