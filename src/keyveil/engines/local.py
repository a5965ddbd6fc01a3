"""Reports in files become the tally of one round on this machine: every core, streamed block by block.

A run that was interrupted goes on where it was: reports are counted in the order of their ids, so what is done is said
by a tally and an id.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from keyveil.campaign.rounds import RoundDocument
from keyveil.core.tally import Tally
from keyveil.engines.checkpoint import Checkpoint, Done
from keyveil.engines.files import ReportFiles
from keyveil.engines.fold import FlawedReport, Fold
from keyveil.engines.unique import Lump, Unsorted, from_drawers, merged

_KEPT_EVERY = 10.0  # seconds between two notes of what is done

Progress = Callable[[int, int], None]
"""Hears how many reports are done, and how many rows there are."""


@dataclass(frozen=True)
class Counted:
    """A tally, and what was seen on the way."""

    tally: Tally
    files: int
    read: int  # rows
    resumed: int = 0  # reports that an earlier run had counted

    @property
    def copies(self) -> int:
        """Rows that were there already, byte for byte."""
        return self.read - self.tally.reports


def count(
    path: Path,
    document: RoundDocument,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    checkpoint: Path | None = None,
    kind: type[Fold] = Fold,
) -> Counted:
    """The tally of a file or folder of reports; refused as a whole if one of them is malformed or misplaced.

    ``checkpoint`` is a file that keeps what is done for a later run. ``kind`` says what is counted: the tally, or its
    sketch.
    """
    files, fold = ReportFiles.at(path, document), kind(document)
    kept = None if checkpoint is None else Checkpoint.of(checkpoint, files, document)
    done = Done(fold.empty) if kept is None else kept.read(fold.empty)
    run = _Run(files, fold, threads or os.cpu_count() or 1, progress or (lambda done, rows: None), kept)
    try:
        tally = run.over(merged(files) if done.merged else from_drawers(files), done)
    except Unsorted:
        done = Done(fold.empty, merged=False)  # a row further on may have an id that seemed to be done
        if kept is not None:
            kept.write(done)
        tally = run.over(from_drawers(files), done)
    if kept is not None:
        kept.forget()
    return Counted(tally, len(files.paths), files.reports, done.tally.reports)


@dataclass(frozen=True)
class _Run:
    files: ReportFiles
    fold: Fold
    threads: int
    progress: Progress
    kept: Checkpoint | None

    def over(self, lumps: Iterator[Lump], done: Done) -> Tally:
        """Count what comes behind the last id that is done. Kernels release the GIL, so threads share the work."""
        self.progress(done.tally.reports, self.files.reports)
        waiting: deque[tuple[bytes, Future[Tally]]] = deque()
        noted, begin = time.monotonic(), done.last
        with ThreadPoolExecutor(self.threads) as pool:
            for lump in lumps:
                if lump.last < begin:
                    continue
                waiting.append((lump.last, pool.submit(self._counted, lump, begin)))
                if len(waiting) > self.threads + 1:
                    done = self._added(done, *waiting.popleft())
                if self.kept is not None and time.monotonic() > noted + _KEPT_EVERY:
                    self.kept.write(done)
                    noted = time.monotonic()
            while waiting:
                done = self._added(done, *waiting.popleft())
        return done.tally

    def _added(self, done: Done, last: bytes, counted: Future[Tally]) -> Done:
        total = done.tally + counted.result()
        self.progress(total.reports, self.files.reports)
        return replace(done, tally=total, last=last)

    def _counted(self, lump: Lump, begin: bytes) -> Tally:
        """The tally of the reports of a lump behind an id."""
        block = lump.once(self.files)
        if begin:
            block = block[block.order > begin]
        try:
            return self.fold.count(block.ids, block.payloads)
        except FlawedReport as flaw:
            place = self.files.place(int(block.files[flaw.row]), int(block.rows[flaw.row]))
            raise flaw.at(place) from None
