"""What is known of single reports whatever people hold: the ground of detection.

*What a report is about*, where its public word says so: the word is a hash of the id, so how many reports there are
about each thing has a known law, unless ids were chosen. *Which symbols it supports*: how many they are, and how often
two of them come together. Only ``robustness`` looks for these; they answer no question about people, so they are not
among ``CAPABILITIES``. The laws are derived in docs/robustness.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from keyveil.core.tally import Tally

if TYPE_CHECKING:
    from keyveil.mechanisms.base import Mechanism

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


class Asked(NamedTuple):
    """How many reports are about each of some things, how many there should be, and which keys these are."""

    counts: Counts  # [thing]
    shares: Floats  # [thing], of all reports, by the law of public words
    keys: Counts  # [thing, place]; -1 for no key

    @classmethod
    def evenly(cls, counts: Counts, keys: Counts) -> Asked:
        """Things that are asked about equally often."""
        return cls(counts, np.full(len(counts), 1 / len(counts)), keys)


@runtime_checkable
class AskedAbout(Protocol):
    """Public words say what a report is about."""

    def asked_about(self, tally: Tally) -> Asked:
        """The reports about each thing."""


@runtime_checkable
class EachByItself(AskedAbout, Protocol):
    """Public words part people at random, and each part tells the frequencies of all keys by itself."""

    def frequencies_without(self, tally: Tally, left_out: NDArray[np.bool_]) -> Floats | None:
        """Unbiased frequencies from the other parts, whatever is in these; none if the others cannot part the keys."""


@runtime_checkable
class LikeHonest(Protocol):
    """The law of crafted reports that always support a key is that of honest reports with other frequencies."""

    crafted_like_honest: str
    """Why, in a sentence."""


class Together(NamedTuple):
    """How often a report supports two symbols at once: at most ``base`` + ``slope``·(P(one) + P(other)).

    That holds whatever people hold. It is an equality for two symbols that nobody holds both of.
    """

    base: float
    slope: float

    @classmethod
    def of_subsets(cls, own: float, other: float, own_and_other: float, two_others: float) -> Together:
        """Where two symbols come together equally often whether one of them is held or both.

        With h the share of people who hold at least one of the two, the chance is two_others + h·(own_and_other -
        two_others), and h is at most the sum of both shares, (P - other)/(own - other) each.
        """
        slope = (own_and_other - two_others) / (own - other)
        return cls(two_others - 2 * slope * other, slope)

    @classmethod
    def of_one_pair(cls, other: float) -> Together:
        """Where symbols are supported independently, all but at most one of them with the chance ``other``."""
        return cls(-(other**2), other)


class SymbolLaws(NamedTuple):
    """What is known of the symbols that a report supports."""

    keys: Counts  # [symbol], the key that it speaks of; rising; -1 for none
    numbers: Floats | None = None  # [law, number]: how many are supported follows a mixture of these laws
    together: Together | None = None
    rates: tuple[float, float] | None = None  # how often a symbol is supported by its holders, and by others


@runtime_checkable
class ReportSymbols(Protocol):
    """A report supports some of many symbols, and something is known of which."""

    def supported(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which symbols every report supports, [report, symbol]."""

    def symbol_laws(self) -> SymbolLaws | None:
        """What is known of them; nothing where a report has one symbol only."""


class OnePairRates(NamedTuple):
    """How often a report supports the key that it is about, and any other."""

    own: float
    other: float
    always: bool  # whether every report is about a key
    scale: float  # how many people hold a key for each report that is about it

    def symbol_laws(self, d: int) -> SymbolLaws:
        """Of d keys, each a symbol of its own: about one of them, and about none where that happens."""
        laws = [np.convolve(binomial(d - 1, self.other), (1 - self.own, self.own))]
        laws += [] if self.always else [binomial(d, self.other)]
        return SymbolLaws(np.arange(d), np.array(laws), Together.of_one_pair(self.other))


@runtime_checkable
class OnePairSupports(ReportSymbols, Protocol):
    """A report supports every key independently; all but at most one of them by chance alone."""

    def one_pair_rates(self) -> OnePairRates:
        """The probabilities behind them."""


@runtime_checkable
class ReportParts(Protocol):
    """Reports of several mechanisms side by side, parted by their public words."""

    @property
    def parts(self) -> Sequence[Mechanism]:
        """The mechanisms."""

    def part_tally(self, tally: Tally, number: int) -> Tally:
        """The tally of one part."""

    def whole_tally(self, parts: Sequence[Tally]) -> Tally:
        """The tally whose parts are these."""

    def rows_of(self, payloads: Any, number: int) -> Any:
        """The payloads of one part among those of all; empty if there are none."""


def bits_of(rows: NDArray[np.uint64], d: int) -> NDArray[np.bool_]:
    """The first d bits of rows of words."""
    octets = np.ascontiguousarray(rows, dtype="<u8").view(np.uint8)
    return np.unpackbits(octets, axis=1, bitorder="little")[:, :d].astype(np.bool_)


def members_of(rows: NDArray[Any], symbols: int) -> NDArray[np.bool_]:
    """Which of the first ``symbols`` symbols are listed in each row."""
    found = np.zeros((len(rows), max(symbols, int(rows.max(initial=0)) + 1)), dtype=np.bool_)
    found[np.arange(len(rows))[:, None], rows] = True
    return found[:, :symbols]


def binomial(trials: int, chance: float) -> Floats:
    """The law of a binomial number, 0 … trials."""
    k = np.arange(trials + 1)
    choose = np.array([math.lgamma(trials + 1) - math.lgamma(i + 1) - math.lgamma(trials - i + 1) for i in k])
    law: Floats = np.exp(choose + k * math.log(chance) + (trials - k) * math.log1p(-chance))
    return law
