"""Thousands of devices for simulated people: real ``Device`` objects with files in memory, reporting over HTTP.

A few threads divide the people among them; a device stays in its thread. Not everybody takes part in the first round:
devices report one after another until it has enough, and the others see the campaign only in the second.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from keyveil.campaign.transport import NO_HEADERS
from keyveil.core.errors import KeyveilError
from keyveil.device import Device, Explanation, HttpAnswer, LedgerEntry, Outcome, Patience, Transport

THREADS = 12  # some wait for the collector's disk while others compute; what arrives together is stored together
Record = Mapping[str, float]
Progress = Callable[[int], None]

_AGE = re.compile(r"max-age=(\d+)")


class Cached:
    """A transport behind a cache, as a proxy near many devices would be: documents are fetched now and then."""

    def __init__(self, transport: Transport) -> None:
        self._transport, self._known, self._lock = transport, dict[str, tuple[float, HttpAnswer]](), threading.Lock()

    def request(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS) -> HttpAnswer:
        if method != "GET":
            return self._transport.request(method, path, body, headers)
        with self._lock:
            until, answer = self._known.get(path, (0.0, None))
        if answer is None or time.monotonic() > until:
            answer = self._transport.request(method, path, body, headers)
            age = _AGE.search(answer.headers.get("cache-control", ""))
            with self._lock:
                self._known[path] = time.monotonic() + (int(age[1]) if age else 0), answer
        return answer

    def empty(self) -> None:
        with self._lock:
            self._known.clear()


@dataclass(frozen=True)
class Example:
    """One person whose record, report and ledger the demo shows."""

    record: Record
    outcome: Outcome
    ledger: tuple[LedgerEntry, ...]
    spent: tuple[str, ...]
    payload: bytes


@dataclass
class SimulatedDevices:
    """People with their records, and the devices that act for them."""

    campaign: str
    records: Sequence[Record]
    transport: Cached
    progress: Progress
    answered: dict[int, list[int]] = field(default_factory=dict)  # round -> who sent a report
    refused: dict[str, int] = field(default_factory=dict)
    example: Example | None = None  # somebody who answered the second round

    def __post_init__(self) -> None:
        self._shown: Explanation | None = None
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._pools = [ThreadPoolExecutor(1) for _ in range(THREADS)]
        self._waiting: list[dict[int, Device]] = [{} for _ in range(THREADS)]
        self._next = list(range(THREADS))  # for each thread, the first person whose device has not run yet

    def explanation(self) -> Explanation:
        """What every one of them is shown before they agree."""
        with self._device() as device:
            self._shown = device.explain(self.campaign)
            return self._shown

    def first_round(self, enough: int) -> None:
        """Devices run until so many have reported; those of the other part wait for the second round."""
        self._in_threads(lambda thread: self._come_by(thread, enough))

    def second_round(self) -> None:
        """Everybody who has not answered yet, those who waited first."""
        self.transport.empty()
        self._in_threads(self._go_on)

    def close(self) -> None:
        """Stop: each thread ends after its present report."""
        self._stop.set()
        for thread, pool in enumerate(self._pools):
            pool.submit(self._let_go, thread)
            pool.shutdown(wait=True)

    def _in_threads(self, work: Callable[[int], None]) -> None:
        running: list[Future[None]] = [pool.submit(work, thread) for thread, pool in enumerate(self._pools)]
        try:
            while not all(one.done() for one in running):
                if failed := [one for one in running if one.done() and one.exception()]:
                    failed[0].result()
                time.sleep(0.05)  # short enough for Ctrl-C to be noticed at once
            for one in running:
                one.result()
        except BaseException:
            self._stop.set()
            raise

    def _come_by(self, thread: int, enough: int) -> None:
        while self._next[thread] < len(self.records) and not self._stop.is_set() and self._reports(1) < enough:
            person = self._next[thread]
            self._next[thread] += THREADS
            device = self._agreed()
            if self._report(person, device):
                device.close()
            else:
                self._waiting[thread][person] = device

    def _go_on(self, thread: int) -> None:
        for person, device in self._waiting[thread].items():
            if self._stop.is_set():
                return
            self._report(person, device)
        self._let_go(thread)
        for person in range(self._next[thread], len(self.records), THREADS):
            if self._stop.is_set():
                return
            with self._agreed() as device:
                self._report(person, device)

    def _report(self, person: int, device: Device) -> bool:
        """Let a person's device answer the open round if it is for them; returns whether it sent a report."""
        outcome = device.report(self.campaign, self.records[person])
        with self._lock:
            if outcome.state == "sent":
                self.answered.setdefault(outcome.round or 0, []).append(person)
            elif outcome.state not in ("not-asked", "closed", "between"):
                code = outcome.code or outcome.state
                self.refused[code] = self.refused.get(code, 0) + 1
            seen = self.example is not None
        if outcome.state == "sent" and outcome.round == 2 and not seen and len(self.records[person]) > 1:
            self.example = _example(self.records[person], outcome, device)
        self.progress(1)
        return outcome.state == "sent"

    def _reports(self, number: int) -> int:
        with self._lock:
            return len(self.answered.get(number, ()))

    def _device(self) -> Device:
        return Device(":memory:", self.transport, patience=Patience(tries=3, first=0.2, pace=0))

    def _agreed(self) -> Device:
        if self._shown is None:
            raise KeyveilError("demo/consent", "Nobody was shown what is asked.")
        device = self._device()
        device.consent(self.campaign, self._shown)
        return device

    def _let_go(self, thread: int) -> None:
        while self._waiting[thread]:
            self._waiting[thread].popitem()[1].close()


def _example(record: Record, outcome: Outcome, device: Device) -> Example:
    exported = json.loads(device.export())
    payload = bytes.fromhex(exported["entries"][-1]["payload"])
    return Example(record, outcome, tuple(device.ledger()), tuple(map(str, device.spent())), payload)


def records_of(population: Any) -> list[dict[str, float]]:
    """The records of a population with named keys, one for each person."""
    names, ends = population.names, population.offsets.tolist()
    keys, values = population.keys.tolist(), population.values.tolist()
    return [{names[keys[at]]: values[at] for at in range(start, stop)} for start, stop in pairwise(ends)]
