"""What a collector keeps: integer counts that add up, and the fingerprint of the mechanism they belong to.

A tally is all that estimation needs, whatever the number of reports. Two tallies of the same mechanism, parameters
and schema add up to the tally of all their reports, in any order and on any machine; others refuse to merge.

Bytes, version 1 (all numbers little-endian)::

    "KVT" | version u8 | fingerprint 32 bytes | reports i64 | dimensions u8 | sizes i64 | counts i64 | CRC-32 u32

The checksum catches accidents in storage and transport; it does not authenticate.
"""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import TallyError

MAGIC = b"KVT"
VERSION = 1

_HEADER = struct.Struct("<3sB32sqB")
_CHECKSUM = struct.Struct("<I")
_LARGEST = 2**63 - 1
_MOST_DIMENSIONS = 8


@dataclass(frozen=True, eq=False, repr=False)
class Tally:
    """The counts of some reports; ``a + b`` is the tally of both."""

    fingerprint: bytes  # SHA-256 of mechanism, parameters and schema
    reports: int  # how many reports were folded
    counts: NDArray[np.int64]  # the shape is fixed by the mechanism; read-only

    def __post_init__(self) -> None:
        if len(self.fingerprint) != 32:
            raise _malformed(f"A tally's fingerprint has 32 bytes, not {len(self.fingerprint)}.")
        if not 0 <= self.reports <= _LARGEST:
            raise _malformed(f"A tally cannot hold {self.reports} reports.")
        object.__setattr__(self, "reports", int(self.reports))  # a NumPy integer would wrap around in sums
        object.__setattr__(self, "counts", _frozen(self.counts))

    @classmethod
    def empty(cls, fingerprint: bytes, shape: tuple[int, ...]) -> Tally:
        """The tally of no reports: adding it changes nothing."""
        return cls(fingerprint, 0, np.zeros(shape, dtype=np.int64))

    def refuse_other(self, fingerprint: bytes, shape: tuple[int, ...]) -> None:
        """Raise unless this is a tally of the mechanism with this fingerprint and shape of counts."""
        if self.fingerprint != fingerprint:
            raise TallyError(
                "tally/foreign",
                f"This tally belongs to another mechanism, parameters or schema ({_short(self.fingerprint)}, "
                f"not {_short(fingerprint)}).",
            )
        if self.counts.shape != shape:
            raise TallyError("tally/foreign", f"This tally has counts of shape {self.counts.shape}, not {shape}.")

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        self._refuse_stranger(other)
        reports = self.reports + other.reports
        with np.errstate(over="ignore"):
            total = np.asarray(self.counts + other.counts)
        if reports > _LARGEST or _wrapped(self.counts, other.counts, total):
            raise TallyError("tally/overflow", "The sum of these tallies does not fit into 64-bit counts.")
        total.setflags(write=False)
        return Tally(self.fingerprint, reports, total)

    def __radd__(self, other: int) -> Tally:
        """Lets the built-in ``sum`` start from its 0."""
        return self if other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tally):
            return NotImplemented
        return (
            self.fingerprint == other.fingerprint
            and self.reports == other.reports
            and np.array_equal(self.counts, other.counts)
        )

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.counts.shape)) or "1"
        return f"Tally({_short(self.fingerprint)}, reports={self.reports:,}, counts={shape})"

    def to_bytes(self) -> bytes:
        shape = self.counts.shape
        body = b"".join(
            (
                _HEADER.pack(MAGIC, VERSION, self.fingerprint, self.reports, len(shape)),
                struct.pack(f"<{len(shape)}q", *shape),
                self.counts.astype("<i8", copy=False).tobytes(),
            )
        )
        return body + _CHECKSUM.pack(zlib.crc32(body))

    @classmethod
    def from_bytes(cls, data: bytes) -> Tally:
        """Reads what ``to_bytes`` wrote and nothing else; sizes are checked before anything is allocated."""
        if data[: len(MAGIC)] != MAGIC:
            raise _malformed("These bytes are not a Keyveil tally.")
        if len(data) > len(MAGIC) and data[len(MAGIC)] != VERSION:
            raise _malformed(f"This tally has format version {data[len(MAGIC)]}, but only version {VERSION} is known.")
        if len(data) < _HEADER.size:
            raise _malformed(f"The tally is cut off: {len(data)} bytes do not even hold its header.")
        _, _, fingerprint, reports, dimensions = _HEADER.unpack_from(data)
        if dimensions > _MOST_DIMENSIONS:
            raise _malformed(f"A tally has at most {_MOST_DIMENSIONS} dimensions, not {dimensions}.")
        start = _HEADER.size + 8 * dimensions
        if len(data) < start:
            raise _malformed(f"The tally is cut off: {len(data)} bytes do not hold its {dimensions} sizes.")
        shape = struct.unpack_from(f"<{dimensions}q", data, _HEADER.size)
        if any(size < 1 for size in shape):
            raise _malformed(f"A tally's sizes are positive, not {min(shape)}.")
        cells = math.prod(shape)
        expected = start + 8 * cells + _CHECKSUM.size
        if len(data) < expected:
            raise _malformed(f"The tally is cut off: its sizes ask for {expected} bytes, but there are {len(data)}.")
        if len(data) > expected:
            raise _malformed(f"The tally is followed by {len(data) - expected} bytes that do not belong to it.")
        body = memoryview(data)[: -_CHECKSUM.size]
        if _CHECKSUM.pack(zlib.crc32(body)) != data[-_CHECKSUM.size :]:
            raise _malformed("The tally is damaged: its checksum does not fit its content.")
        return cls(fingerprint, reports, np.frombuffer(data, "<i8", cells, start).reshape(shape))

    def _refuse_stranger(self, other: Tally) -> None:
        if self.fingerprint != other.fingerprint:
            raise TallyError(
                "tally/foreign",
                f"Tally {_short(other.fingerprint)} comes from another mechanism, other parameters or another schema "
                f"than tally {_short(self.fingerprint)}, so they cannot be added.",
            )
        if self.counts.shape != other.counts.shape:
            raise TallyError(
                "tally/foreign",
                f"Tally {_short(other.fingerprint)} has counts of shape {other.counts.shape}, but tally "
                f"{_short(self.fingerprint)} has {self.counts.shape}, so they cannot be added.",
            )


