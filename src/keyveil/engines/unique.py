"""Each report once, in the order of ids, in bounded memory.

Equal bytes under one id count once: whoever copied a file has done no harm. Different bytes under one id stop
everything, since one of the two is no report of that device, and nobody can tell which.

Exports are sorted by id. Sorted files are merged, a block of each in memory; others go into drawers on disk first, by
the leading bits of their ids, and then drawer by drawer.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from keyveil.core.codecs.payloads import Payloads
from keyveil.core.errors import KeyveilError, ReportError
from keyveil.core.report import PUBLIC_BYTES
from keyveil.engines.files import Block, ReportFiles

_LUMP = 1 << 20  # reports that are sorted together, whatever the number of files
_DRAWER = 1 << 20  # reports of a drawer, about
_MOST_DRAWERS = 1 << 10


class Unsorted(Exception):
    """A file whose ids do not rise."""


@dataclass(frozen=True)
class Lump:
    """All reports of a stretch of ids, with their copies. Lumps come in the order of ids.

    To make lumps takes little more than reading; the threads that count them look for copies (``once``).
    """

    blocks: Sequence[Block]
    last: bytes  # no id is larger, and none of a later lump is smaller
    before: Block | None = None  # the last report of the lump before, if copies of it are here

    def once(self, files: ReportFiles) -> Block:
        """Each report once, in any order, without the one before."""
        if self.before is not None:
            return _sorted_once(Block.together([self.before, *self.blocks]), files)[1:]
        block = Block.together(self.blocks)
        leading = np.sort(_leading(block))  # most lumps hold no copies, and numbers are sorted ten times as fast as ids
        return block if (leading[1:] != leading[:-1]).all() else _sorted_once(block, files)


def merged(files: ReportFiles) -> Iterator[Lump]:
    """The reports of sorted files; ``Unsorted`` as soon as one turns out not to be."""
    each = max(_LUMP // max(len(files.paths), 1), 1)  # rows of a file that are taken together with those of others
    streams = [_rising(files.blocks(number, at_most=each)) for number in range(len(files.paths))]
    heads = [_Head(stream, each, rows) for stream in streams if (rows := next(stream, None)) is not None]
    before: Block | None = None
    while heads := [head for head in heads if len(head.rows)]:
        limit = min((head.last for head in heads if not head.ended), default=max(head.last for head in heads))
        taken = [block for head in heads if len(block := head.up_to(limit))]
        # An id may end one block and begin the next one of the same file.
        copies = before is not None and any(block.order[0] == before.order[0] for block in taken)
        yield Lump(taken, limit.ljust(PUBLIC_BYTES, b"\0"), before if copies else None)
        before = next(block[-1:] for block in taken if block.order[-1] == limit)


@dataclass
class _Head:
    """The next rows of a sorted file: ``each`` of them, or more, as long as it has so many."""

    blocks: Iterator[Block]
    each: int
    rows: Block
    ended: bool = False  # no others follow

    @property
    def last(self) -> bytes:
        """The id of the last row, without zeros at its end, as NumPy has it."""
        return bytes(self.rows.order[-1])

    def up_to(self, limit: bytes) -> Block:
        """Take the rows up to an id, and read on."""
        cut = int(np.searchsorted(self.rows.order, limit, side="right"))
        taken, rest = self.rows[:cut], self.rows[cut:]
        if len(rest) < self.each:
            more = next(self.blocks, None)
            self.ended = more is None
            rest = rest if more is None else Block.together([rest, more]) if len(rest) else more
        self.rows = rest
        return taken


def _rising(blocks: Iterator[Block]) -> Iterator[Block]:
    last = b""
    for block in (one for one in blocks if len(one)):
        order = block.order
        if order[0] < last or (order[1:] < order[:-1]).any():
            raise Unsorted
        last = order[-1]
        yield block


def _sorted_once(block: Block, files: ReportFiles) -> Block:
    """Each report of a block once, sorted by id."""
    block = block[np.argsort(block.order, kind="stable")]
    again = np.flatnonzero(block.order[1:] == block.order[:-1]) + 1
    if differing := [row for row in again.tolist() if block.payloads.one(row) != block.payloads.one(row - 1)]:
        raise _contradiction(block, differing, files)
    if not len(again):
        return block
    kept = np.ones(len(block), dtype=bool)
    kept[again] = False
    return block[kept]


def _contradiction(block: Block, rows: list[int], files: ReportFiles) -> KeyveilError:
    """Why nothing is counted if reports in these rows have the ids of those before them, and differ.

    Ids of one file differ: collectors take each only once. Several that do not are ids that were written over.
    """
    damaged = [row for row in rows if block.files[row] == block.files[row - 1]]
    if len(damaged) > 1:
        path, said = files.paths[int(block.files[damaged[0]])], f"{len(damaged):,} of its reports"
        return KeyveilError("input/parquet", f"{path} is a damaged file of reports: {said} have the id of another one.")
    at = rows[0]
    one, other = (files.place(int(block.files[row]), int(block.rows[row])) for row in (at - 1, at))
    both = f"{one} and {other.replace('Report', 'report', 1)}"
    return ReportError("report/twice", f"{both} have the id {block.ids[at].tobytes().hex()} and differ.")


def from_drawers(files: ReportFiles) -> Iterator[Lump]:
    """The reports of files in any order; their bytes lie on disk a second time meanwhile."""
    bits = max((files.reports // _DRAWER).bit_length(), 0)
    count = min(1 << bits, _MOST_DRAWERS)
    try:
        with tempfile.TemporaryDirectory(prefix="keyveil-") as folder:
            drawers = [Drawer(Path(folder) / str(number)) for number in range(count)]
            for number in range(len(files.paths)):
                for block in files.blocks(number):
                    places = (_leading(block) >> np.uint64(48)) * np.uint64(count) >> np.uint64(16)
                    order = np.argsort(places.astype(np.uint16), kind="stable")
                    block, cuts = block[order], np.searchsorted(places[order], np.arange(count + 1))
                    for place in np.flatnonzero(np.diff(cuts)).tolist():
                        drawers[place].put(block[cuts[place] : cuts[place + 1]])
            for place, drawer in enumerate(drawers):
                if drawer.path.exists():
                    last = ((place + 1 << 16) // count - 1).to_bytes(2, "big")
                    yield Lump([drawer.taken_out()], last.ljust(PUBLIC_BYTES, b"\xff"))
    except OSError as reason:
        raise KeyveilError("output/disk", f"The reports cannot be sorted on disk: {reason.strerror}.") from reason


def _leading(block: Block) -> NDArray[np.uint64]:
    """The first eight bytes of every id, as a number that has their order."""
    return np.ascontiguousarray(block.ids[:, :8]).view(">u8")[:, 0].astype(np.uint64)


@dataclass
class Drawer:
    """Reports on disk, in the order in which they came: for each its place, its id, the length of its payload, it."""

    path: Path

    def put(self, block: Block) -> None:
        head = np.zeros(len(block), dtype=_HEAD)
        head["file"], head["row"], head["id"], head["size"] = (
            block.files,
            block.rows,
            block.order,
            block.payloads.lengths,
        )
        with self.path.open("ab") as file, self.path.with_suffix(".payloads").open("ab") as payloads:
            file.write(head.tobytes())
            payloads.write(block.payloads.joined().tobytes())

    def taken_out(self) -> Block:
        head = np.fromfile(self.path, dtype=_HEAD)
        ends = np.concatenate(([0], np.cumsum(head["size"])))
        payloads = self.path.with_suffix(".payloads")
        data = Payloads.end_to_end(payloads.read_bytes(), ends)
        self.path.unlink()
        payloads.unlink()
        ids = np.frombuffer(head["id"].tobytes(), np.uint8).reshape(-1, PUBLIC_BYTES)
        return Block(ids, data, head["file"].copy(), head["row"].copy())


_HEAD = np.dtype([("file", "<i4"), ("row", "<i8"), ("id", f"S{PUBLIC_BYTES}"), ("size", "<i8")])
