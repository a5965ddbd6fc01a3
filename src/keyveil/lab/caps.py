"""Whom a cap cuts: keys of people who hold more pairs than count are estimated too low, and flagged.

Where an overflow group or a pilot tells it, the estimates say it themselves. Elsewhere nobody who collects can know;
here the records are known, and keys are flagged by what is truly missing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from keyveil.core.estimates import Estimates
from keyveil.core.undercount import UNKNOWN
from keyveil.frames.population import Population
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import Capped, can
from keyveil.mechanisms.overflow.undercount import DESERVED
from keyveil.protocols.base import Finished, History


def tells_undercount(estimates: Estimates) -> bool:
    """Whether estimates say themselves what a cap hides."""
    return estimates.header.undercount is not None and estimates.header.undercount.state != UNKNOWN


def missing(mechanism: Mechanism, people: Population) -> NDArray[np.float64]:
    """Per key of the mechanism's schema, how much of its frequency the cap hides: holders of s pairs keep cap/s."""
    lost = np.zeros(mechanism.schema.d)
    capped = can(mechanism, Capped)
    if capped is not None and len(people.sizes):
        share = np.maximum(1 - capped.cap() / np.maximum(people.sizes, 1), 0)
        lost += np.bincount(people.keys, np.repeat(share, people.sizes), minlength=len(lost)) / len(people.sizes)
    return lost


def truncated(one: Finished, people: Population) -> NDArray[np.bool_]:
    """The keys whose frequency a round's cap moves by more than a quarter of its standard error, if nobody told it.

    Where a round tells no frequencies, the keys that it says something about and of which anything is missing. The
    pairs of all people count, not only of those who answered: parts are drawn at random, and everybody is the target.
    """
    lost = missing(one.round.mechanism, people)
    told = np.zeros(len(lost), dtype=np.bool_)
    if not lost.any() or not one.tally.reports:
        return told
    own = one.estimates()
    if tells_undercount(own):
        return told
    least = 0.0 if own.frequency.absent else DESERVED * np.nan_to_num(own.frequency.se)
    return (lost > least) & (np.isfinite(own.frequency.values) | np.isfinite(own.mean.values))


def cap_notes(history: History, over: Sequence[NDArray[np.bool_]], people: Population) -> tuple[str, ...]:
    """A sentence for every cap that dropped pairs; ``over`` is ``truncated`` of each round."""
    caps: dict[int, list[int]] = {}
    for one, cut in zip(history, over, strict=True):
        capped = can(one.round.mechanism, Capped)
        if capped is not None and cut.any():
            caps.setdefault(capped.cap(), []).append(one.round.number)
    return tuple(
        f"{float(np.mean(people.sizes > cap)):.1%} of the people hold more pairs than the cap of {cap}"
        f"{_rounds(numbers, len(history))}; keys that this moves much are flagged truncated."
        for cap, numbers in caps.items()
    )


def _rounds(numbers: Sequence[int], of: int) -> str:
    if of == 1:
        return ""
    return f" in {'round' if len(numbers) == 1 else 'rounds'} {', '.join(map(str, numbers))}"
