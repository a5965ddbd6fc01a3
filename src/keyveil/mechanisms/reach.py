"""Where estimates can be made to lie by crafted reports, for estimates that are made of others: interval evaluation.

Averages have limits of their own (``mechanisms.effects``). A merge lies between what is merged, a corrected estimate
between the least and the largest correction of the limits of what is corrected, and so on. A mechanism whose estimates
are made so says what its limits are, given those of its parts (``FromParts``; docs/decisions/0145-proved-limits.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from keyveil.core.tally import Tally
from keyveil.kernels.normal import hazard
from keyveil.mechanisms.base import Mechanism

Floats = NDArray[np.float64]

NEAR = 1.5
"""Standard errors of a frequency above zero from which on it is looked at how far a mean is from the plain quotient,
because shares are positive (``mechanisms.responses.given_positive``); nothing is said of a mean below that."""
PULL = 0.23
"""r²·h(r)/(r + h(r)) for the hazard h of a normal law is below this for every r: how far a mean is from the quotient
where all keys have an error in common (docs/decisions/0145-proved-limits.md)."""


class Interval(NamedTuple):
    """The least and the largest value of every key; infinite where nothing is proved."""

    low: Floats
    high: Floats

    def cut(self) -> Interval:
        """The part within [-1, 1]."""
        return Interval(np.clip(self.low, -1, 1), np.clip(self.high, -1, 1))

    def times(self, low: float, high: float) -> Interval:
        """The products with any number from ``low`` to ``high``, which are not negative."""
        with np.errstate(invalid="ignore"):
            ends = np.nan_to_num(
                np.array([edge * by for edge in self for by in (low, high)]), nan=0.0, posinf=np.inf, neginf=-np.inf
            )
        return Interval(ends.min(axis=0), ends.max(axis=0))


@dataclass(frozen=True, eq=False)
class Reach:
    """Limits of what estimates can become.

    ``total`` are those of the sum of all frequencies; ``errors`` the largest standard errors of f and f·m. ``even``
    says that the same people speak about every key.
    """

    frequency: Interval
    product: Interval
    means: Callable[[], Interval]  # on [-1, 1] and cut to it; asked for only where it is needed, since it takes time
    total: tuple[float, float]
    errors: tuple[Floats, Floats]
    even: bool = False

    def quotient(self) -> Interval:
        """The limits of f·m / f, and of what is added because shares are positive; all of [-1, 1] near f = 0."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ends = np.array([top / below for top in self.product for below in self.frequency])
            far = self.frequency.low / self.errors[0]
            moved = hazard(far) / (far + hazard(far))
            pull = moved * (1 + far * self.errors[1] / self.frequency.low)
        known = (far > NEAR) & np.isfinite(ends).all(axis=0)
        low, high = (np.clip(np.where(known, end, 0.0), -1, 1) for end in (ends.min(axis=0), ends.max(axis=0)))
        return Interval(np.where(known, low - pull, -1.0), np.where(known, high + pull, 1.0)).cut()


Reachable = Callable[[int, int], Reach]
"""The limits if at most so many people leave and at most so many come."""


@runtime_checkable
class FromParts(Protocol):
    """Estimates are made of others, and it is known how their limits follow."""

    def reachable(self, tally: Tally, of: Callable[[Mechanism, Tally], Reachable]) -> Reachable | None:
        """The limits, from those ``of`` parts; nothing where estimates are averages."""


def hull(intervals: Sequence[Interval]) -> Interval:
    """The smallest interval that holds all of these."""
    lows, highs = zip(*intervals, strict=True)
    return Interval(np.min(lows, axis=0), np.max(highs, axis=0))


def averaged(parts: Sequence[Reach], tell: Sequence[frozenset[str]]) -> Reach:
    """The limits of averages of what parts say, with whatever weights; ``tell`` is what each of them estimates."""
    of_frequency, of_mean = ([at for at, one in enumerate(tell) if name in one] for name in ("frequency", "mean"))
    of_product = [at for at in of_mean if at in of_frequency]
    frequency = _over([parts[at].frequency for at in of_frequency], parts[0])
    product = _over([parts[at].product for at in of_product], parts[0])
    even = all(one.even for one in parts)
    lows, highs = zip(*(parts[at].total for at in of_frequency or range(len(parts))), strict=True)
    # Where all parts speak about all keys, a part has one weight for all of them.
    total = (min(lows), max(highs)) if even else (float(frequency.low.sum()), float(frequency.high.sum()))
    errors = (
        np.max([parts[at].errors[0] for at in of_frequency or (0,)], axis=0),
        np.max([parts[at].errors[1] for at in of_product or (0,)], axis=0),
    )

    def means() -> Interval:
        return made.quotient() if of_product else hull([parts[at].means() for at in of_mean])

    made = Reach(frequency, product, means, total, errors, even)
    return made


def _over(intervals: Sequence[Interval], like: Reach) -> Interval:
    unknown = np.full_like(like.frequency.low, np.inf)
    return hull(intervals) if intervals else Interval(-unknown, unknown)


def placed(parts: Sequence[Reach], places: Sequence[NDArray[np.int64]]) -> Reach:
    """The limits of parts that are about keys of their own, which have these places among all of them."""
    order = np.argsort(np.concatenate(places))

    def together(numbers: Sequence[Floats]) -> Floats:
        return np.concatenate(numbers)[order]

    def each(intervals: Sequence[Interval]) -> Interval:
        return Interval(*(together(ends) for ends in zip(*intervals, strict=True)))

    return Reach(
        each([one.frequency for one in parts]),
        each([one.product for one in parts]),
        lambda: each([one.means() for one in parts]),
        (sum(one.total[0] for one in parts), sum(one.total[1] for one in parts)),
        (together([one.errors[0] for one in parts]), together([one.errors[1] for one in parts])),
    )


def corrected(main: Reach, pieces: Sequence[tuple[Reach, float]]) -> Reach:
    """The limits of f and f·m that are multiplied by a number from 1 to a largest one, which all keys share.

    ``pieces`` are limits with the largest number, of which one or another holds; ``main`` the limits that always hold.
    """
    frequency = hull([one.frequency.times(1.0, most) for one, most in pieces])
    product = hull([one.product.times(1.0, most) for one, most in pieces])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        error, product_error = (one / main.frequency.low for one in main.errors)
        pull = PULL * (product_error * error + error**2)

    def means() -> Interval:
        plain, told = main.means(), np.isfinite(pull) & (main.frequency.low > 0)
        return Interval(np.where(told, plain.low - pull, -1.0), np.where(told, plain.high + pull, 1.0)).cut()

    totals = hull([Interval(*np.array(one.total)[:, None]).times(1.0, most) for one, most in pieces])
    total = float(totals.low[0]), float(totals.high[0])
    unknown = np.full_like(frequency.low, np.inf)  # the correction adds an error of its own, of which nothing is proved
    return replace(main, frequency=frequency, product=product, means=means, total=total, errors=(unknown, unknown))
