"""Set responses: all pairs of a person count at once, instead of one that is sampled.

Every pair becomes a symbol, its key with a label: the sign of the value, or its cell. The answer suits what is held
with weight e^ε and anything else with weight 1, out of a total that is the same for everybody. Members of the family
differ in what an answer is; the decoder is one: how often is a symbol supported by its holder, and how often by
anybody else?
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.core.estimates import Estimates
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.mechanisms.announcements import AnnouncedCap
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.capabilities import SupportRates
from keyveil.mechanisms.dependence import Dependence, from_supports
from keyveil.mechanisms.effects import Effects, asked, of_statistics
from keyveil.mechanisms.encoders import Cap, Labels
from keyveil.mechanisms.families.binned import CELLS, REDUCED_BINS, Binned
from keyveil.mechanisms.families.key_value import FREQUENCIES_AND_MEANS, REDUCED_KEYS, KeyValue, refused
from keyveil.mechanisms.responses import Floats, Response, Solution, Spread, label_supports, support_counts

REDUCED_PAIRS = 2

Integers = NDArray[np.int64]
Keys = Integers | slice


class Signs(NamedTuple):
    """How often an answer supports the two signs of a key, where they are not like any two symbols."""

    opposite: Fraction  # the other sign of a held key
    own_and_opposite: Fraction  # both signs of a held key
    both: Fraction  # both signs of a key that is not held


class Odds(NamedTuple):
    """How often an answer supports a symbol or two, from the integers of the channel."""

    own: Fraction  # a held symbol
    other: Fraction  # a symbol that is not held
    own_and_other: Fraction  # a held one and a foreign one, both
    two_others: Fraction  # two foreign ones, both
    signs: Signs | None = None  # of one key; nothing if they are symbols like others

    def of_key(self, labels: int) -> Response:
        """How the supports of a key, whatever the label, answer to its holders."""
        return _of_key(self, labels)

    @property
    def of_symbol(self) -> Response:
        """How the supports of one symbol answer to its holders."""
        return support_counts(self.own, self.other)


@lru_cache(maxsize=1024)
def _of_key(odds: Odds, labels: int) -> Response:
    """Fractions of large integers take longer to add up than the errors of a thousand keys."""
    if odds.signs is None:
        return label_supports(*odds[:4], labels)
    opposite, own_and_opposite, both = odds.signs
    return label_supports(odds.own, odds.other, own_and_opposite, both, labels, opposite)


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


class SetResponse(KeyValue):
    """One answer about all pairs of a person."""

    @property
    def estimated(self) -> frozenset[str]:
        return FREQUENCIES_AND_MEANS

    @property
    def labels(self) -> Labels:
        return Labels()

    def every_value(self, key: int = 0) -> Sequence[int]:
        return self.labels.every_value(key)

    @property
    def symbols(self) -> int:
        """How many pairs of key and label there are; symbol number ``labels · key + label``."""
        return self.labels.count * self.schema.d

    @property
    def few_keys(self) -> Schema:
        return self.schema.first(REDUCED_KEYS, REDUCED_BINS)

    # -- device and bulk ----------------------------------------------------------------------------------------

    @abstractmethod
    def answer(self, held: list[int], word: int, coins: Coins) -> Payload:
        """Draw the answer of a person who holds these symbols, in rising order."""

    @abstractmethod
    def answer_many(self, held: Held, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        """The same law for many people."""

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        labels = self.labels
        return self.answer([labels.count * key + labels.draw(value, coins, key) for key, value in pairs], word, coins)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        return self.answer_many(self.held(records, coins), words, coins)

    def held(self, records: Records, coins: Coins) -> Held:
        """Draws everybody's labels: the symbols that they hold."""
        labels = self.labels
        symbols = labels.count * records.keys.astype(np.int64) + labels.draw_many(records.values, coins, records.keys)
        return Held(records.offsets, symbols)

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def odds(self) -> Sequence[tuple[Keys, Odds]]:
        """How often symbols are supported; one entry for each group of keys that are treated alike."""

    @cached_property
    def response(self) -> Response:
        """How the supports of a key answer to its holders; of the first group of keys, if there are several."""
        return self.odds[0][1].of_key(self.labels.count)

    @property
    def lacks(self) -> frozenset[type]:
        """Keys that are not treated alike have no common rates; answers with several symbols are no yes or no."""
        alike = self.exclusive and len(self.odds) == 1
        return super().lacks | (frozenset() if alike else frozenset({SupportRates}))

    @property
    def exclusive(self) -> bool:
        """Whether an answer supports one symbol or none, at all sizes."""
        return False

    @property
    def most_labels(self) -> int:
        """How many labels of one key an answer can support."""
        return 1 if self.exclusive else self.labels.count

    @property
    def keys_at_once(self) -> int | None:
        """How many keys an answer can support, if there are fewer than all."""
        return 1 if self.exclusive else None

    def support_rates(self) -> tuple[Fraction, Fraction]:
        return self.response.rates

    def dependence(self, population: bool = False) -> Dependence:
        return self._dependence.of_sets(population)

    @cached_property
    def _dependence(self) -> Dependence:
        """From the first group of keys: weights raise the support of a key by all people alike, which cancels out."""
        _, odds = self.odds[0]
        labels, held, foreign = self.labels.count, float(odds.own_and_other), float(odds.two_others)
        aside = foreign if odds.signs is None else float(odds.signs.opposite * odds.other)  # hashed keys: independent
        return from_supports(
            odds.of_key(labels),
            labels**2 * foreign,
            labels * held + labels * (labels - 1) * aside,
            (2 * labels - 1) * held + (labels - 1) ** 2 * aside,
        )

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (self.labels.count, self.schema.d)

    def supports(self, tally: Tally) -> Integers:
        """How many reports support each symbol, [label, key]."""
        return self._own(tally)

    def respondents(self, tally: Tally) -> Integers:
        """How many reports could speak about each key."""
        return np.full(self.schema.d, tally.reports)

    def by_label(self, counts: Integers) -> Integers:
        """Counts of symbols in the form of the tally."""
        return counts[: self.symbols].reshape(self.schema.d, self.labels.count).T

    def solve(self, tally: Tally, population: bool) -> Solution:
        """Unbiased estimates from the supports."""
        counts, respondents = self.supports(tally), self.respondents(tally)
        columns = np.empty((6, self.schema.d))
        for keys, odds in self.odds:
            mine = counts[:, keys]
            signed = mine[1] - mine[0] if self.labels.signed else None
            response = odds.of_key(self.labels.count)
            part = response.solve(tally.reports, respondents[keys], mine.sum(axis=0), signed, population)
            columns[:, keys] = part.frequency, part.product, *part.spread, part.scores
        return Solution(columns[0], columns[1], Spread(*columns[2:5]), columns[5])

    def report_effects(self, tally: Tally) -> list[Effects]:
        """An answer supports minus, plus, neither or, unless it has one symbol only, both of a key's signs."""
        supports, signed = ((0, 1, 1), (0, -1, 1)) if self.most_labels == 1 else ((0, 1, 1, 2), (0, -1, 1, 0))
        points, people = np.empty((len(supports), self.schema.d, 2)), self.respondents(tally)
        for keys, odds in self.odds:
            points[:, keys] = of_statistics(odds.of_key(2), supports, signed, people[keys]).points
        return [Effects(people, points, at_once=self.keys_at_once)]

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        """Every report speaks about every key; nobody is taken to hold more pairs than the cap."""
        columns = np.empty((3, self.schema.d))
        for keys, response in self._responses:
            columns[:, keys] = response.predicted(frequency[keys], mean[keys], n, population)
        return Spread(*columns)

    @cached_property
    def _responses(self) -> list[tuple[Keys, Response]]:
        """How the supports of a key answer to its holders, for each group of keys."""
        return [(keys, odds.of_key(self.labels.count)) for keys, odds in self.odds]

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        return self.solve(tally, population).estimates(
            self.header(tally.reports, confidence, population),
            respondents=self.respondents(tally),
            no_mean=self.no_mean,
        )

    @property
    def no_mean(self) -> str | None:
        """Why there are no means, if there are none."""
        return None


