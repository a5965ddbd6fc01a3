"""Counting reports that add one to a single cell, which follows from the public bytes and the answer.

The public bytes are hashed, the hash picks an index below a bound (``core.public.public_index``), and the report counts
in cell ``index · by_index + answer · by_answer``. Hashing and counting are one loop: while some ids are hashed in
vector registers, the counts of those before them are on their way to memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import ReportError
from keyveil.core.public import public_indices
from keyveil.kernels.backend import kernel
from keyveil.kernels.siphash import AT_ONCE, ROOM, SIP, STEPS, as_pairs, sip_block, sip_state, siphash_pairs

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
Places = tuple[int, ...]
"""``PublicCells`` as plain numbers, for the compiler."""


class PublicCells(NamedTuple):
    """Where reports count: answers are below ``answers``, indices below ``bound``."""

    answers: int
    bound: int
    by_answer: int
    by_index: int

    def add(self, counts: Integers, key: bytes, publics: NDArray[np.uint8], answers: NDArray[Any]) -> None:
        """Add reports to the counts, which must be contiguous.

        Refused if an answer is not one; some of the others may have been counted by then.
        """
        flat = counts.reshape(-1)
        if self.bound == 1:
            add_cells(flat, answers, self.answers)
        elif not _add_public(flat, sip_state(key), as_pairs(publics), answers, tuple(self)):
            raise _refused(self.answers)

    def add_words(self, counts: Integers, words: Words, answers: NDArray[Any]) -> None:
        """The same for public bytes that are hashed already."""
        add_cells(counts.reshape(-1), self.places(words, answers), counts.size)

    def places(self, words: Words, answers: NDArray[Any]) -> Integers:
        """The flat cell in which each report counts."""
        cells = np.asarray(answers, dtype=np.int64) * self.by_answer
        if self.bound > 1:
            cells += public_indices(words, self.bound) * self.by_index
        return cells


def add_cells(counts: Integers, cells: NDArray[Any], bound: int) -> None:
    """Add one to the count of each cell, all of which must be below the bound."""
    if not _add_cells(counts, cells, bound):
        raise _refused(bound)


def _refused(bound: int) -> ReportError:
    return ReportError("report/malformed", f"An answer is a whole number below {bound:,}; another one was given.")


def _add_cells_numpy(counts: Integers, cells: NDArray[Any], bound: int) -> bool:
    if len(cells) and not 0 <= cells.min() <= cells.max() < bound:
        return False
    if len(counts) <= 4 * len(cells):
        counts += np.bincount(cells, minlength=len(counts))
    else:
        np.add.at(counts, cells, 1)
    return True


@kernel(twin=_add_cells_numpy, work=lambda counts, cells, bound: 2 * len(cells))
def _add_cells(counts: Integers, cells: NDArray[Any], bound: int) -> bool:
    largest = np.uint64(0)
    for i in range(len(cells)):
        largest = max(largest, np.uint64(cells[i]))  # negative ones become large
    if len(cells) and largest >= np.uint64(bound):
        return False
    for i in range(len(cells)):
        counts[cells[i]] += 1
    return True


def _add_public_numpy(counts: Integers, start: Words, words: Words, answers: NDArray[Any], places: Places) -> bool:
    below, bound, by_answer, by_index = places
    if len(answers) and not 0 <= answers.min() <= answers.max() < below:
        return False
    cells = public_indices(siphash_pairs.twin(start, words), bound) * by_index
    cells += np.asarray(answers, dtype=np.int64) * by_answer
    return _add_cells_numpy(counts, cells, len(counts))


@kernel(twin=_add_public_numpy, steps=SIP, work=lambda counts, start, words, *rest: STEPS * len(words))
def _add_public(counts: Integers, start: Words, words: Words, answers: NDArray[Any], places: Places) -> bool:
    """A block of ids at a time, whose answers are looked at before they count."""
    below, bound, by_answer, by_index = places
    n = len(words)
    room = np.empty(ROOM, dtype=np.uint64)
    cells = np.empty(AT_ONCE, dtype=np.uint64)
    # All factors are below 2**32, which the mask tells the compiler: products of 32 bits fit vector registers.
    high, low = np.uint64(32), np.uint64(0xFFFF_FFFF)
    scale, step, width = np.uint64(bound) & low, np.uint64(by_index) & low, np.uint64(by_answer) & low
    for first in range(0, n, AT_ONCE):
        some = min(AT_ONCE, n - first)
        sip_block(start, words, first, some, room, cells)
        mine, largest = answers[first : first + some], np.uint64(0)
        for i in range(some):
            index, answer = ((cells[i] >> high) * scale) >> high, np.uint64(mine[i])
            largest = max(largest, answer)  # negative ones become large
            cells[i] = index * step + (answer & low) * width
        if largest >= np.uint64(below):
            return False
        for i in range(some):
            counts[cells[i]] += 1
    return True
