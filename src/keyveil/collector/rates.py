"""An optional limit of what each campaign takes: a token bucket of bytes, without a word about who sent them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from keyveil.campaign.wire import LARGEST
from keyveil.core.errors import StorageError


class Rates:
    """So many bytes a second for each campaign; a pause of ten seconds may be made up for, or one whole upload."""

    def __init__(self, bytes_per_second: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = bytes_per_second, clock
        self._most = max(LARGEST, 10 * (bytes_per_second or 0))
        self._left: dict[int, tuple[float, float]] = {}  # of each campaign: bytes, and when that was so
        self._lock = threading.Lock()

    def take(self, campaign: int, size: int) -> None:
        """Refuse an upload that exceeds the rate; nothing of it is kept."""
        if self._rate is None:
            return
        with self._lock:
            now = self._clock()
            before, when = self._left.get(campaign, (float(self._most), now))
            left = min(float(self._most), before + (now - when) * self._rate)
            if size > left:
                raise StorageError("queue/rate", "This campaign takes no more now; send the same reports again later.")
            self._left[campaign] = left - size, now
