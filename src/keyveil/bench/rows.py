"""The rows of the benchmark: races between a contestant and its rival, and what comes out of them.

Both sides of a race run in turns, so that a change of the machine's speed meets both, and the best time of each is
compared. Time is the processor time of the whole process, so further cores do not help; a race about threads says
``clock=perf_counter``. A ratio is always "larger is better": a limit of 200 µs is a rival that takes 200 µs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from time import process_time
from typing import Any

Side = Callable[[], object]


@dataclass(frozen=True)
class Race:
    """How often ``contestant`` finishes while ``rival`` runs once.

    A rival that is a number is a time in seconds that was agreed or measured elsewhere.
    """

    contestant: Side
    rival: Side | float
    reports: int = 0  # that the contestant handles, if a rate makes sense
    rivals_share: float = 1.0  # of that work which the rival does
    clock: Callable[[], float] = process_time


@dataclass(frozen=True)
class Ratio:
    """The outcome of a race; a goal of ``None`` is for information."""

    name: str
    ratio: float
    against: str
    goal: float | None
    reports_per_second: float | None = None

    @property
    def verdict(self) -> str | None:
        """Whether the goal is met; ``None`` where there is no goal."""
        if self.goal is None:
            return None
        return "met" if self.ratio >= self.goal else "missed"

    def document(self) -> dict[str, Any]:
        """The row as JSON."""
        return {**asdict(self), "verdict": self.verdict}


@dataclass(frozen=True)
class Benchmark:
    """A race by name; ``prepare`` is told whether to be quick."""

    name: str
    against: str
    goal: float | None
    prepare: Callable[[bool], Race]


REGISTRY: list[Benchmark] = []


def benchmark(
    name: str, *, against: str, goal: float | None = None
) -> Callable[[Callable[[bool], Race]], Callable[[bool], Race]]:
    """Register a function that prepares a race, smaller when it is asked to be quick."""

    def register(prepare: Callable[[bool], Race]) -> Callable[[bool], Race]:
        REGISTRY.append(Benchmark(name, against, goal, prepare))
        return prepare

    return register


def run(quick: bool = False, only: str = "") -> Iterator[Ratio]:
    """Run the registered benchmarks whose name contains ``only``, one after the other."""
    for entry in REGISTRY:
        if only in entry.name:
            yield measured(entry, quick)


def measured(entry: Benchmark, quick: bool) -> Ratio:
    """The outcome of one race."""
    race = entry.prepare(quick)
    mine, theirs = seconds_of_both(race, 3 if quick else 7)
    rate = round(race.reports / mine) if race.reports else None
    return Ratio(entry.name, rounded(theirs / race.rivals_share / mine), entry.against, entry.goal, rate)


def rounded(ratio: float) -> float:
    """Two decimals, and three digits of what is smaller than that."""
    return round(ratio, 2) if ratio >= 1 else float(f"{ratio:.3g}")


def seconds_of_both(race: Race, repeats: int) -> tuple[float, float]:
    """The best time of the contestant and of its rival, measured by turns."""
    rival = race.rival
    race.contestant()  # compiles
    if isinstance(rival, int | float):
        return min(seconds(race.contestant, race.clock) for _ in range(repeats)), float(rival)
    rival()
    turns = [(seconds(race.contestant, race.clock), seconds(rival, race.clock)) for _ in range(repeats)]
    mine, theirs = zip(*turns, strict=True)
    return min(mine), min(theirs)


def seconds(side: Side, clock: Callable[[], float] = process_time) -> float:
    """How long one call takes, never zero."""
    start = clock()
    side()
    return max(clock() - start, 1e-9)
