"""How many threads share a piece of work, and the pool that they come from.

Kernels and most of NumPy release the interpreter's lock, so that threads run side by side. Work is cut into ranges of
whole blocks; what they give is added up in the order of the ranges, in whole numbers, so that results are the same
whatever the number of threads. Below ``WORTH_IT`` people the work is done by the caller alone: there it takes a few
milliseconds, and other callers (a simulation, an engine, a collector) run several such pieces at once themselves.

The environment variable ``KEYVEIL_THREADS`` says how many threads are used where nobody says it in the code.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import KeyveilError

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

R = TypeVar("R")

WORTH_IT = 400_000  # people; ``keyveil bench --only threads`` shows what two threads gain from there on
_OURS = threading.local()


def available() -> int:
    """The cores that this process may use, or what ``KEYVEIL_THREADS`` says."""
    said = os.environ.get("KEYVEIL_THREADS", "")
    if said:
        if not (said.isascii() and said.isdigit() and len(said) <= 4 and int(said)):
            raise KeyveilError("threads/count", f"KEYVEIL_THREADS is a whole number from 1 to 9999, not {said!r}.")
        return int(said)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_for(people: int, wanted: int | None = None) -> int:
    """The number of threads for so many people: what is wanted, else all cores where it is worth it."""
    if getattr(_OURS, "busy", False):
        return 1  # a thread of the pool must not wait for others of it
    if wanted is not None:
        if wanted < 1:
            raise KeyveilError("threads/count", f"Work needs at least one thread, not {wanted}.")
        return wanted
    return available() if people >= WORTH_IT else 1


def in_ranges(work: Callable[[int, int], R], count: int, block: int, threads: int) -> list[R]:
    """``work(start, stop)`` for ranges of whole blocks that make up [0, count), in order; one range for each thread."""
    blocks = -(-count // block)
    threads = max(1, min(threads, blocks))
    ends = [min(block * (blocks * number // threads), count) for number in range(threads + 1)]
    if threads == 1:
        return [work(0, count)]
    pool = _pool(threads - 1, os.getpid())  # the caller does its share
    others = [pool.submit(_in_pool, work, ends[number], ends[number + 1]) for number in range(1, threads)]
    try:
        first = work(ends[0], ends[1])
    finally:
        answers = [other.exception() or other.result() for other in others]
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [first, *answers]  # type: ignore[list-item]  # none of them is an exception


def sum_in_parts(
    work: Callable[[int, int], NDArray[np.int64]], count: int, width: int, threads: int, block: int = 1
) -> NDArray[np.int64]:
    """The sum of ``work(start, stop)``, arrays of whole numbers and of one width, over ranges of [0, count)."""
    total = np.zeros(width, dtype=np.int64)
    for part in in_ranges(work, count, block, threads):
        total += part
    return total


def small_parts(counts: NDArray[np.int64]) -> list[tuple[NDArray[np.uint32], int]]:
    """Counts, none of them negative, as sums of small ones times a weight: sums of each over all rows fit 32 bits.

    One part is enough unless there are 2³² reports.
    """
    if len(counts) == 0 or int(counts.sum()) < 1 << 32:
        return [(counts.astype(np.uint32), 1)]
    bits = 31 - len(counts).bit_length()
    parts, weight = [], 1
    while counts.any():
        parts.append(((counts & (1 << bits) - 1).astype(np.uint32), weight))
        counts, weight = counts >> bits, weight << bits
    return parts


def _in_pool(work: Callable[[int, int], R], start: int, stop: int) -> R:
    _OURS.busy = True
    return work(start, stop)


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """A pool for each number of threads; a process made by fork has pools of its own."""
    from concurrent.futures import ThreadPoolExecutor  # brings in much that a device never needs

    return ThreadPoolExecutor(threads, thread_name_prefix="keyveil-kernels")
