"""What travels from devices to a collector: batches of reports, as JSON or packed, and the padding of payloads.

A batch says once under which round document its reports were made; a report is its id (the public bytes, drawn before
the record was looked at) and its payload, padded to the size that the round's document fixes. Nothing in it tells who
sent it or when, and nothing is a float. Both forms carry the same; docs/wire.md specifies them byte by byte.

Packed, version 1 (numbers little-endian)::

    "KVR" | version u8 | round u16 | report bytes u32 | reports u32 | document hash 32 bytes | (id 16 | payload)…
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from keyveil.core.codecs.padding import pad as pad
from keyveil.core.codecs.padding import unpad as unpad
from keyveil.core.errors import ReportError
from keyveil.core.report import PUBLIC_BYTES

MAGIC = b"KVR"
VERSION = 1
JSON = "application/json"
PACKED = "application/vnd.keyveil.reports"

MOST_REPORTS = 10_000  # in a batch
LARGEST = 8 << 20  # bytes of a batch

_HEADER = struct.Struct("<3sBHII32s")
_HASH = re.compile(r"[0-9a-f]{64}")
_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Batch:
    """Reports of one round as they travel: ids and padded payloads, in the same order."""

    round: int
    document: str  # hash of the round's document
    ids: tuple[bytes, ...]
    payloads: tuple[bytes, ...]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def size(self) -> int:
        """Bytes of all ids and payloads."""
        return PUBLIC_BYTES * len(self) + sum(map(len, self.payloads))

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return iter(zip(self.ids, self.payloads, strict=True))

    def to_json(self) -> bytes:
        reports = [
            {"id": public.hex(), "payload": base64.urlsafe_b64encode(payload).rstrip(b"=").decode()}
            for public, payload in self
        ]
        return msgspec.json.encode({"round": self.round, "document": self.document, "reports": reports})

    def to_packed(self) -> bytes:
        size = len(self.payloads[0]) if self.payloads else 0
        if any(len(payload) != size for payload in self.payloads):
            raise ReportError("report/size", "The reports of a packed batch all have the same size.")
        header = _HEADER.pack(MAGIC, VERSION, self.round, size, len(self), bytes.fromhex(self.document))
        return b"".join((header, *(part for report in self for part in report)))


class _Report(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    payload: str


class _Upload(msgspec.Struct, forbid_unknown_fields=True):
    round: int
    document: str
    reports: list[_Report]


_DECODER = msgspec.json.Decoder(_Upload)


def from_json(data: bytes) -> Batch:
    """The batch that a JSON upload holds; strict: every id and payload has one form."""
    _refuse_large(data)
    try:
        upload = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as reason:
        raise _malformed(f"not an upload in JSON ({str(reason).rstrip('.')})") from None
    _check(upload.round, upload.document, len(upload.reports))
    ids, payloads = [], []
    for report in upload.reports:
        if not _ID.fullmatch(report.id):
            raise _malformed("an id has 32 hexadecimal digits in lower case")
        ids.append(bytes.fromhex(report.id))
        payloads.append(_from_base64(report.payload))
    return Batch(upload.round, upload.document, tuple(ids), tuple(payloads))


def from_packed(data: bytes) -> Batch:
    """The batch that a packed upload holds; its length must be what its header says, to the byte."""
    _refuse_large(data)
    if data[: len(MAGIC)] != MAGIC or len(data) < _HEADER.size:
        raise _malformed("no packed batch of reports")
    _, version, number, size, count, document = _HEADER.unpack_from(data)
    if version != VERSION:
        raise _malformed(f"version {version} of the packed form, and only {VERSION} is known")
    _check(number, document.hex(), count)
    step = PUBLIC_BYTES + size
    if len(data) != _HEADER.size + count * step:
        raise _malformed(f"{count} reports of {size} bytes do not make {len(data)} bytes")
    starts = range(_HEADER.size, len(data), step)
    ids = tuple(data[at : at + PUBLIC_BYTES] for at in starts)
    payloads = tuple(data[at + PUBLIC_BYTES : at + step] for at in starts)
    return Batch(number, document.hex(), ids, payloads)


def _check(number: int, document: str, count: int) -> None:
    if not 1 <= number < 1 << 16:
        raise _malformed("rounds are counted from 1")
    if not _HASH.fullmatch(document):
        raise _malformed("a document's hash has 64 hexadecimal digits in lower case")
    if not 1 <= count <= MOST_REPORTS:
        raise ReportError("report/batch", f"A batch holds 1 to {MOST_REPORTS} reports, not {count}.")


def _from_base64(text: str) -> bytes:
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        raise _malformed("a payload is base64url without padding") from None
    if base64.urlsafe_b64encode(data).rstrip(b"=").decode() != text:
        raise _malformed("a payload is base64url without padding, in its one spelling")
    return data


def _refuse_large(data: bytes) -> None:
    if len(data) > LARGEST:
        raise ReportError("report/too-large", f"A batch has at most {LARGEST} bytes, not {len(data)}.")


def _malformed(what: str) -> ReportError:
    return ReportError("report/malformed", f"This is no batch of reports: {what}.")
