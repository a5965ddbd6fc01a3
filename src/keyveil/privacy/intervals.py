"""What counts say for certain: exact bounds on probabilities, and on epsilon, from samples alone."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

CAUTION = 3.0  # standard errors that both shares are discounted by, so that chance finds among many events rank low


def at_least(hits: int, draws: int, alarm: float) -> float:
    """Clopper–Pearson: the true probability lies below this with probability at most ``alarm``."""
    from scipy.special import betaincinv

    return 0.0 if hits == 0 else float(betaincinv(hits, draws - hits + 1, alarm))


def at_most(hits: int, draws: int, alarm: float) -> float:
    """Clopper–Pearson: the true probability lies above this with probability at most ``alarm``."""
    from scipy.special import betainccinv

    return 1.0 if hits == draws else float(betainccinv(hits + 1, draws - hits, alarm))


def epsilon_at_least(hits: int, other_hits: int, draws: int, alarm: float) -> float:
    """A bound that ln(P/Q) falls short of with probability at most ``alarm``; 0 if the counts show nothing.

    ``hits`` of ``draws`` reports of one record fell into an event that was fixed before they were drawn, and
    ``other_hits`` of as many reports of another record.
    """
    low, high = at_least(hits, draws, alarm / 2), at_most(other_hits, draws, alarm / 2)
    return math.log(low / high) if low > high else 0.0


def hunch(
    hits: NDArray[np.int64], other_hits: NDArray[np.int64], draws: int, caution: float = CAUTION
) -> NDArray[np.float64]:
    """About what ``epsilon_at_least`` would give, for many events at once: to choose among them, never to claim.

    On the arcsine scale all shares have nearly the same standard error, 1 / (2 √draws).
    """
    step = caution / (2 * math.sqrt(draws))
    low = np.maximum(_angle(hits, draws) - step, 1e-3 / math.sqrt(draws))
    high = np.minimum(_angle(other_hits, draws) + step, math.pi / 2)
    guess: NDArray[np.float64] = 2 * np.log(np.sin(low) / np.sin(high))
    return guess


def evidence(
    hits: NDArray[np.int64], other_hits: NDArray[np.int64], goal: float, others: float = 1.0
) -> NDArray[np.float64]:
    """How strongly counts speak against P ≤ e^goal · Q, in nats: about -ln of the chance of such counts.

    ``others`` is how many times as many draws were made for ``other_hits``. As for rare events: among all hits those of
    the first record are then at most a share e^goal / (e^goal + others), and the rest is a likelihood ratio. Frequent
    events and "four times, and never otherwise" are on one scale.
    """
    most = 1 / (1 + others * math.exp(-goal))
    both = np.maximum(hits + other_hits, 1)
    share = hits / both
    surplus = np.maximum(share, most)
    with np.errstate(divide="ignore", invalid="ignore"):
        lost = np.where(other_hits > 0, other_hits * np.log((1 - surplus) / (1 - most)), 0.0)
    nats: NDArray[np.float64] = hits * np.log(surplus / most) + lost
    return nats


def _angle(hits: NDArray[np.int64], draws: int) -> NDArray[np.float64]:
    angle: NDArray[np.float64] = np.arcsin(np.sqrt((hits + 0.375) / (draws + 0.75)))
    return angle
