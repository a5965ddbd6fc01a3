"""IOH: the whole set as one of 3^d cells, through a frequency oracle (Sun et al. 2019).

A cell says for every key minus, absent or plus, so all questions about how keys depend on each other can be answered.
But errors grow exponentially in d, and ten keys are the limit. Derivation: docs/mechanisms/ioh.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Column, Estimates
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.capabilities import CountDraws
from keyveil.mechanisms.categorical.grr import GRR
from keyveil.mechanisms.categorical.unary import OUE, SUE, Unary
from keyveil.mechanisms.effects import Average, Effects, asked, independent_cells
from keyveil.mechanisms.encoders import are_positive, is_positive
from keyveil.mechanisms.families.one_key import one_of
from keyveil.mechanisms.families.through_oracle import ThroughOracle
from keyveil.mechanisms.joint.cells import ABSENT, MINUS, PLUS, KeyTables, answer_from_cells, effects_of_cells
from keyveil.mechanisms.joint.ranks import Ints
from keyveil.mechanisms.joint.statistics import JointAnswers, Statistic
from keyveil.mechanisms.responses import Floats, Solution, Spread, fieller, normal_quantile

ORACLES: dict[str, type[GRR | Unary]] = {"sue": SUE, "oue": OUE, "grr": GRR}
MOST_KEYS = 10  # 59,049 cells
REDUCED_KEYS = 2


@dataclass(frozen=True)
class IOH(ThroughOracle):
    """One report about the cell of a whole record; ``oracle``: sue as published, oue, or grr for few cells."""

    oracle: str = "oue"

    name: ClassVar[str] = "ioh"
    unit_counts: ClassVar[bool] = True

    @property
    def title(self) -> str:
        return f"ioh for at most {MOST_KEYS} keys"

    def validate(self) -> None:
        one_of(self.name, "oracle", self.oracle, tuple(ORACLES))
        if self.schema.d > MOST_KEYS:
            raise MechanismError(
                "mechanism/too-many-keys",
                f"ioh takes at most {MOST_KEYS} keys, not {self.schema.d}: it reports one of 3^d cells.",
            )

    @cached_property
    def inner(self) -> GRR | Unary:
        return ORACLES[self.oracle](Schema(keys=3**self.schema.d), self.epsilon)

    def reduced(self) -> Self:
        return self if self.schema.d <= REDUCED_KEYS else replace(self, schema=Schema(keys=REDUCED_KEYS))

    # -- cells --------------------------------------------------------------------------------------------------

    @cached_property
    def steps(self) -> NDArray[np.int64]:
        """By how much the cell's number changes with the digit of each key."""
        return 3 ** np.arange(self.schema.d - 1, -1, -1, dtype=np.int64)

    @cached_property
    def digits(self) -> NDArray[np.int64]:
        """What every cell says about every key: [key, cell]."""
        return np.arange(3**self.schema.d) // self.steps[:, None] % 3

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        cell = int(self.steps.sum()) * ABSENT
        for key, value in pairs:
            cell += (PLUS - ABSENT if is_positive(value, coins) else MINUS - ABSENT) * int(self.steps[key])
        return self.inner.respond([(cell, 0)], word, coins)

    def cells_of(self, records: Records, coins: Coins) -> NDArray[np.int64]:
        """Draws everybody's signs: the cell of every person."""
        moves = np.where(are_positive(records.values, coins), PLUS - ABSENT, MINUS - ABSENT) * self.steps[records.keys]
        everything = np.concatenate(([0], np.cumsum(moves)))
        cells: NDArray[np.int64] = self.steps.sum() * ABSENT + np.diff(everything[records.offsets])
        return cells

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        return self.inner.respond_for(self.cells_of(records, coins), words, coins)

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return self.inner.tally_shape

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return self.inner.fold(payloads, words)

    def draw_tally(self, records: Records, coins: Coins, draws: CountDraws) -> NDArray[np.int64]:
        true = np.bincount(self.cells_of(records, coins), minlength=self.inner.schema.d)
        return self.inner.draw_supports(true, draws)

    # -- estimates ----------------------------------------------------------------------------------------------

    def cells(self, tally: Tally) -> Floats:
        """Unbiased shares of people in each cell; NaN where there are no reports."""
        return self._answers(tally).shares

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        answers = self._answers(tally)
        frequency, product, spread = self._held(answers, self._matching({}), population)
        return Solution(frequency, product, spread).estimates(
            self.header(tally.reports, confidence, population),
            respondents=np.full(self.schema.d, tally.reports, dtype=np.int64),
        )

    def report_effects(self, tally: Tally) -> list[Effects]:
        """A report tells the cell of a person, or supports any cells."""
        cells, people = self.inner.schema.d, np.full(self.schema.d, tally.reports)
        if self.oracle == "grr":
            alike = np.eye(cells, dtype=np.int64)[[state * int(self.steps.sum()) for state in range(3)]]
            return [asked(self, ((1, counts) for counts in alike), people)]
        both = (np.full(cells, bit, dtype=np.int64) for bit in (0, 1))
        none, every = asked(self, ((1, counts) for counts in both), people).points[..., 0]
        return [independent_cells(none, every, cells // 3, cells // 3, people)]

    def answer_jointly(
        self, tally: Tally, keys: Ints, statistics: Sequence[Statistic], population: bool = False
    ) -> JointAnswers:
        """From one table over all keys."""
        n, everything = tally.reports, np.arange(self.schema.d)[None, :]
        table = np.concatenate(([n], self._own(tally)))[None, :]
        return answer_from_cells(self.inner, everything, table, keys, statistics, n, population)

    def joint_effects(self, tally: Tally, keys: Ints, statistic: Statistic) -> list[Average]:
        table = np.concatenate(([tally.reports], self._own(tally)))[None, :]
        return effects_of_cells(self.inner, np.arange(self.schema.d)[None, :], table, keys, statistic)

    def contingency_tables(self, tally: Tally) -> KeyTables:
        return KeyTables(np.arange(self.schema.d)[None, :], self.cells(tally)[None, :], np.array([tally.reports]))

    def conditional_frequency(
        self, tally: Tally, given: Mapping[str, bool], confidence: float = 0.95, population: bool = False
    ) -> Column:
        """How many of the people who hold (or lack) the ``given`` keys hold each key: F(α ∪ k) / F(α)."""
        answers, matching = self._answers(tally), self._matching(given)
        everybody, holders = np.broadcast_to(matching, self.digits.shape), self._presence & matching
        spread = Spread(
            answers.covariance(everybody, everybody, population),
            answers.covariance(holders, holders, population),
            answers.covariance(everybody, holders, population),
        )
        totals = everybody @ answers.shares, holders @ answers.shares
        ratio = fieller(self.schema, *totals, spread, normal_quantile(confidence))
        return replace(ratio, low=np.where(ratio.flag, 0.0, ratio.low), scaled=False)

    def conditional_mean(
        self, tally: Tally, given: Mapping[str, bool], confidence: float = 0.95, population: bool = False
    ) -> Column:
        """The mean of each key among the holders who also hold (or lack) the ``given`` keys: S_k(α) / F(α ∪ k)."""
        frequency, product, spread = self._held(self._answers(tally), self._matching(given), population)
        return fieller(self.schema, frequency, product, spread, normal_quantile(confidence))

    @property
    def _presence(self) -> NDArray[np.bool_]:
        present: NDArray[np.bool_] = self.digits != ABSENT
        return present

    def _matching(self, given: Mapping[str, bool]) -> NDArray[np.bool_]:
        """The cells that fulfil a condition."""
        matching = np.ones(self.digits.shape[1], dtype=bool)
        for key, present in given.items():
            matching &= self._presence[self.schema.place(key)] == present
        return matching

    def _held(self, answers: _Answers, matching: NDArray[np.bool_], population: bool) -> tuple[Floats, Floats, Spread]:
        """For every key F and S among the people who match, and their errors."""
        holders, signs = self._presence & matching, (self.digits - ABSENT) * matching
        spread = Spread(
            answers.covariance(holders, holders, population),
            answers.covariance(signs, signs, population),
            answers.covariance(holders, signs, population),
        )
        if not population:  # signs are drawn anew for every report, also where the people are fixed
            held, sum_of_values = holders @ answers.likely, signs @ answers.likely
            rounding = held - np.divide(sum_of_values**2, held, out=np.zeros_like(held), where=held > 0)
            spread = spread._replace(product=spread.product + rounding / max(answers.n, 1))
        return holders @ answers.shares, signs @ answers.shares, spread

    def _answers(self, tally: Tally) -> _Answers:
        own, other = self._rates
        counts, n = self._own(tally), tally.reports
        shares = (counts / n - other) / (own - other) if n else np.full(counts.shape, np.nan)
        return self._told(shares, n)

    def _told(self, shares: Floats, n: int) -> _Answers:
        return _Answers(shares, n, *self._rates, exclusive=self.oracle == "grr")

    @property
    def _rates(self) -> tuple[float, float]:
        """How often the true cell is supported, and any other."""
        response = self.inner.response
        return float(response.holder.support), float(response.stranger.support)

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        """With keys that are held independently of each other: errors of one key do not depend on what else is held."""
        product = frequency * mean
        table = np.stack([(frequency - product) / 2, 1 - frequency, (frequency + product) / 2], axis=1)
        law = np.take_along_axis(table, self.digits, axis=1).prod(axis=0)
        return self._held(self._told(law, n), self._matching({}), population)[2]

    @property
    def reads_words(self) -> bool:
        return self.inner.reads_words

    def every_word(self) -> Iterator[int]:
        return iter(self.inner.every_word())


@dataclass(frozen=True, eq=False)
class _Answers:
    """Unbiased shares of cells, and the covariances of their weighted sums."""

    shares: Floats
    n: int
    own: float  # how often the true cell is supported
    other: float  # and any other
    exclusive: bool  # a report supports exactly one cell; otherwise cells are supported independently

    @cached_property
    def likely(self) -> Floats:
        """The closest possible law (Norm-Sub, docs/consistency.md), to plug into variances."""
        shares = np.nan_to_num(self.shares, nan=1 / len(self.shares))
        falling = np.sort(shares)[::-1]
        excess = (np.cumsum(falling) - 1) / np.arange(1, len(shares) + 1)
        law: Floats = np.maximum(shares - excess[np.flatnonzero(falling > excess)[-1]], 0)
        return law

    def covariance(self, u: NDArray[Any], w: NDArray[Any], population: bool) -> Floats:
        """Of the sums of u and w over cells, row by row, for people in fixed cells or a sample of people.

        Given the cell t of a person, the noise of a report has covariance Σ u w q(1 - q) with p(1 - p) at t where
        cells are supported independently, and Σ u w π - Σ u π · Σ w π where one cell is: π is p at t and q elsewhere.
        """
        p, q = self.own, self.other
        both, totals = (u * w).sum(axis=1), (u.sum(axis=1), w.sum(axis=1))
        at_both, at_u, at_w = (u * w) @ self.likely, u @ self.likely, w @ self.likely
        if self.exclusive:
            expected = q * q * totals[0] * totals[1] + q * (p - q) * (totals[0] * at_w + totals[1] * at_u)
            noise = q * both + (p - q) * (1 - p + q) * at_both - expected
        else:
            noise = q * (1 - q) * both + (p * (1 - p) - q * (1 - q)) * at_both
        between = at_both - at_u * at_w if population else 0.0
        total: Floats = (noise / (p - q) ** 2 + between) / max(self.n, 1)
        return total
