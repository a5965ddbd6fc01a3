"""How far do you exceed the cap? The question to the overflow group, which stands beside a capped mechanism.

With cap l and R = 2·l, a person of s pairs is in state *none* if s ≤ l; otherwise in state *far* with probability
min(s - l, R)/R and in state *near* else. The state goes through randomised response with the whole ε. The share of
*far*, times R, is the mean surplus of pairs, without bias for people who hold at most 3·l pairs (docs/theory.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
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
from keyveil.mechanisms.overflow.undercount import Surplus, share_and_error
from keyveil.mechanisms.rounds.about_sets import AboutSets
from keyveil.mechanisms.tally_laws import draw_outputs

WITHIN, NEAR, FAR = range(3)  # the states: not above the cap, above it, above it and drawn by the size of the surplus


@dataclass(frozen=True)
class OverflowQuestion(AboutSets):
    """Randomised response over three states of the number of pairs above ``max_pairs``."""

    max_pairs: int

    name: ClassVar[str] = "overflow"
    tells: ClassVar[str] = "how far people exceed the cap, not which keys they hold"

    def validate(self) -> None:
        if not 1 <= self.max_pairs < self.schema.d:
            raise refused(
                f"Only a cap from 1 to {self.schema.d - 1}, below the number of keys, can be exceeded, "
                f"not {self.max_pairs}."
            )

    @property
    def reach(self) -> int:
        """R: a surplus of so many pairs, and any above, is told as far for certain."""
        return 2 * self.max_pairs

    @cached_property
    def channel(self) -> Table:
        return true_state(3, self.epsilon)

    @property
    def ratio(self) -> Ratio:
        return self.channel.ratio

    @property
    def codec(self) -> Symbol:
        return Symbol(3)

    @property
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "max_pairs": self.max_pairs}

    def reduced(self) -> Self:
        few = self.schema if self.schema.d <= REDUCED_KEYS else Schema(keys=REDUCED_KEYS)
        return replace(self, schema=few, max_pairs=min(self.max_pairs, few.d - 1))

    # -- device and bulk ----------------------------------------------------------------------------------------

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        surplus = min(max(len(pairs) - self.max_pairs, 0), self.reach)
        far = coins.chance(surplus, self.reach)
        return self.channel.draw((FAR if far else NEAR) if surplus else WITHIN, coins)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        return self.channel.draw_many(self._states(records, coins), coins)

    def _states(self, records: Records, coins: Coins) -> NDArray[np.int64]:
        surplus = np.clip(records.sizes - self.max_pairs, 0, self.reach)
        far = coins.below_many(self.reach, records.n) < surplus
        return np.where(surplus > 0, np.where(far, FAR, NEAR), WITHIN)

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (3,)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return np.bincount(payloads, minlength=3)

    def draw_tally(self, records: Records, coins: Coins, draws: CountDraws) -> NDArray[np.int64]:
        people = np.bincount(self._states(records, coins), minlength=3)
        return draw_outputs(self.channel, people[:, None], draws)[:, 0]

    def draw_crowd(self, types: Records, people: NDArray[np.int64], draws: CountDraws) -> NDArray[np.int64]:
        surplus = np.clip(types.sizes - self.max_pairs, 0, self.reach)
        far = draws.binomial(people, surplus / self.reach)
        states = [people[surplus == 0].sum(), (people - far)[surplus > 0].sum(), far.sum()]
        return draw_outputs(self.channel, np.array(states)[:, None], draws)[:, 0]

    def surplus(self, tally: Tally) -> Surplus | None:
        """What the answers say of people's surplus of pairs; nothing if nobody answered."""
        _, near, far = self._own(tally).tolist()
        if not tally.reports:
            return None
        true, false = (float(self.channel.probability(state, FAR)) for state in (FAR, WITHIN))
        over = share_and_error(near + far, tally.reports, true + false, 2 * false)
        mean = share_and_error(far, tally.reports, true, false)
        return Surplus(self.reach * mean[0], self.reach * mean[1], *over, reach=self.reach)

    def predicted_surplus(self, sizes: NDArray[np.float64], n: int) -> Surplus:
        """What ``surplus`` will say on average, and its standard errors, from n people of these shares by set size."""
        pairs = np.arange(len(sizes)) - self.max_pairs
        states = float(sizes @ np.clip(pairs, 0, self.reach)) / self.reach, float(sizes @ (pairs > 0))
        true, false = (float(self.channel.probability(state, FAR)) for state in (FAR, WITHIN))
        (_, mean_se), (_, over_se) = (
            share_and_error(round(n * (rest + share * (true - false))), n, true, false)
            for share, rest in zip(states, (false, 2 * false), strict=True)
        )
        return Surplus(self.reach * states[0], self.reach * mean_se, states[1], over_se, reach=self.reach)