def _frozen(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The counts as a read-only int64 array that nobody else can write to."""
    if counts.dtype.kind not in "iu" or (counts.dtype == np.uint64 and np.any(counts > np.uint64(_LARGEST))):
        raise _malformed(f"A tally counts in 64-bit integers, and these {counts.dtype} numbers do not fit.")
    if counts.size == 0 or counts.ndim > _MOST_DIMENSIONS:
        raise _malformed(f"Counts of shape {counts.shape} cannot make a tally.")
    if counts.dtype == np.int64 and counts.flags.c_contiguous and counts.flags.owndata and not counts.flags.writeable:
        return counts  # a finished sum: no need to copy up to 64 MB again
    own = np.array(counts, dtype=np.int64, order="C")
    own.setflags(write=False)
    return own


def _wrapped(a: NDArray[np.int64], b: NDArray[np.int64], total: NDArray[np.int64]) -> bool:
    """Whether the sum of two arrays left the 64 bits anywhere."""
    if int(a.max()) + int(b.max()) <= _LARGEST and int(a.min()) + int(b.min()) >= -_LARGEST:
        return False  # nearly always, and several times cheaper than looking at every sum
    # Two's complement wraps exactly where the sum's sign differs from the sign of both terms.
    return bool(np.any((a ^ total) & (b ^ total) < 0))


def _short(fingerprint: bytes) -> str:
    return f"{fingerprint[:4].hex()}…"


def _malformed(sentence: str) -> TallyError:
    return TallyError("tally/malformed", sentence)
