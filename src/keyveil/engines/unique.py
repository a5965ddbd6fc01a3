"""Each report once, in the order of ids, in bounded memory.

Equal bytes under one id count once: whoever copied a file has done no harm. Different bytes under one id stop
everything, since one of the two is no report of that device, and nobody can tell which.

Exports are sorted by id. Sorted files are merged, a block of each in memory; others go into drawers on disk first, by
the leading bits of their ids, and then drawer by drawer.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keyveil.core.codecs.payloads import Payloads
from keyveil.core.errors import KeyveilError, ReportError
from keyveil.core.report import PUBLIC_BYTES
from keyveil.engines.files import Block, ReportFiles

_LUMP = 1 << 20  # reports that are sorted together, whatever the number of files
_DRAWER = 1 << 20  # reports of a drawer, about
_MOST_DRAWERS = 1 << 10


class Unsorted(Exception):
    """A file whose ids do not rise."""


def merged(files: ReportFiles) -> Iterator[Block]:
    """The reports of sorted files; ``Unsorted`` as soon as one turns out not to be."""
    each = max(_LUMP // max(len(files.paths), 1), 1)  # rows of a file that are sorted together with those of others
    streams = [_rising(files.blocks(number, at_most=each)) for number in range(len(files.paths))]
    heads = [(block, stream) for stream in streams if (block := next(stream, None)) is not None]
    last: Block | None = None
    while heads:
        limit = min(block.order[:each][-1] for block, _ in heads)
        taken, left = [], []
        for block, stream in heads:
            cut = int(np.searchsorted(block.order, limit, side="right"))
            taken += [block[:cut]] if cut else []
            rest: Block | None = block[cut:] if cut < len(block) else None
            if len(block) - cut < each and (more := next(stream, None)) is not None:
                rest = more if rest is None else Block.together([rest, more])
            if rest is not None:
                left.append((rest, stream))
        heads = left
        # An id may end one block and begin the next one of the same file.
        again = [] if last is None or all(block.order[0] > last.order[0] for block in taken) else [last]
        found = _once(Block.together([*again, *taken]), files)[len(again) :]
        if len(found):
            last = found[-1:]
            yield found


def _rising(blocks: Iterator[Block]) -> Iterator[Block]:
    last = b""
    for block in (one for one in blocks if len(one)):
        order = block.order
        if order[0] < last or (order[1:] < order[:-1]).any():
            raise Unsorted
        last = order[-1]
        yield block


def _once(block: Block, files: ReportFiles) -> Block:
    """Each report of a block once, sorted by id."""
    order = block.order
    if (order[1:] > order[:-1]).all():
        return block
    block = block[np.argsort(order, kind="stable")]
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


def from_drawers(files: ReportFiles) -> Iterator[Block]:
    """The reports of files in any order; their bytes lie on disk a second time meanwhile."""
    bits = max((files.reports // _DRAWER).bit_length(), 0)
    count = min(1 << bits, _MOST_DRAWERS)
    try:
        with tempfile.TemporaryDirectory(prefix="keyveil-") as folder:
            drawers = [Drawer(Path(folder) / str(number)) for number in range(count)]
            for number in range(len(files.paths)):
                for block in files.blocks(number):
                    places = _leading(block) * count >> 16
                    for place in np.unique(places).tolist():
                        drawers[place].put(block[places == place])
            for drawer in drawers:
                if drawer.path.exists():
                    yield _once(drawer.taken_out(), files)
    except OSError as reason:
        raise KeyveilError("output/disk", f"The reports cannot be sorted on disk: {reason.strerror}.") from reason


def _leading(block: Block) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The first two bytes of every id, as a number."""
    return block.ids[:, 0].astype(np.int64) << 8 | block.ids[:, 1]


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
            payloads.write(b"".join(block.payloads.one(row) for row in range(len(block))))

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
