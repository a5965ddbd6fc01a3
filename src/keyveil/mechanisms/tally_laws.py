"""What the laws of tallies share: tables of people, and what a channel makes of so many people at once.

What people put into a channel is drawn person by person (the key they are asked about, the pair they sample, the sign
of a value). What the channel makes of it depends on counts only, so one binomial or multinomial number stands for
thousands of reports. ``Mechanism.draw_tally`` (``capabilities.TallyLaw``) is built from these parts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Table
from keyveil.core.coins import Coins
from keyveil.core.records import Records
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import CountDraws, TallyLaw, can
from keyveil.mechanisms.encoders import Labels, values_of

Counts = NDArray[np.int64]

_SAMPLED = frozenset({"respond_many", "fold"})  # what the law of a tally describes


def declared_law(mechanism: Mechanism) -> TallyLaw | None:
    """The law of its tally, unless a subclass of the class that declares it reports or counts in a way of its own."""
    law = can(mechanism, TallyLaw)
    if law is None:
        return None
    for kind in type(mechanism).__mro__:
        if "draw_tally" in vars(kind):
            return law
        if not _SAMPLED.isdisjoint(vars(kind)):
            return None
    return law  # an instance's own method


def people_by(rows: Counts, columns: Counts, height: int, width: int) -> Counts:
    """How many people are in each row and column, [height, width]."""
    return np.bincount(rows * width + columns, minlength=height * width).reshape(height, width)


def states_by_key(records: Records, keys: Counts, labels: Labels, coins: Coins) -> Counts:
    """How many people are in each state of the key that their report is about, [state, key].

    State 0 is absent, state i + 1 label i; labels are drawn here.
    """
    held, values = values_of(records, keys)
    states = np.where(held, 1 + labels.draw_many(values, coins, keys), 0)
    return people_by(states, keys, 1 + labels.count, records.d)


def draw_outputs(table: Table, people: Counts, draws: CountDraws) -> Counts:
    """What so many people [state, cell] say [output, cell], independently of each other."""
    said = np.zeros((len(table.weights[0]), people.shape[1]), dtype=np.int64)
    for state, row in enumerate(people):
        some = np.flatnonzero(row)  # few people are in most of many cells
        shares = np.array(table.weights[state], dtype=np.float64)
        said[:, some] += np.moveaxis(draws.multinomial(row[some], shares / shares.sum()), -1, 0)
    return said
