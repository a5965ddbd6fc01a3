"""Many encoded payloads at once, and what reading them gives: rows, and what is wrong with each that is refused.

Every codec whose payloads vary in length is read by one loop over bits (``core.codecs.loops``). Its time grows with the
length of the payloads and with nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import ReportError

Octets = NDArray[np.uint8]
Eights = NDArray[np.int64]
Places = NDArray[np.int64]
Flaws = NDArray[np.int8]

Loop = Callable[..., None]
Fast = Callable[[Loop], Loop]
"""What makes a loop fast: it is given the loop in plain Python."""

# What can be wrong with a payload. The numbers are those of the loops; they are never stored or sent.
FINE, ENDS, FOLLOWS, RANGE, NUMBER, FORM, LENGTH, SIGN, REFUSED, PADDING, SIZE = range(11)

_SENTENCES = {
    ENDS: "it ends too early",
    FOLLOWS: "something follows its last symbol",
    RANGE: "it holds a symbol that does not exist",
    NUMBER: "it holds too few or too many symbols",
    FORM: "its other form would be shorter",
    LENGTH: "it has another length than payloads of this kind",
    SIGN: "it should hold a sign and holds another answer",
    REFUSED: "its codec refuses it",
    PADDING: "its padding does not begin with an end mark or does not consist of zeros",
    SIZE: "it has another size than reports of this round",
}


def refusal(flaw: int) -> ReportError:
    """The error for a flaw."""
    return malformed(_SENTENCES[flaw], "report/size" if flaw == SIZE else "report/malformed")


def malformed(what: str, code: str = "report/malformed") -> ReportError:
    """The error for a payload that no device could have sent, with what is wrong about it."""
    return ReportError(code, f"The payload is not one that a device could have sent: {what}.")


@dataclass(frozen=True, eq=False)
class Payloads:
    """A column of byte strings: number i is ``data[starts[i]:stops[i]]``. It is indexed like an array."""

    data: Octets
    starts: Places
    stops: Places

    @staticmethod
    def of(parts: Sequence[bytes]) -> Payloads:
        ends = np.zeros(len(parts) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)), out=ends[1:])
        return Payloads(np.frombuffer(b"".join(parts), dtype=np.uint8), ends[:-1], ends[1:])

    @staticmethod
    def end_to_end(data: bytes | bytearray | memoryview, offsets: Places) -> Payloads:
        """Byte strings that lie end to end: number i is ``data[offsets[i]:offsets[i + 1]]``."""
        octets, offsets = np.frombuffer(data, dtype=np.uint8), np.asarray(offsets, dtype=np.int64)
        if len(offsets) < 1 or offsets[0] < 0 or offsets[-1] > len(octets) or (np.diff(offsets) < 0).any():
            raise ReportError("report/malformed", "The offsets of payloads rise and stay within their data.")
        return Payloads(octets, offsets[:-1], offsets[1:])

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, chosen: Any) -> Payloads:
        return Payloads(self.data, self.starts[chosen], self.stops[chosen])

    @property
    def lengths(self) -> Places:
        return self.stops - self.starts

    def emptied(self, flaws: Flaws) -> Payloads:
        """The same, but those that have a flaw are empty, so that nothing reads on where they are wrong."""
        return Payloads(self.data, self.starts, np.where(flaws == FINE, self.stops, self.starts))

    def trimmed(self) -> Payloads:
        """The same, without what lies before the first and behind the last of them."""
        if not len(self):
            return Payloads(self.data[:0], self.starts, self.stops)
        first = self.starts.min()
        return Payloads(self.data[first : self.stops.max()], self.starts - first, self.stops - first)

    def eights(self) -> tuple[Eights, Places, Places]:
        """What loops read: at k the eight bytes from byte k on, the first one lowest, and starts and stops therein.

        Behind the last byte there are zeros, so that a loop may look a little beyond it.
        """
        near = self.trimmed()
        octets = np.zeros(len(near.data) + 16, dtype=np.uint8)
        octets[: len(near.data)] = near.data
        return np.ndarray(len(octets) - 7, dtype="<i8", buffer=octets, strides=(1,)), near.starts, near.stops

    def joined(self) -> Octets:
        """All of them, end to end."""
        lengths = self.lengths
        ends = np.cumsum(lengths)
        if not len(ends):
            return self.data[:0]
        octets: Octets = self.data[np.repeat(self.starts - ends + lengths, lengths) + np.arange(ends[-1])]
        return octets

    def one(self, number: int) -> bytes:
        return self.data[self.starts[number] : self.stops[number]].tobytes()

    def table(self, size: int) -> tuple[Octets, Flaws]:
        """The payloads as uint8[n, size]. Those of another length are zeros there and have the flaw ``LENGTH``."""
        fits = self.lengths == size
        flaws = np.where(fits, FINE, LENGTH).astype(np.int8)
        if not size or not len(self) or not len(self.data):
            return np.zeros((len(self), size), dtype=np.uint8), flaws
        starts = np.where(fits, self.starts, 0)
        if fits.all() and (np.diff(starts) == size).all():  # end to end, as most are: no copy
            return self.data[starts[0] : starts[0] + size * len(self)].reshape(-1, size), flaws
        table = self.data[np.minimum(starts[:, None] + np.arange(size), len(self.data) - 1)]
        table[~fits] = 0
        return table, flaws


@dataclass(frozen=True, eq=False)
class Decoded:
    """What payloads say, in the bulk form of their codec, and what is wrong with each (``FINE`` for nothing).

    Rows of payloads with a flaw mean nothing. Where rows were not wanted there are none.
    """

    rows: Any
    flaws: Flaws

    @property
    def good(self) -> NDArray[np.bool_]:
        fine: NDArray[np.bool_] = self.flaws == FINE
        return fine

    def without_flaw(self) -> Any:
        """The rows; raises the error of the first payload that has a flaw, if one has."""
        if len(bad := np.flatnonzero(self.flaws)):
            raise refusal(int(self.flaws[bad[0]]))
        return self.rows


def first_flaws(*each: Flaws) -> Flaws:
    """For every payload the first flaw that one of several checks found."""
    found = each[0].copy()
    for flaws in each[1:]:
        found = np.where(found == FINE, flaws, found)
    return found


def plainly(loop: Loop) -> Loop:
    """The loop as it is, in plain Python."""
    return loop