@dataclass(frozen=True)
class CappedSetResponse(AnnouncedCap, SetResponse):
    """A set response in which at most ``max_pairs`` pairs of a person count, a uniform choice of larger records."""

    max_pairs: int

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({"max_pairs": 2},)

    def validate(self) -> None:
        if not 1 <= self.max_pairs <= self.schema.d:
            raise refused(f"{self.name} takes max_pairs from 1 to {self.schema.d}, the number of keys.")

    def cap(self) -> int:
        return self.max_pairs

    @cached_property
    def encoder(self) -> Cap:
        return Cap(self.max_pairs)

    @property
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "max_pairs": self.max_pairs}

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        return super().respond(self.encoder.draw(pairs, coins), word, coins)

    def held(self, records: Records, coins: Coins) -> Held:
        return super().held(self.encoder.draw_many(records, coins), coins)


class BinnedSetResponse(Binned, CappedSetResponse):
    """A set response whose labels may be points or cells of the value's range instead of signs."""

    examples: ClassVar[tuple[dict[str, Any], ...]] = (
        {"max_pairs": 2},
        {"max_pairs": 2, "bins": 4},
        {"max_pairs": 2, "bins": 4, "rounding": CELLS},
    )

    def cell_odds(self) -> Sequence[Odds]:
        odds = [self.odds[0][1]] * self.schema.d
        for keys, alike in self.odds[1:]:
            for key in np.arange(self.schema.d)[keys]:
                odds[key] = alike
        return odds

    def report_effects(self, tally: Tally) -> list[Effects]:
        """An answer supports some of a key's labels, as many as an answer can have."""
        if self.labels.signed:
            return super().report_effects(tally)
        labels = range(-1, self.labels.count)
        said = asked(self, ((1, self.one_label(label)) for label in labels), self.respondents(tally))
        if self.most_labels == 1:
            return [replace(said, at_once=self.keys_at_once)]
        nothing, labelled = said.points[:1], said.points[1:]
        generators, most = labelled - nothing, self.most_labels
        return [replace(said, points=nothing, generators=generators, most=most, at_once=self.keys_at_once)]

    def one_label(self, label: int) -> Integers:
        """Counts in which one answer supports this label of every key; none for -1."""
        counts = np.zeros(self.tally_shape, dtype=np.int64)
        if label >= 0:
            counts[label] = 1
        return counts

    def label_counts(self, tally: Tally) -> tuple[Integers, Integers]:
        return self.supports(tally).T, self.respondents(tally)
