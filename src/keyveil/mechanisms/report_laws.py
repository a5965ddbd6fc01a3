"""What is known of single reports whatever people hold: the ground of detection.

*What a report is about*, where its public word says so: the word is a hash of the id, so how many reports there are
about each thing has a known law, unless ids were chosen. *Which keys it supports*, where at most one of them is the key
that it is about and all others are noise of known law. Only ``robustness.detection`` looks for these; they answer no
question about people, so they are not among ``CAPABILITIES``.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from keyveil.core.tally import Tally

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


class OnePairRates(NamedTuple):
    """How often a report supports the key that it is about, and any other."""

    own: float
    other: float
    always: bool  # whether every report is about a key
    scale: float  # how many people hold a key for each report that is about it


@runtime_checkable
class OnePairSupports(Protocol):
    """A report supports every key independently; all but at most one of them by chance alone."""

    def supported(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which keys every report supports, [report, key]."""

    def one_pair_rates(self) -> OnePairRates:
        """The probabilities behind them."""


def bits_of(rows: NDArray[np.uint64], d: int) -> NDArray[np.bool_]:
    """The first d bits of rows of words."""
    octets = np.ascontiguousarray(rows, dtype="<u8").view(np.uint8)
    return np.unpackbits(octets, axis=1, bitorder="little")[:, :d].astype(np.bool_)
