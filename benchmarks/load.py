"""A client that costs little itself: prepared requests over connections that stay open, and the time of each answer."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import quantiles

from keyveil.campaign.wire import PACKED


@dataclass
class Outcome:
    """What came back: answers by status, seconds of each request, and reports in those that were acknowledged."""

    seconds: float = 0.0
    reports: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.reports / self.seconds

    def wait(self, percent: int) -> float:
        """Seconds within which so many per cent of the answers came."""
        return quantiles(self.waits, n=100)[percent - 1] if len(self.waits) > 1 else float("nan")


def request(name: str, body: bytes) -> bytes:
    head = (
        f"POST /v1/campaigns/{name}/reports HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: {PACKED}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class _Connection(asyncio.Protocol):
    """One request at a time; answers are recognised by their length."""

    def __init__(self) -> None:
        self._buffer = b""
        self._answer: asyncio.Future[int] | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, reason: Exception | None) -> None:
        self.transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(0)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end].lower()
        length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        if len(self._buffer) >= end + 4 + length and self._answer is not None:
            self._buffer = b""
            self._answer.set_result(int(head[9:12]))

    async def ask(self, data: bytes) -> int:
        """The status of the answer; 0 if the connection broke."""
        if self.transport is None:
            return 0
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(data)
        return await self._answer


def closed_loop(port: int, requests: Iterator[bytes], each: int, connections: int, seconds: float) -> Outcome:
    """As fast as the collector answers: every connection asks again when it has its answer."""
    return asyncio.run(_closed_loop(port, requests, each, connections, seconds))


def open_loop(port: int, requests: Iterator[bytes], each: int, rate: float, seconds: float, most: int) -> Outcome:
    """``rate`` requests a second, whatever the collector says; waits count from when a request was due."""
    return asyncio.run(_open_loop(port, requests, each, rate, seconds, most))


async def _closed_loop(port: int, requests: Iterator[bytes], each: int, connections: int, seconds: float) -> Outcome:
    outcome, end = Outcome(), time.perf_counter() + seconds

    async def ask_on() -> None:
        door = await _connect(port)
        while time.perf_counter() < end:
            begin = time.perf_counter()
            _note(outcome, await door.ask(next(requests)), each, begin)

    begin = time.perf_counter()
    await asyncio.gather(*(ask_on() for _ in range(connections)))
    outcome.seconds = time.perf_counter() - begin
    return outcome


async def _open_loop(
    port: int, requests: Iterator[bytes], each: int, rate: float, seconds: float, most: int
) -> Outcome:
    outcome = Outcome()
    idle: asyncio.LifoQueue[_Connection] = asyncio.LifoQueue()
    for _ in range(most):
        idle.put_nowait(await _connect(port))

    async def ask(due: float) -> None:
        door, data = await idle.get(), next(requests)
        status = await door.ask(data)
        if not status:  # the collector had let an idle connection go, as it may; the same is sent again
            door = await _connect(port)
            status = await door.ask(data)
        _note(outcome, status, each, due)
        idle.put_nowait(door)

    begin = time.perf_counter()
    running = []
    for number in range(int(rate * seconds)):
        due = begin + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        running.append(asyncio.create_task(ask(due)))
    await asyncio.gather(*running)
    outcome.seconds = time.perf_counter() - begin
    return outcome


async def _connect(port: int) -> _Connection:
    _, door = await asyncio.get_running_loop().create_connection(_Connection, "127.0.0.1", port)
    return door


def _note(outcome: Outcome, status: int, each: int, begin: float) -> None:
    outcome.statuses[status] += 1
    outcome.waits.append(time.perf_counter() - begin)
    if status == 200:
        outcome.reports += each
