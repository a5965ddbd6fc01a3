"""Hadamard response: counting is one fast Walsh transform (Acharya, Sun and Zhang 2019).

H[i, j] = (-1)^popcount(i & j) is the Hadamard matrix of order K, the power of two above d; key v has row v + 1, since
row 0 is constant. A report supports v when its entry in that row is +1 (set form) or equals the reported sign (bit
form). Good when server time matters and ε ≤ 1. Derivation: docs/mechanisms/categorical.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio, TwoLevel, two_level
from keyveil.core.codecs.symbols import Symbol
from keyveil.core.coins import Coins
from keyveil.core.public import public_index, public_indices, public_words_covering
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.kernels.public_cells import PublicCells
from keyveil.kernels.walsh import walsh
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.dependence import Dependence
from keyveil.mechanisms.families.categorical import FrequencyOracle, option_refused
from keyveil.mechanisms.responses import Response, support_counts

FORMS = ("set", "bit")


@dataclass(frozen=True)
class HR(FrequencyOracle):
    """A column of the Hadamard matrix, more likely one where the key's row is +1; or that entry of a public column."""

    form: str = "set"

    name: ClassVar[str] = "hr"

    def validate(self) -> None:
        super().validate()
        if self.form not in FORMS:
            raise option_refused(f"hr has the forms {' and '.join(FORMS)}, not {self.form!r}.")

    @property
    def order(self) -> int:
        """K, the least power of two that is at least d + 1."""
        return 1 << self.schema.d.bit_length()

    @property
    def public_column(self) -> bool:
        return self.form == "bit"

    @cached_property
    def channel(self) -> TwoLevel:
        outputs = 2 if self.public_column else self.order
        return two_level(outputs, marked=outputs // 2, epsilon=self.epsilon)

    @property
    def ratio(self) -> Ratio:
        return self.channel.ratio

    @property
    def variation(self) -> Fraction:
        return self.channel.variation

    @property
    def codec(self) -> Symbol:
        return Symbol(self.channel.outputs)

    @cached_property
    def response(self) -> Response:
        """Two different rows agree in exactly half of all columns, so foreign keys are supported by a fair coin."""
        hit, miss = self.channel.marked * self.channel.hit, self.channel.marked * self.channel.miss
        return support_counts(own=hit, other=(hit + miss) / 2)

    def dependence(self, population: bool = False) -> Dependence:
        """Public columns make keys independent.

        In the set form two keys agree more often for the one holder of a third, whose row is the product of theirs.
        Two rows have one product, so this adds at most 1/(2p - 1) to the variance of each key.
        """
        extra = 0.0 if self.public_column else 1 / float(2 * self.response.holder.support - 1)
        return Dependence(extra=extra).of_single_keys(population)

    @property
    def reads_words(self) -> bool:
        return self.public_column

    def every_word(self) -> Iterable[int]:
        return public_words_covering(self.order) if self.public_column else (0,)

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        row, (hit, rank) = pairs[0][0] + 1, self.channel.draw(coins)
        if self.public_column:
            return _parity(row & public_index(word, self.order)) ^ (not hit)
        # The rank counts the columns without the bit of the row's lowest one; that bit then makes the sign right.
        lowest = row & -row
        column = rank + (rank & -lowest)
        return column | (lowest if _parity(row & column) == hit else 0)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        rows, (hits, ranks) = self.keys_of(records) + 1, self.channel.draw_many(records.n, coins)
        if self.public_column:
            return _parities(rows & public_indices(words, self.order)) ^ ~hits
        lowest = rows & -rows
        columns = ranks + (ranks & -lowest)
        return columns | np.where(_parities(rows & columns) == hits, lowest, 0)

    @property
    def tally_shape(self) -> tuple[int, ...]:
        """Reports by column; in the bit form by sign and column."""
        return (2, self.order) if self.public_column else (self.order,)

    @property
    def public_cells(self) -> PublicCells:
        return (
            PublicCells(2, self.order, by_answer=self.order, by_index=1)
            if self.public_column
            else PublicCells(self.order, 1, by_answer=1, by_index=0)
        )

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        cells = payloads * self.order + public_indices(words, self.order) if self.public_column else payloads
        return np.bincount(cells, minlength=math.prod(self.tally_shape)).reshape(self.tally_shape)

    def supports(self, counts: NDArray[np.int64], n: int) -> NDArray[np.int64]:
        signed = counts[0] - counts[1] if self.public_column else counts.copy()  # the transform works in place
        return (n + walsh(signed)[1 : self.schema.d + 1]) // 2


def _parity(bits: int) -> int:
    return bits.bit_count() & 1


def _parities(bits: NDArray[np.int64]) -> NDArray[np.int64]:
    parities: NDArray[np.int64] = np.bitwise_count(bits).astype(np.int64) & 1
    return parities
