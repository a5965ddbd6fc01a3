"""From reports to a tally: how every mechanism counts, in blocks, by several threads, from objects or from bytes.

Tallies of parts add up to the tally of the whole. A mechanism says how it counts a block (``fold``), and may say in
which single cell a report counts (``public_cells``), which is quicker.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from keyveil.core.codecs.payloads import Decoded, Flaws, Payloads, refusal
from keyveil.core.codecs.symbols import Codec
from keyveil.core.report import PUBLIC_BYTES, Report, Reports
from keyveil.core.tally import Tally
from keyveil.kernels.public_cells import PublicCells
from keyveil.kernels.reading import read
from keyveil.kernels.threads import in_ranges, threads_for
from keyveil.kernels.writing import write

BLOCK = 1 << 16  # people handled at once in bulk: bounded memory, long enough for the kernels
CELLS_BLOCK = 1 << 18  # where a report adds to one cell: 64 Ki of them take as long as twenty calls
ENCODED_BLOCK = 1 << 22  # bytes of encoded reports that become rows at once; rows take up to 32 times as many


class Counting(ABC):
    """What a mechanism does with reports in bulk."""

    @property
    @abstractmethod
    def codec(self) -> Codec:
        """The form of a payload."""

    @property
    @abstractmethod
    def fingerprint(self) -> bytes:
        """What a tally or report belongs to."""

    @property
    @abstractmethod
    def tally_shape(self) -> tuple[int, ...]:
        """Shape of the counts that reports are folded into."""

    @abstractmethod
    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Counts of a block of reports."""

    @abstractmethod
    def read_words(self, publics: NDArray[np.uint8]) -> NDArray[np.uint64]:
        """Public words of reports, or zeros where nothing follows from them."""

    @property
    def public_cells(self) -> PublicCells | None:
        """Where a report counts, if it adds one to a single cell that follows from its public index and its answer."""
        return None

    def add(self, counts: NDArray[np.int64], payloads: NDArray[Any], words: NDArray[np.uint64]) -> None:
        """Add a block of reports to counts of the tally's shape: what ``fold`` gives, without an array of its own.

        It is for tallies that are larger than a block of reports.
        """
        cells = cells_of(self)
        if cells is None:
            counts += self.fold(payloads, words)
        else:
            cells.add_words(counts, words, payloads)

    def tally(self, reports: Iterable[Report] | Reports, threads: int | None = None) -> Tally:
        """Count reports; tallies of parts add up to the tally of the whole, whatever the number of threads."""
        counted = reports if isinstance(reports, Reports) else self.gather(reports)
        block = BLOCK if cells_of(self) is None else CELLS_BLOCK

        def work(start: int, stop: int) -> NDArray[np.int64]:
            counts = np.zeros(self.tally_shape, dtype=np.int64)
            for first in range(start, stop, block):
                some = slice(first, min(first + block, stop))
                self._add_reports(counts, counted.payloads[some], counted.publics[some])
            return counts

        first, *others = in_ranges(work, len(counted), BLOCK, threads_for(len(counted), threads))
        for counts in others:
            first += counts
        return Tally(self.fingerprint, len(counted), first)

    def _add_reports(self, counts: NDArray[np.int64], payloads: NDArray[Any], publics: NDArray[np.uint8]) -> None:
        """``add`` for public bytes."""
        cells = cells_of(self)
        if cells is None:
            self.add(counts, payloads, self.read_words(publics))
        else:
            cells.add(counts, self.fingerprint[:16], publics, payloads)

    def tally_encoded(self, publics: Sequence[bytes], payloads: Sequence[bytes]) -> Tally:
        """Count encoded reports, given their public bytes; in bounded memory. One with a flaw refuses all."""
        octets = np.frombuffer(b"".join(publics), np.uint8).reshape(-1, PUBLIC_BYTES)
        tally, flaws = self.tally_good(octets, Payloads.of(payloads))
        if len(bad := np.flatnonzero(flaws)):
            raise refusal(int(flaws[bad[0]]))
        return tally

    def tally_good(self, publics: NDArray[np.uint8], payloads: Payloads) -> tuple[Tally, Flaws]:
        """Count those encoded reports that a device could have sent, publics[n, 16]; and the flaws of all n."""
        counts, flaws = np.zeros(self.tally_shape, dtype=np.int64), np.zeros(len(payloads), dtype=np.int8)
        apart = counts.size > BLOCK and type(self).count_encoded is Counting.count_encoded
        for block in _blocks(payloads.lengths):
            words = self.read_words(publics[block])
            if apart:  # a table of its own for every block would take longer than the reports
                decoded = self.read_encoded(payloads[block], words)
                self.add(counts, decoded.rows[decoded.good], words[decoded.good])
                flaws[block] = decoded.flaws
            else:
                counted, flaws[block] = self.count_encoded(payloads[block], words)
                counts += counted
        return Tally(self.fingerprint, len(payloads) - int(np.count_nonzero(flaws)), counts), flaws

    def count_encoded(self, payloads: Payloads, words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], Flaws]:
        """Counts of those of a block of encoded reports that a device could have sent, and the flaws of all."""
        decoded = self.read_encoded(payloads, words)
        good = decoded.good
        if good.all():
            return self.fold(decoded.rows, words), decoded.flaws
        return self.fold(decoded.rows[good], words[good]), decoded.flaws

    def read_encoded(self, payloads: Payloads, words: NDArray[np.uint64], keep: bool = True) -> Decoded:
        """A block of encoded reports in the bulk form of the codec, and the flaws of those that no device sends.

        ``keep=False`` only looks for flaws. A mechanism whose words say more about a payload checks that here.
        """
        return read(self.codec, payloads, keep)

    def encode_many(self, reports: Reports) -> Payloads:
        """The payloads of many reports as bytes: what ``encode`` makes of each."""
        return write(self.codec, reports.payloads)

    def gather(self, reports: Iterable[Report]) -> Reports:
        """Single reports as columns; each must be one that a device could have sent."""
        listed = list(reports)
        for report in listed:
            self.codec.encode(report.payload)
        publics = np.frombuffer(b"".join(report.public for report in listed), np.uint8).reshape(-1, PUBLIC_BYTES)
        return Reports(publics, self.codec.stack([report.payload for report in listed]))


