"""How far do you exceed the cap? The question to the overflow group, which stands beside a capped mechanism.

With cap l and R = 2·l, a person of s pairs is in state *none* if s ≤ l; otherwise in state *far* with probability
min(s - l, R)/R and in state *near* else. The state goes through randomised response with the whole ε. The share of
*far*, times R, is the mean surplus of pairs, without bias for people who hold at most 3·l pairs. With a further
``reach`` there is a fourth state, *beyond*: people with more than R pairs above the cap are in it with probability
min(s - l - R, reach - R)/(reach - R), and *far* else. Then people who hold up to l + reach pairs are told without
bias, at the price of more noise, which is paid only where somebody is seen there (docs/theory.md, the cap).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio, Table, true_state
from keyveil.core.codecs.symbols import Symbol
from keyveil.core.coins import Coins
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.capabilities import CountDraws
from keyveil.mechanisms.families.key_value import REDUCED_KEYS, refused
from keyveil.mechanisms.overflow.undercount import Surplus
from keyveil.mechanisms.responses import FEWEST
from keyveil.mechanisms.rounds.about_sets import AboutSets
from keyveil.mechanisms.tally_laws import draw_outputs

FURTHER_FROM = 3
"""The ε from which on there is a further reach: a fourth answer makes the error of the mean surplus √2 times as large
where nobody needs it, which is then less than half of what it is at ε = 1."""


@dataclass(frozen=True)
class OverflowQuestion(AboutSets):
    """Randomised response over three or four states of the number of pairs above ``max_pairs``."""

    max_pairs: int
    reach: int | None = None  # the largest surplus that a fourth answer can tell; without it there are three

    name: ClassVar[str] = "overflow"
    tells: ClassVar[str] = "how far people exceed the cap, not which keys they hold"
    unsaid: ClassVar[frozenset[str]] = frozenset({"reach"})

    @classmethod
    def beside(cls, schema: Schema, epsilon: Fraction, cap: int) -> Self:
        """The question to the group beside a mechanism with this cap.

        The further reach doubles with every unit of ε, as far as anybody can exceed the cap: the error of the mean
        surplus, in caps, then stays about what it is at ε = 1 (docs/decisions/0132-reach-of-the-overflow-group.md).
        """
        if epsilon < FURTHER_FROM:
            return cls(schema, epsilon, cap)
        reach = min((2 * cap) << (math.floor(epsilon) - 1), schema.d - cap)
        return cls(schema, epsilon, cap, reach if reach > 2 * cap else None)

    def validate(self) -> None:
        if not 1 <= self.max_pairs < self.schema.d:
            raise refused(
                f"Only a cap from 1 to {self.schema.d - 1}, below the number of keys, can be exceeded, "
                f"not {self.max_pairs}."
            )
        if self.reach is not None and not 2 * self.max_pairs < self.reach <= self.schema.d:
            raise refused(
                f"A further reach is more than twice the cap, {2 * self.max_pairs}, and at most the number of keys, "
                f"{self.schema.d}, not {self.reach}."
            )

    @property
    def reaches(self) -> tuple[int, ...]:
        """The largest surpluses that the third and the fourth answer can tell."""
        return (2 * self.max_pairs,) if self.reach is None else (2 * self.max_pairs, self.reach)

    @property
    def steps(self) -> Iterable[tuple[int, int]]:
        """The surpluses between which the third and the fourth answer are drawn."""
        return pairwise((0, *self.reaches))

    @property
    def answers(self) -> int:
        """How many states there are: none, near, far and, with a further reach, beyond."""
        return 2 + len(self.reaches)

    @cached_property
    def channel(self) -> Table:
        return true_state(self.answers, self.epsilon)

    @property
    def ratio(self) -> Ratio:
        return self.channel.ratio

    @property
    def codec(self) -> Symbol:
        return Symbol(self.answers)

    @property
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "max_pairs": self.max_pairs}

    def reduced(self) -> Self:
        keys = REDUCED_KEYS + (self.reach is not None)  # room for people who exceed the first reach
        if self.schema.d <= keys:
            return self
        cap, reach = (self.max_pairs, None) if self.reach is None else (1, min(self.reach, keys))
        return replace(self, schema=Schema(keys=keys), max_pairs=min(cap, keys - 1), reach=reach)

    # -- device and bulk ----------------------------------------------------------------------------------------

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        surplus = max(len(pairs) - self.max_pairs, 0)
        state = int(surplus > 0)
        for low, high in self.steps:
            state += coins.chance(min(max(surplus - low, 0), high - low), high - low)
        return self.channel.draw(state, coins)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        return self.channel.draw_many(self._states(records, coins), coins)

    def _states(self, records: Records, coins: Coins) -> NDArray[np.int64]:
        surplus = np.maximum(records.sizes - self.max_pairs, 0)
        states = (surplus > 0).astype(np.int64)
        for low, high in self.steps:
            states += coins.below_many(high - low, records.n) < surplus - low
        return states

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (self.answers,)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return np.bincount(payloads, minlength=self.answers)

    def draw_tally(self, records: Records, coins: Coins, draws: CountDraws) -> NDArray[np.int64]:
        people = np.bincount(self._states(records, coins), minlength=self.answers)
        return draw_outputs(self.channel, people[:, None], draws)[:, 0]

    def draw_crowd(self, types: Records, people: NDArray[np.int64], draws: CountDraws) -> NDArray[np.int64]:
        or_more = [people.sum()]  # people in each state or in one after it
        or_more += [draws.binomial(people, share).sum() for share in self._or_more(types.sizes - self.max_pairs)]
        return draw_outputs(self.channel, -np.diff(or_more, append=0)[:, None], draws)[:, 0]

    def _or_more(self, surplus: NDArray[Any]) -> list[NDArray[np.float64]]:
        """For each state but the first, how probably people with such a surplus are in it or in a later one."""
        return [
            (surplus > 0).astype(np.float64),
            *(np.clip((surplus - low) / (high - low), 0, 1) for low, high in self.steps),
        ]

    def surplus(self, tally: Tally) -> Surplus | None:
        """What the answers say of people's surplus of pairs; nothing if nobody answered."""
        counts = self._own(tally)
        return self._told(counts / tally.reports, tally.reports) if tally.reports else None

    def predicted_surplus(self, sizes: NDArray[np.float64], n: int) -> Surplus:
        """What ``surplus`` will say on average, and its standard errors, from n people of these shares by set size."""
        pairs = np.arange(len(sizes)) - self.max_pairs
        states = -np.diff([1.0, *(float(sizes @ share) for share in self._or_more(pairs))], append=0)
        true, false = self.chances
        return self._told(false + (true - false) * states, n)

    def _told(self, seen: NDArray[np.float64], n: int) -> Surplus:
        """The surplus, from the shares of n answers: up to the further reach only if that is needed, and enough."""
        near, over = self.reaches[0], self._mean([0, 1, 1, 1], seen, n)
        first = Surplus(*self._mean([0, 0, near, near], seen, n), *over, reach=near)
        if self.reach is None or first.reached:
            return first
        second = Surplus(*self._mean([0, 0, near, self.reach], seen, n), *over, reach=self.reach)
        return second if second.reached else first

    def _mean(self, values: Sequence[int], seen: NDArray[np.float64], n: int) -> tuple[float, float]:
        """The mean over people of what their states stand for, zero for the first, and its standard error."""
        true, false = self.chances
        each = np.array(values[: self.answers], dtype=np.float64)
        mean = float(each @ seen)
        variance = max(float(each**2 @ seen) - mean**2, each.max() ** 2 * FEWEST / n) / n
        return (mean - false * float(each.sum())) / (true - false), math.sqrt(variance) / (true - false)

    @cached_property
    def chances(self) -> tuple[float, float]:
        """The probabilities of an answer for people in its state and for all others."""
        return float(self.channel.probability(1, 1)), float(self.channel.probability(0, 1))
