"""Mechanisms that speak about one key a report: the state of that key goes through a small table.

The key comes from the report's public bytes, so it is independent of the record and is not sent. The state is absent
or the label of the value; PrivKV, F2M, KVUE and KVOH differ in nothing but the table.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio, Table, true_state
from keyveil.core.codecs.symbols import Symbol
from keyveil.core.coins import Coins
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.tally import Tally
from keyveil.kernels.held import values_of
from keyveil.kernels.public_cells import PublicCells
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.capabilities import CountDraws, SupportRates
from keyveil.mechanisms.dependence import ONE_KEY, Dependence
from keyveil.mechanisms.effects import Effects, asked
from keyveil.mechanisms.encoders import Labels, UniformKey, value_of
from keyveil.mechanisms.families.key_value import FREQUENCIES, FREQUENCIES_AND_MEANS, KeyValue
from keyveil.mechanisms.report_laws import Asked
from keyveil.mechanisms.responses import Floats, Response, Solution, Spread, table_response
from keyveil.mechanisms.tally_laws import asked_crowd, draw_outputs, states_by_key

ABSENT = 0  # the first state; label i is state i + 1


class OneKey(KeyValue):
    """A report about one public key."""

    @property
    @abstractmethod
    def channel(self) -> Table:
        """A row for absent, then one for each label."""

    @property
    @abstractmethod
    def supports(self) -> Sequence[int]:
        """What each output says about presence."""

    @property
    @abstractmethod
    def signs(self) -> Sequence[int] | None:
        """What each output says about the value; ``None`` if values are collected as cells."""

    @property
    def estimated(self) -> frozenset[str]:
        return FREQUENCIES if self.signs is None else FREQUENCIES_AND_MEANS

    @property
    def labels(self) -> Labels:
        return Labels()

    def every_value(self, key: int = 0) -> Sequence[int]:
        return self.labels.every_value(key)

    @cached_property
    def encoder(self) -> UniformKey:
        return UniformKey(self.schema.d)

    @property
    def ratio(self) -> Ratio:
        return self.channel.ratio

    @property
    def variation(self) -> Fraction:
        return self.channel.variation

    @property
    def outputs(self) -> int:
        return len(self.channel.weights[0])

    @property
    def codec(self) -> Symbol:
        return Symbol(self.outputs)

    @cached_property
    def response(self) -> Response:
        return table_response(self.channel, self.supports, self.signs)

    @property
    def lacks(self) -> frozenset[type]:
        return super().lacks | (frozenset({SupportRates}) if set(self.supports) - {0, 1} else frozenset())

    def support_rates(self) -> tuple[Fraction, Fraction]:
        return self.response.rates

    def dependence(self, population: bool = False) -> Dependence:
        return ONE_KEY.of_sets(population)

    def every_word(self) -> list[int]:
        return self.encoder.every_word()

    # -- device and bulk ----------------------------------------------------------------------------------------

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        key = self.encoder.key(word)
        value = value_of(pairs, key)
        state = ABSENT if value is None else 1 + self.labels.draw(value, coins, key)
        return self.channel.draw(state, coins)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        keys = self.encoder.keys(words)
        held, values = values_of(records, keys)
        states = np.where(held, 1 + self.labels.draw_many(values, coins, keys), ABSENT)
        return self.channel.draw_many(states, coins)

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (self.outputs, self.schema.d)

    @property
    def public_cells(self) -> PublicCells | None:
        return PublicCells(self.outputs, self.schema.d, by_answer=self.schema.d, by_index=1)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        cells = payloads * self.schema.d + self.encoder.keys(words)
        return np.bincount(cells, minlength=self.outputs * self.schema.d).reshape(self.tally_shape)

    def draw_tally(self, records: Records, coins: Coins, draws: CountDraws) -> NDArray[np.int64]:
        keys = self.encoder.keys(coins.words(records.n))
        return draw_outputs(self.channel, states_by_key(records, keys, self.labels, coins), draws)

    def draw_crowd(self, types: Records, people: NDArray[np.int64], draws: CountDraws) -> NDArray[np.int64]:
        """Everybody is asked about one key, whatever they hold; at that key they are in one of the channel's states."""
        return draw_outputs(self.channel, asked_crowd(types, people, draws), draws)

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        """One report in d speaks about a key; values are taken as constant at the mean."""
        return self.response.predicted(frequency, mean, n, population, reach=1 / self.schema.d)

    def solve(self, tally: Tally, population: bool) -> Solution:
        """Unbiased estimates from the counts."""
        counts = self._own(tally)
        signed = None if self.signs is None else np.asarray(self.signs) @ counts
        supports = np.asarray(self.supports) @ counts
        return self.response.solve(tally.reports, counts.sum(axis=0), supports, signed, population)

    def asked_about(self, tally: Tally) -> Asked:
        return Asked.evenly(self._own(tally).sum(axis=0), np.arange(self.schema.d)[:, None])

    def report_effects(self, tally: Tally) -> list[Effects]:
        """One output about one key: each of them about every key, as if d people had been asked."""
        every = np.eye(self.outputs, dtype=np.int64)[:, :, None].repeat(self.schema.d, axis=2)
        return [asked(self, ((self.schema.d, counts) for counts in every), self._own(tally).sum(axis=0))]

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        return self.solve(tally, population).estimates(
            self.header(tally.reports, confidence, population),
            respondents=self._own(tally).sum(axis=0),
            no_mean=self.no_mean,
        )

    @property
    def no_mean(self) -> str | None:
        """Why there are no means, if there are none."""
        return f"{self.title} does not report values." if self.signs is None else None


class OneState(OneKey):
    """The true state of a key has weight e^ε, each other one weight 1."""

    @cached_property
    def channel(self) -> Table:
        return true_state(1 + self.labels.count, self.epsilon)

    @property
    def supports(self) -> Sequence[int]:
        return (0, *[1] * self.labels.count)


def exact_table(rows: Sequence[Sequence[Fraction]]) -> Table:
    """A table from exact probabilities, over their least common denominator."""
    total = math.lcm(*(share.denominator for row in rows for share in row))
    return Table(tuple(tuple(int(share * total) for share in row) for row in rows))


def sign_law(truth: Fraction, mean: Fraction) -> tuple[Fraction, Fraction]:
    """Probabilities of minus and plus: a value of this mean is rounded to a sign, which is told with ``truth``."""
    slope = (2 * truth - 1) * mean
    return (1 - slope) / 2, (1 + slope) / 2


def one_of(mechanism: str, option: str, value: str, choices: Sequence[str]) -> None:
    """Refuse a choice that there is not."""
    if value not in choices:
        raise MechanismError("mechanism/option", f"{mechanism} takes {option} {' or '.join(choices)}, not {value!r}.")
