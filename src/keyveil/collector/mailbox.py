"""Outcomes on their way from another thread to the event loop, many in one call."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class Mailbox(Generic[T]):
    """Waits for futures of other threads, for one event loop.

    To wake the loop costs more than to hand an outcome over. A commit settles many uploads one after the other, so the
    loop is woken for the first of them, and takes all that are there by the time it looks.
    """

    def __init__(self) -> None:
        self._arrived: deque[tuple[asyncio.Future[T], Future[T]]] = deque()
        self._rung = False  # the loop was woken and has not looked yet

    def outcome(self, done: Future[T]) -> asyncio.Future[T]:
        """What ``done`` will give, for a coroutine to await. Nothing happens to ``done`` if that is cancelled."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def settled(_: Future[T]) -> None:
            self._arrived.append((answer, done))
            if not self._rung:
                self._rung = True
                loop.call_soon_threadsafe(self._hand_out)

        done.add_done_callback(settled)
        return answer

    def _hand_out(self) -> None:
        self._rung = False  # before looking: what comes from now on rings again
        while self._arrived:
            answer, done = self._arrived.popleft()
            if answer.done():
                continue  # nobody waits for it any more
            reason = done.exception()
            if reason is None:
                answer.set_result(done.result())
            else:
                answer.set_exception(reason)
