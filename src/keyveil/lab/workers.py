"""Jobs shared out among processes. Numbers depend on the job alone, so how many there are changes none of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TypeVar

from keyveil.core.errors import KeyveilError

Outcome = TypeVar("Outcome")


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def outcomes(
    work: Callable[..., Outcome],
    jobs: Sequence[tuple[object, ...]],
    processes: int,
    prepare: Callable[[], None] | None = None,
) -> Iterator[Outcome]:
    """``work`` of every job, in whatever order they are finished; ``prepare`` is called once in every process."""
    if processes == 1 or len(jobs) < 2:
        for job in jobs:
            yield work(*job)
        return
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_begin, initargs=(prepare,))
    with pool:
        waiting = {pool.submit(work, *job) for job in jobs}
        try:
            while waiting:
                ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for one in ready:
                    yield one.result()
        except BrokenProcessPool as reason:
            raise KeyveilError(
                "lab/process",
                "A process ended before its cell was finished, perhaps for lack of memory; finished cells are kept: go "
                "on with fewer processes.",
            ) from reason
        finally:
            for one in waiting:
                one.cancel()


def _begin(prepare: Callable[[], None] | None) -> None:
    """A worker leaves Ctrl-C to the main process, which keeps what is finished."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if prepare is not None:
        prepare()
