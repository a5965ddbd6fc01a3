"""Marginals: the cell of one public set of a few keys, through a frequency oracle (after CALM, Zhang et al. 2018).

A report tells at once which of the keys are held and the signs of their values, so any question about ``size`` keys
can be asked later. There are many sets, so each gets few reports: for presences of pairs among many keys ``moments``
needs fewer people below ε = 3. Derivation: docs/mechanisms/marginals.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.core.epsilon import exp_floor
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.public import public_index, public_indices, public_words_covering
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.kernels.held import values_of
from keyveil.kernels.public_cells import add_cells
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.capabilities import CountDraws
from keyveil.mechanisms.categorical.grr import GRR
from keyveil.mechanisms.categorical.unary import OUE
from keyveil.mechanisms.effects import Average, Effects, asked, independent_cells
from keyveil.mechanisms.encoders import are_positive, is_positive
from keyveil.mechanisms.families.key_value import REDUCED_KEYS
from keyveil.mechanisms.families.one_key import one_of
from keyveil.mechanisms.families.through_oracle import ThroughOracle
from keyveil.mechanisms.joint.cells import (
    ABSENT,
    MINUS,
    PLUS,
    KeyTables,
    answer_from_cells,
    effects_of_cells,
    pooled,
    predicted_from_cells,
)
from keyveil.mechanisms.joint.ranks import Ints, unrank_sets
from keyveil.mechanisms.joint.statistics import Floats, JointAnswers, Statistic, share, solution, total
from keyveil.mechanisms.report_laws import Asked, bits_of
from keyveil.mechanisms.responses import Spread
from keyveil.mechanisms.tally_laws import people_by

ORACLES: dict[str, type[GRR | OUE]] = {"grr": GRR, "oue": OUE}
MOST_COUNTS = 1 << 23  # 64 MB


@dataclass(frozen=True)
class Marginals(ThroughOracle):
    """One report about the cell of a public set of ``size`` keys; the sets are all there are, or ``members`` of them.

    Fewer members give each more reports, but leave some sets of keys out. ``oracle``: grr below 3·e^ε + 2 cells, else
    oue, unless it is given.
    """

    size: int = 2
    members: int | None = None
    oracle: str | None = None

    name: ClassVar[str] = "marginals"
    unit_counts: ClassVar[bool] = True

    def validate(self) -> None:
        d = self.schema.d
        if not 1 <= self.size <= d:
            raise MechanismError("mechanism/option", f"marginals take a size from 1 to {d} keys, not {self.size}.")
        if self.members is None:
            object.__setattr__(self, "members", self.every)
        if self.oracle is None:
            few = 3**self.size < 3 * exp_floor(self.epsilon) + 2
            object.__setattr__(self, "oracle", "grr" if few else "oue")
        members, least = self.members or 0, -(-d // self.size)
        if not least <= members <= self.every:
            raise MechanismError(
                "mechanism/option",
                f"marginals of {self.size} out of {d} keys take from {least} to {self.every} members, not {members}.",
            )
        if members * (1 + 3**self.size) > MOST_COUNTS:
            raise MechanismError(
                "mechanism/too-many-keys",
                f"{members:,} members with {3**self.size} cells each are too many to count; take fewer members.",
            )
        one_of(self.name, "oracle", self.oracle or "", tuple(ORACLES))

    @property
    def every(self) -> int:
        """How many sets of keys there are."""
        return math.comb(self.schema.d, self.size)

    @cached_property
    def family(self) -> Ints:
        """The sets of keys that reports are about [members, size], each rising."""
        assert self.members is not None
        if self.members == self.every:
            return unrank_sets(np.arange(self.members), self.size, self.schema.d)
        return balanced_family(self.schema.d, self.size, self.members)

    @cached_property
    def inner(self) -> GRR | OUE:
        assert self.oracle is not None
        return ORACLES[self.oracle](Schema(keys=3**self.size), self.epsilon)

    def every_word(self) -> list[int]:
        return public_words_covering(len(self.family))

    @property
    def sizes(self) -> dict[str, int]:
        return {"keys": self.schema.d, "size": self.size}

    def reduced(self) -> Self:
        size = min(self.size, 2 if self.oracle == "grr" else 1)  # as many unary reports as there are sets of cells
        if self.schema.d <= REDUCED_KEYS and self.size == size:
            return self
        return replace(self, schema=Schema(keys=min(self.schema.d, REDUCED_KEYS)), size=size, members=None)

    # -- device and bulk ----------------------------------------------------------------------------------------

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        held, cell = dict(pairs), 0
        for key in self.family[public_index(word, len(self.family))].tolist():
            digit = (PLUS if is_positive(held[key], coins) else MINUS) if key in held else ABSENT
            cell = 3 * cell + digit
        return self.inner.respond([(cell, 0)], word, coins)

    def cells_of(self, records: Records, members: Ints, coins: Coins) -> Ints:
        """Draws everybody's signs: the cell of every person within the given member of the family."""
        cells = np.zeros(records.n, dtype=np.int64)
        for keys in self.family[members].T:
            held, values = values_of(records, keys)
            signs = np.where(are_positive(values, coins), PLUS, MINUS)
            cells = 3 * cells + np.where(held, signs, ABSENT)
        return cells

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        return self.inner.respond_for(self.cells_of(records, self.members_of(words), coins), words, coins)

    def members_of(self, words: NDArray[np.uint64]) -> Ints:
        """The member of the family that every report is about."""
        return public_indices(words, len(self.family))

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    def tally_shape(self) -> tuple[int, ...]:
        """For every member the reports, then the supports of its cells."""
        return (len(self.family), 1 + 3**self.size)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        members, cells = self.members_of(words), 3**self.size
        counts = np.zeros(self.tally_shape, dtype=np.int64)
        counts[:, 0] = np.bincount(members, minlength=len(counts))
        if self.oracle == "grr":
            seen = np.bincount(members * cells + payloads, minlength=len(counts) * cells)
            counts[:, 1:] = seen.reshape(len(counts), cells)
            return counts
        for cell in range(cells):
            supports = payloads[:, cell // 64] >> np.uint64(cell % 64) & np.uint64(1)
            counts[:, 1 + cell] = np.bincount(members[supports == 1], minlength=len(counts))
        return counts

    def counts_of_each(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        counts = np.zeros((len(payloads), *self.tally_shape), dtype=np.int64)
        mine, members, cells = np.arange(len(counts)), self.members_of(words), 3**self.size
        counts[mine, members, 0] = 1
        if self.oracle == "grr":
            counts[mine, members, 1 + payloads] = 1
        else:
            counts[mine, members, 1:] = bits_of(payloads, cells)
        return counts

    def add(self, counts: NDArray[np.int64], payloads: NDArray[Any], words: NDArray[np.uint64]) -> None:
        width, flat = counts.shape[1], counts.reshape(-1)
        starts = self.members_of(words) * width
        add_cells(flat, starts, counts.size)
        if self.oracle == "grr":
            add_cells(flat, starts + 1 + payloads, counts.size)
            return
        for cell in range(width - 1):
            supports = payloads[:, cell // 64] >> np.uint64(cell % 64) & np.uint64(1)
            add_cells(flat, starts[supports == 1] + (1 + cell), counts.size)

    def draw_tally(self, records: Records, coins: Coins, draws: CountDraws) -> NDArray[np.int64]:
        members, cells = self.members_of(coins.words(records.n)), self.inner.schema.d
        counts = np.zeros(self.tally_shape, dtype=np.int64)
        counts[:, 0] = np.bincount(members, minlength=len(counts))
        some, rows = np.unique(members, return_inverse=True)  # few of many members have reports
        true = people_by(rows, self.cells_of(records, members, coins), len(some), cells)
        counts[some, 1:] = self.inner.draw_supports(true, draws)
        return counts

    def shares(self, tally: Tally) -> Floats:
        """Unbiased shares of the cells of every member [members, 3^size]; NaN where there are no reports."""
        counts, response = self._own(tally), self.inner.response
        own, fake = float(response.holder.support), float(response.stranger.support)
        with np.errstate(divide="ignore", invalid="ignore"):
            result: Floats = (counts[:, 1:] / counts[:, :1] - fake) / (own - fake)
        return result

    def covering(self, keys: Ints) -> Ints:
        """How many members hold all keys of each row."""
        ones = np.zeros(self.tally_shape, dtype=np.int64)
        ones[:, 0] = 1
        return pooled(self.family, ones, keys)[:, 0]

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        """From the reports about members with the key; values are taken as constant at the mean."""
        respondents = n * self.covering(np.arange(self.schema.d)[:, None]) / len(self.family)
        given = self.size, frequency, mean, respondents, n, population
        covariance = predicted_from_cells(self.inner, *given)
        return Spread(covariance[:, 0, 0], covariance[:, 1, 1], covariance[:, 0, 1])

    def asked_about(self, tally: Tally) -> Asked:
        return Asked.evenly(self._own(tally)[:, 0], self.family)

    def report_effects(self, tally: Tally) -> list[Effects]:
        """Averages over the reports about any member with the key, which tell its state or support cells of it."""
        people = self.estimate(tally).respondents
        if self.oracle == "grr":
            return [asked(self, (self._alike([cell]) for cell in self._one_state), people)]
        none, every = asked(self, (self._alike([]), self._alike(range(3**self.size))), people).points[..., 0]
        return [independent_cells(none, every, 3 ** (self.size - 1), 3 ** (self.size - 1), people)]

    @property
    def _one_state(self) -> list[int]:
        """The cells in which all keys of a member have the same state."""
        return [state * (3**self.size - 1) // 2 for state in range(3)]

    def _alike(self, cells: Iterable[int]) -> tuple[int, Ints]:
        """One report about every member that supports these cells, and how many reports that are."""
        counts = np.zeros(self.tally_shape, dtype=np.int64)
        counts[:, [0, *(1 + cell for cell in cells)]] = 1
        return len(counts), counts

    def contingency_tables(self, tally: Tally) -> KeyTables:
        return KeyTables(self.family, self.shares(tally), self._own(tally)[:, 0])

    def answer_jointly(
        self, tally: Tally, keys: Ints, statistics: Sequence[Statistic], population: bool = False
    ) -> JointAnswers:
        """From all members that hold the keys of a row; refused if no member holds the keys of any row."""
        most = max(len(statistic.places) for statistic in statistics)
        if most > self.size:
            raise MechanismError(
                "question/order",
                f"marginals of size {self.size} cannot answer a question about {most} keys together; "
                f"marginals with size={most} or moments with order={most} could.",
            )
        counts = self._own(tally)
        answers = answer_from_cells(self.inner, self.family, counts, keys, statistics, tally.reports, population)
        places = sorted(set().union(*(statistic.places for statistic in statistics)))
        if len(keys) and not answers.respondents.any() and not self.covering(keys[:, places]).any():
            names = ", ".join(self.schema.keys[key] for key in keys[0, places])
            raise MechanismError(
                "question/not-covered",
                f"No report is about {names} together; marginals with more members could answer, or moments.",
            )
        return answers

    def joint_effects(self, tally: Tally, keys: Ints, statistic: Statistic) -> list[Average]:
        return effects_of_cells(self.inner, self.family, self._own(tally), keys, statistic)

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        rows = np.arange(self.schema.d)[:, None]
        answers = self.answer_jointly(tally, rows, [share({0: True}), total(0, {})], population)
        return solution(answers).estimates(
            self.header(tally.reports, confidence, population),
            respondents=answers.respondents,
        )


@lru_cache(maxsize=8)
def balanced_family(d: int, size: int, members: int) -> Ints:
    """Distinct sets of keys, chosen greedily: the least used key, then those that met the chosen ones least often.

    Everybody finds the same family, without a seed. All keys are in it, and pairs meet nearly equally often. Where that
    leads to a set that was chosen before, the first one that was not is taken.
    """
    together, used = np.zeros((d, d), dtype=np.int64), np.zeros(d, dtype=np.int64)
    family: dict[tuple[int, ...], None] = {}
    every = combinations(range(d), size)
    while len(family) < members:
        chosen: list[int] = []
        for _ in range(size):
            burden = together[chosen].sum(axis=0) * (members * size + 1) + used
            burden[chosen] = np.iinfo(np.int64).max
            chosen.append(int(burden.argmin()))
        if tuple(sorted(chosen)) in family:
            chosen = list(next(one for one in every if one not in family))
        used[chosen] += 1
        together[np.ix_(chosen, chosen)] += 1
        family[tuple(sorted(chosen))] = None
    result = np.array(list(family), dtype=np.int64)
    result.setflags(write=False)
    return result
