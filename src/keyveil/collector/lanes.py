"""Threads for work that would block the server, handed out fairly (``queueing``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from keyveil.collector.queueing import FairQueue

T = TypeVar("T")


class Lane:
    """So many threads, for one event loop; whoever finds none free waits in a fair queue."""

    def __init__(self, threads: int) -> None:
        self._free = threads
        self._limiter = CapacityLimiter(threads)
        self._queue: FairQueue[asyncio.Future[None]] = FairQueue()

    @property
    def waiting(self) -> int:
        """Steps that wait for a thread."""
        return len(self._queue)

    async def run(self, flow: Hashable, work: float, step: Callable[[], T]) -> T:
        """Do a step of so much work in a thread."""
        if self._free:
            self._free -= 1
        else:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._queue.put(flow, work, turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():  # it had its turn, which now goes to the next
                    self._hand_on()
                raise
        try:
            return await to_thread.run_sync(step, limiter=self._limiter)
        finally:
            self._hand_on()

    def _hand_on(self) -> None:
        while self._queue:
            turn = self._queue.take()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
