"""A registry of races between a contestant and its rival, and the table of their ratios.

Both sides of a race run in turns, so that a change of the machine's mood meets both, and the medians are compared.
Time is the processor time of the calling thread: other work on the machine does not count, nor do further cores help.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from statistics import median
from time import thread_time
from typing import Any

Side = Callable[[], object]


@dataclass(frozen=True)
class Race:
    """How often ``contestant`` finishes while ``rival`` runs once."""

    contestant: Side
    rival: Side
    reports: int = 0  # that the contestant handles, if a rate makes sense
    rivals_share: float = 1.0  # of that work which the rival does


@dataclass(frozen=True)
class Ratio:
    """The outcome of a race; a goal of ``None`` is for information."""

    name: str
    ratio: float
    against: str
    goal: float | None
    reports_per_second: float | None = None


@dataclass(frozen=True)
class Benchmark:
    name: str
    against: str
    goal: float | None
    prepare: Callable[[bool], Race]  # given whether to be quick


REGISTRY: list[Benchmark] = []


def benchmark(
    name: str, *, against: str, goal: float | None = None
) -> Callable[[Callable[[bool], Race]], Callable[[bool], Race]]:
    """Register a function that prepares a race, smaller when it is asked to be quick."""

    def register(prepare: Callable[[bool], Race]) -> Callable[[bool], Race]:
        REGISTRY.append(Benchmark(name, against, goal, prepare))
        return prepare

    return register


def run(quick: bool = False) -> Iterator[Ratio]:
    """Run all registered benchmarks, one after the other."""
    for entry in REGISTRY:
        race = entry.prepare(quick)
        mine, theirs = _seconds_of_both(race, 3 if quick else 7)
        rate = round(race.reports / mine) if race.reports else None
        yield Ratio(entry.name, round(theirs / race.rivals_share / mine, 2), entry.against, entry.goal, rate)


def results(ratios: list[Ratio]) -> dict[str, Any]:
    """What ``--json`` prints."""
    return {"machine": machine(), "ratios": [asdict(ratio) for ratio in ratios]}


def machine() -> str:
    """The processor and the Python that the ratios belong to."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass  # not Linux
    return f"{name}, one thread, Python {platform.python_version()}"


def _seconds_of_both(race: Race, repeats: int) -> tuple[float, float]:
    race.contestant()  # compiles
    race.rival()
    turns = [(_seconds(race.contestant), _seconds(race.rival)) for _ in range(repeats)]
    mine, theirs = zip(*turns, strict=True)
    return median(mine), median(theirs)


def _seconds(side: Side) -> float:
    start = thread_time()
    side()
    return thread_time() - start
