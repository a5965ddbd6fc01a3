"""The one thing that every engine does: a batch of encoded reports becomes a tally.

    fold = Fold(document)                  # of a round
    tally = fold(batch) + fold(another)    # pyarrow.RecordBatch with the columns id and payload

It is pure and can be pickled, so that any engine may call it anywhere, as often as it likes: equal batches give equal
tallies, and tallies add up in any order. Duplicates are not its business: whoever calls it hands over each id once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from keyveil.campaign.reading import sketch_of, tally_of
from keyveil.campaign.rounds import RoundDocument
from keyveil.core.codecs.payloads import Payloads, refusal
from keyveil.core.errors import ReportError
from keyveil.core.report import PUBLIC_BYTES
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.mechanisms.parting import EVERYONE, Part, parting_words
from keyveil.mechanisms.registry import create_round
from keyveil.robustness.sketches import sketch_fingerprint, sketch_shape

if TYPE_CHECKING:
    import pyarrow

Ids = NDArray[np.uint8]


class FlawedReport(ReportError):
    """A report that no device of the round could have sent, and its place in the batch."""

    def __init__(self, code: str, row: int, what: str) -> None:
        super().__init__(code, f"Report {row + 1:,} of the batch {what}.")
        self.row, self.what = row, what

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.row, self.what)

    def at(self, place: str) -> ReportError:
        """The same, said of a place that people can look up."""
        return ReportError(self.code, f"{place} {self.what}.")


@dataclass(frozen=True)
class Fold:
    """Counts reports of one round; a batch with a report that does not belong there is refused as a whole."""

    document: RoundDocument

    def __call__(self, batch: pyarrow.RecordBatch) -> Tally:
        return self.count(*columns(batch))

    @cached_property
    def empty(self) -> Tally:
        mechanism = self.document.mechanism
        return Tally.empty(mechanism.fingerprint, mechanism.tally_shape)

    def count(self, ids: Ids, payloads: Payloads) -> Tally:
        """The tally of reports whose ids are uint8[n, 16]."""
        document = self.document
        if document.part != EVERYONE:
            words = parting_words(ids, bytes.fromhex(document.campaign))
            if len(strange := np.flatnonzero(~document.part.members(words))):
                raise FlawedReport("report/part", int(strange[0]), "is of somebody whom this round does not ask")
        tally, flaws = tally_of(document, ids, payloads)
        if len(bad := np.flatnonzero(flaws)):
            why = refusal(int(flaws[bad[0]]))
            raise FlawedReport(why.code, int(bad[0]), f"is refused: {why.sentence.rstrip('.')}")
        return tally

    def __reduce__(self) -> tuple[Callable[..., Fold], tuple[Any, ...]]:
        """As its documents: what a mechanism has computed for itself stays at home."""
        document, mechanism = self.document, self.document.mechanism
        part = (document.part.start, document.part.stop)
        made_of = (mechanism.name, mechanism.schema.document(), mechanism.epsilon, mechanism.options)
        return _fold, (document.campaign, document.number, part, *made_of)


@dataclass(frozen=True)
class SketchFold(Fold):
    """The same for the sketch of a round (``robustness.sketches``)."""

    @cached_property
    def empty(self) -> Tally:
        mechanism = self.document.mechanism
        return Tally.empty(sketch_fingerprint(mechanism), sketch_shape(mechanism))

    def count(self, ids: Ids, payloads: Payloads) -> Tally:
        """The sketch of reports that were counted without a flaw."""
        return sketch_of(self.document, ids, payloads)


def _fold(
    campaign: str,
    number: int,
    part: tuple[Fraction, Fraction],
    name: str,
    schema: dict[str, Any],
    epsilon: Fraction,
    options: dict[str, Any],
) -> Fold:
    mechanism = create_round(name, Schema.from_document(schema), epsilon, **options)
    return Fold(RoundDocument(campaign, number, mechanism, Part(*part)))


def columns(batch: pyarrow.RecordBatch) -> tuple[Ids, Payloads]:
    """The ids uint8[n, 16] and the payloads of a batch, without a copy where Arrow's layout allows it."""
    ids, payloads = _strings(batch.column("id")), batch.column("payload")
    wrong = np.flatnonzero(_nulls(batch.column("id")) | (ids.lengths != PUBLIC_BYTES))
    if len(wrong):
        raise FlawedReport("report/public", int(wrong[0]), f"has no id of {PUBLIC_BYTES} bytes")
    if len(gone := np.flatnonzero(_nulls(payloads))):
        raise FlawedReport("report/scrubbed", int(gone[0]), "was scrubbed: it was counted, and its payload is gone")
    return ids.table(PUBLIC_BYTES)[0], _strings(payloads)


def _nulls(column: pyarrow.Array) -> NDArray[np.bool_]:
    if not column.null_count:
        return np.zeros(len(column), dtype=bool)
    missing: NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return missing


def _strings(column: pyarrow.Array) -> Payloads:
    """A column of byte strings where it lies in memory."""
    import pyarrow

    kind, start, stop = column.type, column.offset, column.offset + len(column)
    if pyarrow.types.is_fixed_size_binary(kind):
        width, data = kind.byte_width, _octets(column.buffers()[1])
        ends = np.arange(start, stop + 1, dtype=np.int64) * width
    else:
        _, offsets, held = column.buffers()
        data, wide = _octets(held), np.int64 if pyarrow.types.is_large_binary(kind) else np.int32
        ends = np.zeros(1, dtype=np.int64) if offsets is None else np.frombuffer(offsets, dtype=wide)[start : stop + 1]
        ends = ends.astype(np.int64)
    return Payloads(data, ends[:-1], ends[1:])


def _octets(buffer: pyarrow.Buffer | None) -> NDArray[np.uint8]:
    return np.zeros(0, dtype=np.uint8) if buffer is None else np.frombuffer(buffer, dtype=np.uint8)
