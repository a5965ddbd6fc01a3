"""Set responses: all pairs of a person count at once, instead of one that is sampled.

Every pair becomes a symbol, its key with a label (the sign of the value, or its cell); a person holds at most
``max_pairs`` of them. The answer suits what is held with weight e^ε and anything else with weight 1, out of a total
that is the same for everybody. Members of the family differ in what an answer is; the decoder is one: how often is a
symbol supported by its holder, and how often by anybody else?
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.histogram import Histogram
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.encoders import Cap, Labels
from keyveil.mechanisms.keyvalue.base import REDUCED_KEYS, KeyValue
from keyveil.mechanisms.responses import Response, Solution, label_supports, support_counts

REDUCED_PAIRS = 2
REDUCED_BINS = 3
MOST_BINS = 256

Integers = NDArray[np.int64]


class Held(NamedTuple):
    """The symbols of many people: those of person i are ``symbols[offsets[i]:offsets[i + 1]]``, rising."""

    offsets: Integers
    symbols: Integers

    @property
    def n(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Integers:
        return np.diff(self.offsets)

    @property
    def owners(self) -> Integers:
        """Whose each symbol is."""
        return np.repeat(np.arange(self.n), self.sizes)

    @property
    def places(self) -> Integers:
        """The rank of each symbol among those of its owner."""
        return np.arange(len(self.symbols)) - np.repeat(self.offsets[:-1], self.sizes)


@dataclass(frozen=True)
class SetResponse(KeyValue):
    """One answer about all pairs of a person, of whom at most ``max_pairs`` count."""

    max_pairs: int

    def validate(self) -> None:
        if not 1 <= self.max_pairs <= self.schema.d:
            raise refused(f"{self.name} takes max_pairs from 1 to {self.schema.d}, the number of keys.")

    @property
    def labels(self) -> Labels:
        return Labels()

    @cached_property
    def encoder(self) -> Cap:
        return Cap(self.max_pairs)

    @property
    def symbols(self) -> int:
        """How many pairs of key and label there are; symbol number ``labels · key + label``."""
        return self.labels.count * self.schema.d

    @property
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "max_pairs": self.max_pairs}

    @property
    def few_keys(self) -> Schema:
        return self.schema if self.schema.d <= REDUCED_KEYS else Schema(keys=REDUCED_KEYS)

    # -- device and bulk ----------------------------------------------------------------------------------------

    @abstractmethod
    def answer(self, held: list[int], word: int, coins: Coins) -> Payload:
        """Draw the answer of a person who holds these symbols, in rising order."""

    @abstractmethod
    def answer_many(self, held: Held, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        """The same law for many people."""

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        kept, labels = self.encoder.draw(pairs, coins), self.labels
        return self.answer([labels.count * key + labels.draw(value, coins) for key, value in kept], word, coins)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        kept, labels = self.encoder.draw_many(records, coins), self.labels
        symbols = labels.count * kept.keys.astype(np.int64) + labels.draw_many(kept.values, coins)
        return self.answer_many(Held(kept.offsets, symbols), words, coins)

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def response(self) -> Response:
        """How the supports of a key answer to its holders."""

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (self.labels.count, self.schema.d)

    def supports(self, tally: Tally) -> Integers:
        """How many reports support each symbol, [label, key]."""
        return self._own(tally)

    def by_label(self, counts: Integers) -> Integers:
        """Counts of symbols in the form of the tally."""
        return counts[: self.symbols].reshape(self.schema.d, self.labels.count).T

    def solve(self, tally: Tally, population: bool) -> Solution:
        """Unbiased estimates from the supports."""
        counts, n = self.supports(tally), tally.reports
        signed = counts[1] - counts[0] if self.labels.signed else None
        return self.response.solve(n, np.full(self.schema.d, n), counts.sum(axis=0), signed, population)

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        no_mean = f"{self.name} with bins estimates histograms; without bins it estimates means."
        return self.solve(tally, population).estimates(
            schema=self.schema,
            mechanism=self.name,
            epsilon=self.epsilon,
            n=tally.reports,
            asked=np.full(self.schema.d, tally.reports),
            confidence=confidence,
            population=population,
            no_mean=None if self.labels.signed else no_mean,
        )


@dataclass(frozen=True)
class BinnedSetResponse(SetResponse):
    """A set response whose labels may be cells of the value's range instead of signs."""

    bins: int | None = None

    def validate(self) -> None:
        super().validate()
        if self.bins is not None and not 2 <= self.bins <= MOST_BINS:
            raise refused(f"{self.name} takes from 2 to {MOST_BINS} bins, not {self.bins}.")

    @property
    def labels(self) -> Labels:
        return Labels(self.bins)

    @property
    def sizes(self) -> dict[str, int]:
        return super().sizes if self.bins is None else {**super().sizes, "bins": self.bins}

    @property
    def few_bins(self) -> int | None:
        return self.bins and min(self.bins, REDUCED_BINS)

    @property
    @abstractmethod
    def cell(self) -> Response:
        """How the supports of one cell answer to the people who are in it."""

    def histogram(self, tally: Tally, population: bool = False) -> Histogram:
        if self.bins is None:
            return super().histogram(tally, population)
        counts, n = self.supports(tally), tally.reports
        return self.cell.histogram(self.schema, n, np.full(self.schema.d, n), counts.T, population)


def refused(sentence: str) -> MechanismError:
    return MechanismError("mechanism/option", sentence)


__all__ = ["BinnedSetResponse", "Held", "SetResponse", "label_supports", "refused", "support_counts"]
