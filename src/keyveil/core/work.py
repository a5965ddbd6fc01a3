"""A limit on work that somebody else decides about: priced before it is done, counted in units, without a clock.

A device reads documents of strangers. Whatever grows with their numbers says beforehand how much it is about to do
(``spend``); within ``limited`` that is refused once it exceeds the limit. Elsewhere nothing is limited. One unit is
about a microsecond of the reference machine: ``keyveil bench`` has the measurement of the worst documents.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from keyveil.core.errors import DeviceError

_COMB = 12  # a binomial coefficient of k out of n takes about k^2 / 2^12 units


@dataclass
class Work:
    """Units that were spent of a limit."""

    limit: int
    spent: int = 0


_present: ContextVar[Work | None] = ContextVar("work", default=None)


@contextmanager
def limited(limit: int) -> Iterator[Work]:
    """While it lasts, priced work beyond so many units is refused before it is done."""
    work = Work(limit)
    token = _present.set(work)
    try:
        yield work
    finally:
        _present.reset(token)


def spend(units: int, what: str) -> None:
    """Say that so many units of work are about to be done for something; refused where that exceeds the limit."""
    work = _present.get()
    if work is None:
        return
    if work.spent + units > work.limit:
        raise DeviceError("device/limits", f"{what} would take more computation than a device spends on a document.")
    work.spent += units


def priced_comb(n: int, k: int) -> int:
    """``math.comb``, priced by the length of its result."""
    taken = min(k, n - k)
    if taken > 0:
        spend(taken * taken >> _COMB, f"Counting the subsets of {n} symbols with {k} members")
    return math.comb(n, k)
