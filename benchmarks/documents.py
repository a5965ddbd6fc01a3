"""How long a device reads the hardest documents that were found, against the second that its limit stands for.

What limits the work on a document is a count of units (``core.work``), the same on every machine. The rate says how
many units a second this machine does, and the ratio how many times the slowest of the documents fits into a second.
"""

from __future__ import annotations

from time import thread_time

from benchmarks.runner import Race, benchmark
from tests.device.hard_documents import HARD, read


@benchmark("hard-documents", against="a second, for the slowest document that a device reads", goal=0.5)
def hard_documents(quick: bool) -> Race:
    """One document at a time; every call has new numbers, so nothing was computed before."""
    timed = {number: _seconds(number) for number in range(len(HARD))}
    slowest = max(timed, key=lambda number: timed[number])
    units, _ = read(*HARD[slowest])
    share = 0.1 if quick else 1.0
    return Race(lambda: read(*HARD[slowest]), lambda: _wait(share), reports=units, rivals_share=share)


def _seconds(number: int) -> float:
    began = thread_time()
    read(*HARD[number])
    return thread_time() - began


def _wait(seconds: float) -> None:
    """Keeps the processor busy for so long."""
    until = thread_time() + seconds
    while thread_time() < until:
        pass
