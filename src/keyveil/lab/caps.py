"""Whom a cap cuts: keys of people who hold more pairs than count are estimated too low, and flagged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from keyveil.frames.population import Population
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import Capped, can
from keyveil.protocols.base import Finished, History


def over_cap(mechanism: Mechanism, people: Population) -> NDArray[np.bool_]:
    """Per key of the mechanism's schema, whether somebody holds it who holds more pairs than the cap."""
    touched = np.zeros(mechanism.schema.d, dtype=np.bool_)
    capped = can(mechanism, Capped)
    if capped is not None and len(people.sizes):
        touched[people.keys[np.repeat(people.sizes > capped.cap(), people.sizes)]] = True
    return touched


def truncated(one: Finished, people: Population) -> NDArray[np.bool_]:
    """The keys that a round tells something about, and of which its cap may have dropped pairs.

    The pairs of all people count, not only of those who answered: parts are drawn at random, and everybody is the
    target.
    """
    over = over_cap(one.round.mechanism, people)
    if not over.any() or not one.tally.reports:
        return np.zeros_like(over)
    own = one.estimates()
    return over & (np.isfinite(own.frequency.values) | np.isfinite(own.mean.values))


def cap_notes(history: History, over: Sequence[NDArray[np.bool_]], people: Population) -> tuple[str, ...]:
    """A sentence for every cap that dropped pairs; ``over`` is ``truncated`` of each round."""
    caps: dict[int, list[int]] = {}
    for one, cut in zip(history, over, strict=True):
        capped = can(one.round.mechanism, Capped)
        if capped is not None and cut.any():
            caps.setdefault(capped.cap(), []).append(one.round.number)
    return tuple(
        f"{float(np.mean(people.sizes > cap)):.1%} of the people hold more pairs than the cap of {cap}"
        f"{_rounds(numbers, len(history))}; keys of theirs are flagged truncated."
        for cap, numbers in caps.items()
    )


def _rounds(numbers: Sequence[int], of: int) -> str:
    if of == 1:
        return ""
    return f" in {'round' if len(numbers) == 1 else 'rounds'} {', '.join(map(str, numbers))}"
