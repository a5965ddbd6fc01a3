"""Estimates for pages, remembered: people sort, search and turn pages, and nothing has changed in between."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from keyveil.collector.service import Service
from keyveil.core.estimates import Estimates

MOST_REMEMBERED = 32

T = TypeVar("T")


@dataclass
class Results:
    """What was computed for campaigns as they are; a count that moved on makes it anew."""

    service: Service
    _kept: OrderedDict[Hashable, Any] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def estimates(
        self,
        name: str,
        postprocess: str | None = None,
        confidence: float = 0.95,
        round: int | None = None,
        attackers: int | None = None,
    ) -> Estimates:
        """As ``Service.estimates`` gives them."""
        wanted = round, postprocess, confidence, attackers
        return self.remembered(name, ("estimates", *wanted), lambda: self.service.estimates(name, *wanted))

    def remembered(self, name: str, what: Hashable, make: Callable[[], T]) -> T:
        """Something about a campaign, made once for each state of its counts."""
        place = (*self.service.counted(name), what)
        with self._lock:
            if place in self._kept:
                self._kept.move_to_end(place)
                found: T = self._kept[place]
                return found
        made = make()
        with self._lock:
            self._kept[place] = made
            while len(self._kept) > MOST_REMEMBERED:
                self._kept.popitem(last=False)
        return made
