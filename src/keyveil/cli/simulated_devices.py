"""Thousands of devices of people in a simulation: real ones, each with a vault in memory, reporting over HTTP.

A few threads share the people among them; a device stays in its thread. Not everybody is there when the first round
is open: devices come by one after another until the round has enough, and the others meet the campaign in the second.
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

THREADS = 6  # enough to keep the collector's disk busy while others compute
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
class Witness:
    """One person of the crowd, whose books are shown to everybody."""

    record: Record
    outcome: Outcome
    ledger: tuple[LedgerEntry, ...]
    spent: tuple[str, ...]
    payload: bytes


@dataclass
class Crowd:
    """People with their records, and the devices that act for them."""

    campaign: str
    records: Sequence[Record]
    transport: Cached
    progress: Progress
    answered: dict[int, list[int]] = field(default_factory=dict)  # round -> who sent a report
    refused: dict[str, int] = field(default_factory=dict)
    witness: Witness | None = None  # somebody who answered the second round

    def __post_init__(self) -> None:
        self._shown: Explanation | None = None
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._pools = [ThreadPoolExecutor(1) for _ in range(THREADS)]
        self._waiting: list[dict[int, Device]] = [{} for _ in range(THREADS)]
        self._next = list(range(THREADS))  # the first person of each thread who has not come by yet

    def explanation(self) -> Explanation:
        """What every one of them is shown before they agree."""
        with self._device() as device:
            self._shown = device.explain(self.campaign)
            return self._shown

    def first_round(self, enough: int) -> None:
        """People come by until so many have reported; those who are not asked now wait for the second round."""
        self._in_threads(lambda thread: self._come_by(thread, enough))

    def second_round(self) -> None:
        """Everybody who has not answered yet, those who waited first."""
        self._in_threads(self._go_on)

    def close(self) -> None:
        """Let everything go; threads stop after the report that they are at."""
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
        """Let a person's device answer the open round, if that asks it; whether it did."""
        outcome = device.report(self.campaign, self.records[person])
        with self._lock:
            if outcome.state == "sent":
                self.answered.setdefault(outcome.round or 0, []).append(person)
            elif outcome.state not in ("not-asked", "closed"):
                code = outcome.code or outcome.state
                self.refused[code] = self.refused.get(code, 0) + 1
            seen = self.witness is not None
        if outcome.state == "sent" and outcome.round == 2 and not seen and len(self.records[person]) > 1:
            self.witness = _witness(self.records[person], outcome, device)
        self.progress(1)
        return outcome.state == "sent"

    def _reports(self, number: int) -> int:
        with self._lock:
            return len(self.answered.get(number, ()))

    def _device(self) -> Device:
        return Device(":memory:", self.transport, patience=Patience(tries=3, first=0.2))

    def _agreed(self) -> Device:
        if self._shown is None:
            raise KeyveilError("demo/consent", "Nobody was shown what is asked.")
        device = self._device()
        device.consent(self.campaign, self._shown)
        return device

    def _let_go(self, thread: int) -> None:
        while self._waiting[thread]:
            self._waiting[thread].popitem()[1].close()


def _witness(record: Record, outcome: Outcome, device: Device) -> Witness:
    books = json.loads(device.export())
    payload = bytes.fromhex(books["entries"][-1]["payload"])
    return Witness(record, outcome, tuple(device.ledger()), tuple(map(str, device.spent())), payload)


def records_of(population: Any) -> list[dict[str, float]]:
    """The records of a population with named keys, one for each person."""
    names, ends = population.names, population.offsets.tolist()
    keys, values = population.keys.tolist(), population.values.tolist()
    return [{names[keys[at]]: values[at] for at in range(start, stop)} for start, stop in pairwise(ends)]
