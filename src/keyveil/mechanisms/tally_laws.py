"""What the laws of tallies share: tables of people, and what a channel makes of so many people at once.

What people put into a channel is drawn person by person (the key they are asked about, the pair they sample, the sign
of a value). What the channel makes of it depends on counts only, so one binomial or multinomial number stands for
thousands of reports. ``Mechanism.draw_tally`` (``capabilities.TallyLaw``) is built from these parts.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Table
from keyveil.core.coins import Coins
from keyveil.core.records import Records
from keyveil.core.schema import GRID
from keyveil.kernels.held import values_of
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import CountDraws, TallyLaw, can
from keyveil.mechanisms.encoders import Labels

Counts = NDArray[np.int64]

_CELLS = 1 << 20  # numbers drawn at once

_SAMPLED = frozenset({"respond_many", "fold"})  # what the law of a tally describes


@runtime_checkable
class CrowdLaw(Protocol):
    """The tally of any number of people of a few types can be drawn without drawing the people, exactly.

    It takes a mechanism whose reports are independent given the type: what a person puts into the channel is then
    multinomial as well, so the work depends on the number of types and keys, and not on that of people.
    """

    def draw_crowd(self, types: Records, people: Counts, draws: CountDraws) -> Counts:
        """Counts in the law of ``fold`` over ``people[i]`` reports of everybody with the record i."""


class LimitDraws(CountDraws, Protocol):
    """Normal numbers too; NumPy's generators have them."""

    def standard_normal(self, size: Any) -> Any: ...


@runtime_checkable
class NormalLimit(Protocol):
    """The tally of very many people of a few types is nearly normal, with a mean and a covariance that are exact.

    What is drawn from it is an approximation. Whoever shows it says so, and nobody measures coverage with it.
    """

    def limit_known(self) -> bool:
        """Whether the options of this mechanism leave it a limit."""

    def draw_limit(self, types: Records, people: Counts, draws: LimitDraws) -> Counts:
        """Counts near the law of ``fold`` over ``people[i]`` reports of everybody with the record i."""


def normal_limit(mechanism: Mechanism) -> NormalLimit | None:
    """The normal limit of its tally, unless a subclass reports or counts in a way of its own."""
    if not isinstance(mechanism, NormalLimit) or not mechanism.limit_known():
        return None
    return mechanism if _describes(mechanism, "draw_limit") else None


def declared_law(mechanism: Mechanism) -> TallyLaw | None:
    """The law of its tally, unless a subclass of the class that declares it reports or counts in a way of its own."""
    law = can(mechanism, TallyLaw)
    return law if law is not None and _describes(mechanism, "draw_tally") else None


def crowd_law(mechanism: Mechanism) -> CrowdLaw | None:
    """The law of the tally of people by type, under the same condition; values must be told by their sign."""
    labels = getattr(mechanism, "labels", None)
    if not isinstance(mechanism, CrowdLaw) or (labels is not None and not labels.signed):
        return None
    return mechanism if _describes(mechanism, "draw_crowd") else None


def _describes(mechanism: Mechanism, method: str) -> bool:
    """Whether no class below the one that has the method changes how reports are drawn or counted."""
    for kind in type(mechanism).__mro__:
        if method in vars(kind):
            return True
        if not _SAMPLED.isdisjoint(vars(kind)):
            return False
    return True  # an instance's own method


def asked_crowd(types: Records, people: Counts, draws: CountDraws) -> Counts:
    """How many people are absent, minus or plus at the key that they are asked about, uniformly: [state, key].

    ``states_by_key`` for ``people[i]`` people of type i each; the signs of values are drawn here, too.
    """
    d = types.d
    asked = np.zeros((3, d), dtype=np.int64)
    step = max(_CELLS // d, 1)
    for start in range(0, types.n, step):
        some = types.slice(start, min(start + step, types.n))
        by_key = draws.multinomial(people[start : start + some.n], np.full(d, 1 / d))
        held = by_key[np.repeat(np.arange(some.n), some.sizes), some.keys]
        plus = draws.binomial(held, (GRID + some.values.astype(np.int64)) / (2 * GRID))
        asked[0] += by_key.sum(axis=0)
        np.subtract.at(asked[0], some.keys, held)
        np.add.at(asked[1], some.keys, held - plus)
        np.add.at(asked[2], some.keys, plus)
    return asked


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
