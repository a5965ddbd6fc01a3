"""Making estimates obey what is known of them: not negative, not above one, with a given sum (docs/consistency.md).

Every function takes unbiased estimates and gives another vector; privacy is not touched by it. Which one is best
depends on the question: docs/consistency.md has the guidance, ``learn.choose`` finds out by simulation.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keyveil.core.errors import MechanismError
from keyveil.kernels.simplex import nearest_with_sum

Floats = NDArray[np.float64]

FALSE_POSITIVES = 2.0  # absent keys that Base-Cut lets pass, on average
_ONE_SYMBOL = 1e-6  # by which the supports of all symbols may miss 1, for rounding
_TINY, _DEAREST = 1e-12, 1e12  # prices of a frequency at which even the most likely key has none, or has all
_HALVINGS = 100  # of an interval of prices: to the last digit of a double


def base_pos(estimates: ArrayLike) -> Floats:
    """Negative values become zero. Sums are too large afterwards."""
    return np.maximum(finite(estimates), 0.0)


def base_cut(
    estimates: ArrayLike, sigma: ArrayLike | None, alpha: float = FALSE_POSITIVES, keep: int | None = None
) -> Floats:
    """Values that noise alone would explain become zero; about ``alpha`` absent keys pass the threshold.

    ``sigma`` is the deviation of a key that nobody holds, one or per key. With ``keep`` the threshold is the
    ``keep``-th largest value instead, and sigma is not needed.
    """
    raw = finite(estimates)
    if keep is not None:
        if not 1 <= keep <= len(raw):
            raise MechanismError("postprocess/keep", f"Base-Cut can keep 1 to {len(raw)} keys, not {keep}.")
        return np.where(raw >= np.partition(raw, -keep)[-keep], np.maximum(raw, 0.0), 0.0)
    return np.where(raw > cut_threshold(len(raw), alpha) * np.asarray(sigma, dtype=np.float64), raw, 0.0)


def cut_threshold(d: int, alpha: float = FALSE_POSITIVES) -> float:
    """Base-Cut's threshold in standard deviations; zero for so few keys that the quantile is not positive (C8)."""
    if not 0 < alpha < np.inf:
        raise MechanismError(
            "postprocess/alpha", f"Base-Cut lets a positive number of absent keys pass, not {alpha:g}."
        )
    tail = alpha / d
    return 0.0 if tail >= 0.5 else -NormalDist().inv_cdf(tail)


def norm(estimates: ArrayLike, total: float = 1.0) -> Floats:
    """The same shift of all values gives the sum. Stays unbiased."""
    raw = finite(estimates)
    shifted: Floats = raw + (total - raw.sum()) / len(raw)
    return shifted


def norm_mul(estimates: ArrayLike, total: float = 1.0) -> Floats:
    """Positive values are scaled to the sum. Shrinks frequent keys much."""
    positive = base_pos(estimates)
    mass = positive.sum()
    return positive * (total / mass) if mass > 0 else np.full(len(positive), total / len(positive))


def norm_sub(estimates: ArrayLike, total: float = 1.0, upper: float | None = None) -> Floats:
    """The nearest vector (in the Euclidean sense) within [0, upper] that has the given sum."""
    raw = finite(estimates)
    _feasible(total, len(raw), upper)
    return nearest_with_sum(raw, total, upper)


def norm_sub_at_most(estimates: ArrayLike, most: float, upper: float | None = None) -> Floats:
    """The nearest vector within [0, upper] whose sum does not exceed ``most``."""
    inside = np.clip(finite(estimates), 0.0, upper)
    return inside if inside.sum() <= most else norm_sub(estimates, most, upper)


def norm_cut(estimates: ArrayLike, total: float = 1.0) -> Floats:
    """The largest values as they are, as many as the sum has room for; zero for the rest (prefix rule of C6)."""
    positive = base_pos(estimates)
    if positive.sum() <= total:
        return positive
    order = np.argsort(-positive, kind="stable")
    kept = order[: np.searchsorted(np.cumsum(positive[order]), total, side="right")]
    cut = np.zeros_like(positive)
    cut[kept] = positive[kept]
    return cut


def mle_apx(estimates: ArrayLike, p: float, q: float, total: float = 1.0) -> Floats:
    """The most likely frequencies with this sum, noise taken as normal with the variance that p and q give (C3).

    ``p`` and ``q`` are the probabilities that a report supports a key for its holders and for all others.
    """
    raw = finite(estimates)
    found = np.zeros_like(raw)
    if total == 0:
        return found
    gain, noise = p - q, q * (1 - q)
    active = np.arange(len(raw))
    while True:
        mine = raw[active]
        x = gain * (total - mine.sum()) / (total * gain * (1 - p - q) + len(mine) * noise)
        likely = (noise * x + mine * gain) / (gain * (1 - (1 - p - q) * x))
        if (likely >= 0).all():
            found[active] = likely
            return found
        active = active[likely >= 0]


def mle(estimates: ArrayLike, p: float, q: float, total: float = 1.0, upper: float | None = None) -> Floats:
    """The most likely frequencies within [0, upper] that have this sum, by the exact law of each key's support.

    A share μ = q + (p - q)·f of reports supports a key of frequency f. Where every report supports exactly one key
    (p + (d-1)·q = 1, and supports sum to 1) they are multinomial, elsewhere each is binomial (docs/consistency.md).
    """
    raw, gain = finite(estimates), p - q
    _feasible(total, len(raw), upper)
    support, highest = np.clip(q + gain * raw, 0.0, 1.0), 1.0 if upper is None else min(upper, 1.0)
    told = abs(p + (len(raw) - 1) * q - 1), abs(float(support.sum()) - 1)
    one_symbol = total == 1 and max(told) < _ONE_SYMBOL

    def at(price: float) -> Floats:
        """The most likely frequencies where a unit of frequency costs so much log-likelihood."""
        if one_symbol:
            likely = support / max(1 + price, _TINY)
        else:  # (support - μ) / (μ·(1 - μ)) = price, solved without cancellation
            linear = 1 + price
            root = np.sqrt(np.maximum(linear**2 - 4 * price * support, 0.0))
            likely = 2 * support / (linear + root) if linear > 0 else (linear - root) / (2 * price)
        return np.clip((likely - q) / gain, 0.0, highest)

    low, high = -1.0, 1.0
    while at(low).sum() < total and low > -_DEAREST:
        low *= 2
    while at(high).sum() > total and high < _DEAREST:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle).sum() > total else (low, middle)
    return nearest_with_sum(at((low + high) / 2), total, upper)  # what rounding leaves of the sum


def finite(estimates: ArrayLike) -> Floats:
    """A vector to work on, refused if it is not one."""
    raw = np.asarray(estimates, dtype=np.float64)
    if raw.ndim != 1 or not len(raw) or not np.isfinite(raw).all():
        raise MechanismError("postprocess/vector", "Post-processing takes a vector of finite numbers, one per key.")
    return raw


def _feasible(total: float, d: int, upper: float | None) -> None:
    if not 0 <= total < np.inf or (upper is not None and total > d * upper * (1 + 1e-12)):
        limit = "" if upper is None else f" up to {upper:g} each"
        raise MechanismError("postprocess/total", f"No {d} frequencies{limit} have the sum {total:g}.")