@cache
def cells_of(one: Counting) -> PublicCells | None:
    """Its ``public_cells``, unless a class below the one that declares them counts differently (``fold``)."""
    return one.public_cells if issubclass(_home(type(one), "public_cells"), _home(type(one), "fold")) else None


@runtime_checkable
class CountsOfEach(Protocol):
    """Reports in bulk, counted one by one: quicker than ``fold`` for each of them."""

    def counts_of_each(self, payloads: Any, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """What every report adds to the tally: the counts that ``fold`` gives for it alone, [report, *tally_shape]."""


def counts_of_each(one: Counting, payloads: Any, words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """What every report adds to the tally, [report, cell]; in memory for so many tallies."""
    size = math.prod(one.tally_shape)
    if isinstance(one, CountsOfEach):
        return one.counts_of_each(payloads, words).reshape(len(payloads), size)
    counts, known = np.zeros((len(payloads), size), dtype=np.int64), cells_of(one)
    if known is not None:
        counts[np.arange(len(counts)), known.places(words, payloads)] = 1
        return counts
    for at, row in enumerate(counts):
        one.add(row.reshape(one.tally_shape), payloads[at : at + 1], words[at : at + 1])
    return counts


def _home(kind: type, member: str) -> type:
    """The class that a class has a member from."""
    return next(base for base in kind.__mro__ if member in vars(base))


def _blocks(lengths: NDArray[np.int64]) -> Iterator[slice]:
    """Consecutive reports that fit into ``ENCODED_BLOCK`` bytes, and at most ``BLOCK`` of them."""
    ends, start = np.cumsum(lengths), 0
    while start < len(lengths):
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + ENCODED_BLOCK, side="right"))
        stop = min(max(stop, start + 1), start + BLOCK)
        yield slice(start, stop)
        start = stop
