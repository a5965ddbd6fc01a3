"""Simulated devices in two processes, each with a share of the people: one process computes on one core only.

The processes take orders through a pipe, one after the other, and answer with what came out; in between they tell how
many devices are through. They load their modules while the collector does, and hear of it and of their people later.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from keyveil.cli.simulated_devices import THREADS, Cached, Example, Progress, Record, SimulatedDevices
from keyveil.core.errors import KeyveilError
from keyveil.device import HttpTransport

PROCESSES = 2
AT_ONCE = PROCESSES * THREADS  # reports that may be on their way at one time
_TOLD = 0.1  # seconds between two messages on how far a process is

Order = tuple[str, tuple[Any, ...]]  # a method of SimulatedDevices and what it is given


def _silent(_: int) -> None:
    pass


@dataclass
class DeviceProcesses:
    """The processes, and what became of the people whose devices act in them."""

    progress: Progress = _silent
    answered: dict[int, list[int]] = field(default_factory=dict)  # round -> who sent a report
    refused: dict[str, int] = field(default_factory=dict)
    example: Example | None = None  # somebody who answered the second round

    def __post_init__(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy locks that other threads hold
        self._pipes, self._processes = list[Connection](), []
        for _ in range(PROCESSES):
            ours, theirs = context.Pipe()
            process = context.Process(target=_take_orders, args=(theirs,), daemon=True)
            with _uninterrupted():
                process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def begin(self, server: str, campaign: str, records: Sequence[Record]) -> None:
        """Give every process its share of the people."""
        for share, pipe in enumerate(self._pipes):
            pipe.send((server, campaign, records[share::PROCESSES]))

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
        while self._processes:
            process = self._processes.pop()
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


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """While a process starts that is to ignore Ctrl-C: this one hears of it, and ends the other."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass
class _Counted:
    """How many devices are through, told now and then: a message for each would cost as much as a report."""

    pipe: Connection
    _count: int = 0
    _last: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, devices: int) -> None:
        with self._lock:  # devices run in threads
            self._count += devices
            if time.monotonic() > self._last + _TOLD:
                self._tell()

    def answer(self, what: Any) -> None:
        """Say what came out of an order; all who took part in it are counted before."""
        with self._lock:
            self._tell()
            self.pipe.send(what)

    def _tell(self) -> None:
        self.pipe.send(self._count)
        self._count, self._last = 0, time.monotonic()


def _take_orders(pipe: Connection) -> None:
    """What a process does: it is given people, and orders come until the pipe is closed."""
    counted = _Counted(pipe)
    try:
        server, campaign, records = pipe.recv()
        devices = SimulatedDevices(campaign, records, Cached(HttpTransport(server)), counted)
        while True:
            method, given = pipe.recv()
            try:
                result = getattr(devices, method)(*given)
            except KeyveilError as refusal:
                counted.answer(refusal)
                continue
            seen = _Seen(devices.answered, devices.refused, devices.example)
            counted.answer((None if result is None else str(result), seen))
            devices.answered, devices.refused, devices.example = {}, {}, None
    except EOFError:
        return
