"""Subset selection: a set of ω keys that holds the true one more often than chance (Ye and Barg 2018).

Never worse than OUE, and best where e^ε is between 2 and d; a report is a sorted set of keys.
Derivation: docs/mechanisms/categorical.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio, Subset, subset
from keyveil.core.codecs.members import DenseMembers, RealMembers, shortest_members
from keyveil.core.coins import Coins
from keyveil.core.epsilon import exp_floor
from keyveil.core.estimates import Estimates
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.kernels.subsets import count_symbols, draw_subsets
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.dependence import Dependence, from_supports
from keyveil.mechanisms.families.categorical import FrequencyOracle, option_refused
from keyveil.mechanisms.report_laws import SymbolLaws, Together, members_of
from keyveil.mechanisms.responses import Response, support_counts
from keyveil.mechanisms.totals import Constraint

REDUCED_SIZE = 2


@dataclass(frozen=True)
class SS(FrequencyOracle):
    """Weight e^ε on every ω-subset with the true key, 1 on every other; ω is about d/(e^ε + 1) unless given."""

    size: int | None = None

    name: ClassVar[str] = "ss"
    crafted_like_honest: ClassVar[str] = (
        "A report that always names a key, beside keys at random, is what honest reports of other frequencies give."
    )

    def validate(self) -> None:
        super().validate()
        if self.size is None:
            object.__setattr__(self, "size", max(1, round(self.schema.d / (exp_floor(self.epsilon) + 1))))
        if not 1 <= self.omega < self.schema.d:
            raise option_refused(f"ss needs a size between 1 and {self.schema.d - 1}, not {self.size}.")

    @property
    def omega(self) -> int:
        """How many keys a report names."""
        assert self.size is not None
        return self.size

    @cached_property
    def channel(self) -> Subset:
        return subset(self.schema.d, self.omega, held=1, epsilon=self.epsilon)

    @property
    def ratio(self) -> Ratio:
        return self.channel.ratio

    @property
    def variation(self) -> Fraction:
        return self.channel.variation

    @property
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "size": self.omega}

    @cached_property
    def codec(self) -> RealMembers | DenseMembers:
        return shortest_members(self.schema.d, self.omega, dummies=0)

    @cached_property
    def response(self) -> Response:
        return support_counts(self.channel.own, self.channel.other)

    def dependence(self, population: bool = False) -> Dependence:
        none, one = float(self.channel.two_others), float(self.channel.own_and_other)
        return from_supports(self.response, none, one, one).of_single_keys(population)

    def constraint(self, estimates: Estimates) -> Constraint:
        """Every report supports exactly ω keys, so the estimates themselves sum to one."""
        return Constraint(total=1.0, most=1.0, always=True)

    def reduced(self) -> Self:
        few = self.few_keys
        return replace(self, schema=few, size=min(self.omega, REDUCED_SIZE, few.d - 1))

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        return self.channel.draw([pairs[0][0]], coins)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        hits = coins.choose_many(self.channel.hit_weights, records.n)
        return draw_subsets(self.keys_of(records)[:, None], hits, self.schema.d, self.omega, coins)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return count_symbols(payloads, self.schema.d)

    def supported(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        return members_of(payloads, self.schema.d)

    def symbol_laws(self) -> SymbolLaws | None:
        """Which keys come together; how many they are is fixed."""
        if self.omega == 1:
            return None
        own, other, one, none = (float(chance) for chance in self.channel.chances)
        return SymbolLaws(np.arange(self.schema.d), None, Together.of_subsets(own, other, one, none), (own, other))
