"""TopSel in direct mode: the state of one public key is marked among absent, minus and plus. The same law as KVUE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Table
from keyveil.core.coins import Coins
from keyveil.core.public import public_index
from keyveil.core.records import Records
from keyveil.core.tally import Tally
from keyveil.kernels.arcs import Arcs
from keyveil.mechanisms.announcements import NothingAnnounced
from keyveil.mechanisms.capabilities import CountDraws
from keyveil.mechanisms.dependence import ONE_KEY, Dependence
from keyveil.mechanisms.families.key_value import refused
from keyveil.mechanisms.families.set_response import Held, Integers, Keys, Odds
from keyveil.mechanisms.keyvalue.topsel import TopSel
from keyveil.mechanisms.report_laws import Asked
from keyveil.mechanisms.responses import Floats, Spread
from keyveil.mechanisms.tally_laws import draw_outputs, states_by_key


@dataclass(frozen=True)
class TopSelDirect(NothingAnnounced, TopSel):
    """The three states of one public key: absent, minus, plus. The true one is marked."""

    mode: str = "direct"

    def chosen(self) -> dict[str, Any]:
        given = (self.set_sizes, self.padding or None, self.hashing, self.kappa, self.refine or None)
        sizes = zip((self.buckets, self.marked, self.cohorts), (3, 1, self.schema.d), strict=True)
        if any(one is not None for one in given) or any(size not in (None, fixed) for size, fixed in sizes):
            raise refused("topsel in direct mode has no options: a key is drawn, and its state is told.")
        return {"padding": 0, "buckets": 3, "marked": 1, "cohorts": self.schema.d, "refine": False}

    def reduced(self) -> Self:
        return replace(self, schema=self.few_keys, buckets=None, marked=None, cohorts=None, refine=None)

    def hits(self, held: list[int], word: int) -> list[int]:
        key = public_index(word, self.groups)
        return [next((1 + symbol % 2 for symbol in held if symbol // 2 == key), 0)]

    def hits_many(self, held: Held, words: NDArray[np.uint64]) -> Arcs:
        states = np.zeros(held.n, dtype=np.int64)
        mine = np.flatnonzero(held.symbols // 2 == self.cohorts_of(words)[held.owners])
        states[held.owners[mine]] = 1 + held.symbols[mine] % 2
        return Arcs.of(states, np.arange(held.n + 1), self.channel.outputs, 1)

    @property
    def exclusive(self) -> bool:
        return True

    @property
    def title(self) -> str:
        return "topsel in direct mode"

    def dependence(self, population: bool = False) -> Dependence:
        return ONE_KEY.of_sets(population)

    def draw_tally(self, records: Records, coins: Coins, draws: CountDraws) -> Integers:
        """One of three states of a key is marked and told, as in KVUE, with a row for every key."""
        channel, keys = self.channel, self.cohorts_of(coins.words(records.n))
        rows = (tuple(channel.high if out == state else channel.low for out in range(3)) for state in range(3))
        return draw_outputs(Table(tuple(rows)), states_by_key(records, keys, self.labels, coins), draws).T

    def supports(self, tally: Tally) -> Integers:
        return self._own(tally)[:, 1:].T

    def asked_about(self, tally: Tally) -> Asked:
        return Asked.evenly(self.respondents(tally), np.arange(self.schema.d)[:, None])

    def respondents(self, tally: Tally) -> Integers:
        reports: Integers = self._own(tally).sum(axis=1)
        return reports

    @cached_property
    def odds(self) -> Sequence[tuple[Keys, Odds]]:
        return [(slice(None), Odds(self.channel.hit, self.channel.miss, Fraction(0), Fraction(0)))]

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        """Every d-th report is about a key, whatever the sizes."""
        return self.response.predicted(frequency, mean, n, population, reach=1 / self.schema.d)
