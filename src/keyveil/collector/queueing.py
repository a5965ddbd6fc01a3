"""Who is next: small pieces of work before large ones, and every campaign its share.

A queue without identities: nothing is known of who sent something, so the work decides. Campaigns take turns by the
work that was done for them. Within a campaign the next piece is the one that would be finished first if all that wait
were worked on at once, each at the same speed (processor sharing). So a small upload overtakes large ones, and a large
one is not put off for ever: it is finished no later than if it had its equal share all the time.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class _Flow(Generic[T]):
    """The items of one campaign that wait."""

    turn: float  # work done for it, never less than what other flows had had when it came
    share: float = 0.0  # work that each item would have had since the flow began, if all were worked on at once
    due: list[float] = field(default_factory=list)  # shares at which the unfinished ones would then be finished
    waiting: list[tuple[float, int, float, T]] = field(default_factory=list)  # the same, of those not taken yet

    def work(self, work: float) -> None:
        """Let so much work pass, shared among all that would be unfinished."""
        self.turn += work
        while self.due and work > 0:
            step = min(work, (self.due[0] - self.share) * len(self.due))
            self.share += step / len(self.due)
            work -= step
            if work > 0:  # the first of them is finished
                self.share = heapq.heappop(self.due)


class FairQueue(Generic[T]):
    """Items by flow, each with its work in whatever unit; not safe for threads by itself."""

    def __init__(self) -> None:
        self._flows: dict[Hashable, _Flow[T]] = {}
        self._now = 0.0  # the turn of the flow that was served last
        self._numbers = count()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put(self, flow: Hashable, work: float, item: T) -> None:
        place = self._flows.setdefault(flow, _Flow(self._now))
        heapq.heappush(place.due, place.share + work)
        heapq.heappush(place.waiting, (place.share + work, next(self._numbers), work, item))
        self._size += 1

    def peek(self) -> T:
        """The item that ``take`` would give."""
        return self._flows[self._next()].waiting[0][-1]

    def take(self) -> T:
        name = self._next()
        flow = self._flows[name]
        _, _, work, item = heapq.heappop(flow.waiting)
        self._now = flow.turn
        flow.work(work)
        self._size -= 1
        if not flow.waiting:
            del self._flows[name]
        return item

    def _next(self) -> Hashable:
        if len(self._flows) == 1:  # as almost always
            return next(iter(self._flows))
        return min(self._flows, key=lambda name: (self._flows[name].turn, self._flows[name].waiting[0][1]))
