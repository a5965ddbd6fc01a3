"""PCKV-UE: every key says plus, minus or nothing; the sampled one leans to its truth (Gu et al. 2020).

Best where people hold one pair each and means matter; with more pairs the set responses have far less variance.
Derivation: docs/mechanisms/pckv-ue.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Product, Ratio, Table
from keyveil.core.codecs.labelled_keys import SignedKeys
from keyveil.core.codecs.payloads import Flaws, Payloads
from keyveil.core.coins import Coins
from keyveil.core.epsilon import RESOLUTION, lie_threshold, tightest
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.kernels.reading import count_labels_of
from keyveil.kernels.vectors import count_signs, perturb_signs
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.capabilities import CountDraws
from keyveil.mechanisms.dependence import ONE_PAIR, Dependence
from keyveil.mechanisms.families.sampled import PCKV, Rates, count_states, others, vector_ratio
from keyveil.mechanisms.report_laws import OnePairRates, SymbolLaws, bits_of
from keyveil.mechanisms.tally_laws import draw_outputs

COLD, MINUS, PLUS = range(3)


@dataclass(frozen=True)
class PCKVUE(PCKV):
    """The sampled key speaks with probability 1/2, any other as rarely as ε allows and with a fair sign.

    The sampled one tells its sign like randomised response with ε; ``split="paper"`` gives ε/2 each to presence and
    sign, which does not use up ε. ``value_epsilon`` is another budget of the sign.
    """

    name: ClassVar[str] = "pckv-ue"

    @cached_property
    def factor(self) -> Table:
        """What one key says (nothing, minus, plus) if it is not sampled, or sampled with minus or with plus."""
        lie = lie_threshold(self.sign_epsilon)
        if self.split == "paper":
            return _factor(lie, lie_threshold(self.epsilon - self.sign_epsilon))
        return _factor(lie, tightest(lambda fake: _ratio(_factor(lie, fake)), self.epsilon, 1, RESOLUTION // 2))

    @cached_property
    def channel(self) -> Product:
        return Product(self.factor, self.schema.d)

    @property
    def ratio(self) -> Ratio:
        return _ratio(self.factor)

    @property
    def variation(self) -> Fraction:
        return self.channel.variation

    @property
    def rates(self) -> Rates:
        seen, fake = (1 - self.factor.probability(state, 0) for state in (PLUS, COLD))
        return Rates(seen, fake, self.factor.probability(PLUS, PLUS) / seen)

    def dependence(self, population: bool = False) -> Dependence:
        return ONE_PAIR.of_sets(population)

    @property
    def codec(self) -> SignedKeys:
        return SignedKeys(self.schema.d, share=self.rates.fake)

    # -- device and bulk ----------------------------------------------------------------------------------------

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        sampled = self.encoder.draw(pairs, coins)
        hot = [] if sampled is None else [sampled[0]]
        own = [self.factor.draw(MINUS + self.labels.draw(sampled[1], coins), coins)] if sampled is not None else []
        # A key that is not sampled speaks, and then says either sign: the row COLD of the factor in two steps.
        fake = self.factor.total - self.factor.weights[COLD][COLD]
        keys = others(np.flatnonzero(coins.chances(fake, self.factor.total, self.schema.d - len(hot))), hot)
        symbols = 2 * keys + coins.chances(1, 2, len(keys))
        said = [2 * hot[0] + own[0] - MINUS] if hot and own[0] else []
        return tuple(sorted(said + symbols.tolist()))

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        keys, values = self.encoder.draw_many(records, coins)
        true = self.labels.draw_many(values, coins) == 1
        lies = coins.chance_many(self.factor.weights[PLUS][MINUS], RESOLUTION, records.n)
        return perturb_signs(keys, true ^ lies, self.schema.d, RESOLUTION // 2, self.factor.weights[COLD][PLUS], coins)

    def hot_counts(self, records: Records, coins: Coins) -> NDArray[np.int64]:
        """Draws everybody's sampled pair: per key, how many people go through each row of ``factor``, [3, d]."""
        keys, values = self.encoder.draw_many(records, coins)
        return count_states(keys, MINUS + self.labels.draw_many(values, coins), 3, self.schema.d)

    def draw_tally(self, records: Records, coins: Coins, draws: CountDraws) -> NDArray[np.int64]:
        return draw_outputs(self.factor, self.hot_counts(records, coins), draws)[1:]

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (2, self.schema.d)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return count_signs(payloads, self.schema.d)

    def count_encoded(self, payloads: Payloads, words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], Flaws]:
        """Straight from the bits to counts."""
        return count_labels_of(self.codec, payloads)

    def supported(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        return bits_of(payloads[:, 0], self.schema.d) | bits_of(payloads[:, 1], self.schema.d)

    def symbol_laws(self) -> SymbolLaws:
        return self.one_pair_rates().symbol_laws(self.schema.d)

    def one_pair_rates(self) -> OnePairRates:
        return OnePairRates(float(self.rates.seen), float(self.rates.fake), always=False, scale=float(self.max_pairs))

    def votes(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        return counts


def _factor(lie: int, fake: int) -> Table:
    """Weights out of 2 · RESOLUTION: a sampled pair speaks half the time, any other key in ``fake`` of RESOLUTION."""
    true, silent = RESOLUTION - lie, RESOLUTION
    return Table(((2 * (RESOLUTION - fake), fake, fake), (silent, true, lie), (silent, lie, true)))


def _ratio(factor: Table) -> Fraction:
    silent, unlikely, likely = (
        Fraction(own, other) for own, other in zip(factor.weights[PLUS], factor.weights[COLD], strict=True)
    )
    return vector_ratio(likely, unlikely, silent)
