"""Simulated devices in two processes, each with a share of the people: one process computes on one core only.

The processes take orders through a pipe, one after the other, and answer with what came out; in between they tell how
many devices are through.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from keyveil.cli.simulated_devices import THREADS, Cached, Example, Progress, Record, SimulatedDevices
from keyveil.core.errors import KeyveilError
from keyveil.device import HttpTransport

PROCESSES = 2
AT_ONCE = PROCESSES * THREADS  # reports that may be on their way at one time

Order = tuple[str, tuple[Any, ...]]  # a method of SimulatedDevices and what it is given


@dataclass
class DeviceProcesses:
    """People with their records, and the processes whose devices act for them."""

    server: str
    campaign: str
    records: Sequence[Record]
    progress: Progress
    answered: dict[int, list[int]] = field(default_factory=dict)  # round -> who sent a report
    refused: dict[str, int] = field(default_factory=dict)
    example: Example | None = None  # somebody who answered the second round

    def __post_init__(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy locks that other threads hold
        self._pipes, self._processes = list[Connection](), []
        for share in range(PROCESSES):
            ours, theirs = context.Pipe()
            given = (theirs, self.server, self.campaign, self.records[share::PROCESSES])
            process = context.Process(target=_take_orders, args=given, daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def explanation(self) -> str:
        """What every one of them is shown before they agree."""
        texts: list[str] = self._order("explanation")
        return texts[0]

    def first_round(self, enough: int) -> None:
        """Devices run until so many have reported; those of the other part wait for the second round."""
        self._order("first_round", -(-enough // PROCESSES))

    def second_round(self) -> None:
        """Everybody who has not answered yet; then what became of all of them is known."""
        self._order("second_round")

    def close(self) -> None:
        """End the processes: their devices lie in memory."""
        for process in self._processes:
            process.terminate()
            process.join()

    def _order(self, method: str, *given: Any) -> list[Any]:
        """Have every process do something, and wait for all."""
        for pipe in self._pipes:
            pipe.send((method, given))
        results: list[Any] = [None] * PROCESSES
        for share, (result, devices) in self._answers():
            results[share] = result
            for number, people in devices.answered.items():
                self.answered.setdefault(number, []).extend(share + PROCESSES * person for person in people)
            for code, count in devices.refused.items():
                self.refused[code] = self.refused.get(code, 0) + count
            self.example = self.example or devices.example
        return results

    def _answers(self) -> Iterator[tuple[int, tuple[Any, _Seen]]]:
        open_pipes = dict(enumerate(self._pipes))
        while open_pipes:
            for ready in wait(list(open_pipes.values()), timeout=0.05):  # short enough for Ctrl-C to be noticed
                share = next(number for number, pipe in open_pipes.items() if pipe is ready)
                try:
                    told = open_pipes[share].recv()
                except EOFError as reason:
                    raise KeyveilError("demo/devices", "A process of simulated devices has ended.") from reason
                if isinstance(told, int):
                    self.progress(told)
                elif isinstance(told, KeyveilError):
                    raise told
                else:
                    del open_pipes[share]
                    yield share, told


@dataclass(frozen=True)
class _Seen:
    """What became of the people of one process since the last order; ``answered`` counts them within their share."""

    answered: dict[int, list[int]]
    refused: dict[str, int]
    example: Example | None


def _take_orders(pipe: Connection, server: str, campaign: str, records: Sequence[Record]) -> None:
    """What a process does: orders come until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other side is told, and ends this one
    lock = threading.Lock()

    def tell(what: Any) -> None:
        with lock:  # devices run in threads
            pipe.send(what)

    devices = SimulatedDevices(campaign, records, Cached(HttpTransport(server)), tell)
    while True:
        try:
            method, given = pipe.recv()
        except EOFError:
            return
        try:
            result = getattr(devices, method)(*given)
        except KeyveilError as refusal:
            tell(refusal)
            continue
        tell((None if result is None else str(result), _Seen(devices.answered, devices.refused, devices.example)))
        devices.answered, devices.refused, devices.example = {}, {}, None
