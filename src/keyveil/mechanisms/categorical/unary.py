"""Unary encodings: one bit for every key, each randomised on its own.

Symmetric (SUE, the one-shot form of Erlingsson et al. 2014) treats ones and zeros alike; optimised (OUE, Wang et al.
2017) keeps the single one with probability 1/2 and spends all of ε on the many zeros, which is what most keys are.
Derivation: docs/mechanisms/categorical.md.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Product, Ratio, Table, binary, randomised_response
from keyveil.core.codecs.rare_bits import noisy_bits
from keyveil.core.codecs.symbols import BitVector
from keyveil.core.coins import Coins
from keyveil.core.epsilon import RESOLUTION, lie_threshold
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.kernels.bernoulli import perturb_unary
from keyveil.kernels.bits import count_bits
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.capabilities import CountDraws
from keyveil.mechanisms.dependence import Dependence
from keyveil.mechanisms.families.categorical import FrequencyOracle
from keyveil.mechanisms.report_laws import OnePairRates, SymbolLaws, bits_of
from keyveil.mechanisms.responses import Response, support_counts
from keyveil.mechanisms.tally_laws import draw_outputs

COLD, HOT = 0, 1


class Unary(FrequencyOracle):
    """One hot bit among d; two keys differ in two bits, so their ratio is p(1 - q) / (q(1 - p))."""

    @property
    @abstractmethod
    def factor(self) -> Table:
        """What happens to one bit."""

    @cached_property
    def channel(self) -> Product:
        return Product(self.factor, self.schema.d)

    @property
    def ratio(self) -> Ratio:
        return self.channel.ratio

    @property
    def variation(self) -> Fraction:
        return self.channel.variation

    @cached_property
    def codec(self) -> BitVector:
        own, other = (self.factor.probability(state, 1) for state in (HOT, COLD))
        return noisy_bits(self.schema.d, own + (self.schema.d - 1) * other)

    @property
    def response(self) -> Response:
        return support_counts(self.factor.probability(HOT, 1), self.factor.probability(COLD, 1))

    def dependence(self, population: bool = False) -> Dependence:
        """Bits are independent."""
        return Dependence().of_single_keys(population)

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        return BitVector.pack(self.channel.draw_ones([pairs[0][0]], coins))

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        hot, cold = (self.factor.weights[state][1] for state in (HOT, COLD))
        return perturb_unary(self.keys_of(records), self.schema.d, hot, cold, coins)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return count_bits(payloads)[: self.schema.d]

    def supported(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        return bits_of(payloads, self.schema.d)

    def symbol_laws(self) -> SymbolLaws:
        return self.one_pair_rates().symbol_laws(self.schema.d)

    def one_pair_rates(self) -> OnePairRates:
        own, other = (float(rate) for rate in self.response.rates)
        return OnePairRates(own, other, always=True, scale=1.0)

    def draw_tally(self, records: Records, coins: Coins, draws: CountDraws) -> NDArray[np.int64]:
        return self.draw_supports(self.people_by_key(records), draws)

    def draw_crowd(self, types: Records, people: NDArray[np.int64], draws: CountDraws) -> NDArray[np.int64]:
        holders = np.zeros(self.schema.d, dtype=np.int64)
        np.add.at(holders, self.keys_of(types), people)
        return self.draw_supports(holders, draws)

    def draw_supports(self, true: NDArray[np.int64], draws: CountDraws) -> NDArray[np.int64]:
        """Given how many people hold each key, bits are independent of each other."""
        states = np.stack([true.sum(axis=-1)[..., None] - true, true])
        ones: NDArray[np.int64] = draw_outputs(self.factor, states.reshape(2, -1), draws)[1]
        return ones.reshape(true.shape)


@dataclass(frozen=True)
class SUE(Unary):
    """Every bit through randomised response with ε/2."""

    name: ClassVar[str] = "sue"

    @cached_property
    def factor(self) -> Table:
        return randomised_response(self.epsilon / 2)


@dataclass(frozen=True)
class OUE(Unary):
    """A one stays with probability 1/2; a zero becomes one with probability 1/(e^ε + 1), rounded up."""

    name: ClassVar[str] = "oue"

    @cached_property
    def factor(self) -> Table:
        return binary(RESOLUTION // 2, lie_threshold(self.epsilon))
