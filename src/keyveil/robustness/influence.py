"""How far m valid reports among n can move estimates, whatever their senders chose.

A mechanism says which averages its estimates are, and what one report can add to them (``ReportEffects``). If m of the
N reports of an average are replaced, it moves by at most m/N times the difference of the extremes, in every direction
of the plane (f, f·m). The mean is a quotient of the two; its limits follow by monotonicity (docs/robustness.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from keyveil.core.attacked import LIMITS, Attacked, Kind
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.tally import Tally
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import ReportEffects, need
from keyveil.mechanisms.effects import Effects
from keyveil.mechanisms.reach import FromParts, Interval, Reach, Reachable

Floats = NDArray[np.float64]

FAR = 5.0
"""Standard errors of a frequency above zero from which on the mean is the plain quotient: what the estimator adds
because shares are positive (``mechanisms.responses.given_positive``) is below one part in three million there."""
STEPS = 60  # halvings of [-1, 1]: to the last bit


@runtime_checkable
class Levers(Protocol):
    """Some reports move the estimates of all keys at once, in a way that is no average."""

    def levers(self, tally: Tally, attackers: int) -> Sequence[tuple[Tally, int, int]]:
        """Tallies after so many people used the lever, in each of the ways there are.

        Beside each stands how many of them may have replaced others, and how many may say something else.
        """


def influence(mechanism: Mechanism, tally: Tally, attackers: int, estimates: Estimates | None = None) -> Attacked:
    """The limits of all estimates of this tally that ``attackers`` of its reports can lead to, if they are replaced.

    ``estimates`` are those of the tally, if they are known already. Refused for a mechanism whose estimates are no
    averages of what reports say.
    """
    if not 0 <= attackers <= tally.reports:
        most = f"{tally.reports:,}"
        raise MechanismError("attack/attackers", f"Of {most} reports, 0 to {most} can be crafted, not {attackers:,}.")
    able = need(mechanism, ReportEffects, "attack/no-bound")
    told = mechanism.estimate(tally) if estimates is None else estimates
    found = _limits(able.report_effects(tally), told, attackers)
    if not attackers or "largest found" not in (found.frequency_kind, found.mean_kind):
        return found
    if isinstance(mechanism, Levers):
        found = _with_levers(mechanism, tally, found)
    proved = reachable(mechanism, tally)(attackers, attackers) if isinstance(mechanism, FromParts) else None
    return found if proved is None else _proved(found, told, proved)


def with_influence(estimates: Estimates, mechanism: Mechanism, tally: Tally, attackers: int) -> Estimates:
    """The estimates of a tally, with the limits beside them."""
    return replace(estimates, attacked=influence(mechanism, tally, attackers, estimates))


def _limits(effects: Sequence[Effects], told: Estimates, attackers: int) -> Attacked:
    ratios, direct = ([one for one in effects if one.direct == which] for which in (False, True))
    unknown = np.full(told.schema.d, np.nan)
    low = high = mean_low = mean_high = unknown
    frequency_kind: Kind = "none"
    mean_kind: Kind = "none"
    if not told.frequency.absent:
        frequency_kind = _kind([one for one in ratios if _touches(one, 0)])
        low, high = _moved(ratios, told.frequency.values, attackers)
    if direct and not told.mean.absent:
        mean_kind, value = _kind(direct), np.clip(told.mean.values, -1, 1)
        shift = _shift(direct, 0.0, 1.0, attackers)
        mean_low, mean_high = np.maximum(value - shift, -1), np.minimum(value + shift, 1)
    elif told.product is not None and not told.mean.absent:
        mean_kind = _kind(ratios)
        mean_low, mean_high = _quotients(ratios, told, low, attackers)
    return Attacked(told.schema, attackers, low, high, mean_low, mean_high, frequency_kind, mean_kind)


def _kind(effects: Sequence[Effects]) -> Kind:
    return "bound" if all(one.fixed for one in effects) else "largest found"


def _proved(found: Attacked, told: Estimates, proved: Reach) -> Attacked:
    """Limits by interval evaluation instead of those for small changes, where there are any."""
    frequency, means = proved.frequency, proved.means()
    if found.frequency_kind == "largest found" and np.isfinite(frequency).all():
        low, high = np.fmin(frequency.low, told.frequency.values), np.fmax(frequency.high, told.frequency.values)
        found = replace(found, frequency_low=low, frequency_high=high, frequency_kind="bound")
    if found.mean_kind == "largest found":
        value = np.clip(told.mean.values, -1, 1)
        low, high = np.fmin(means.low, value), np.fmax(means.high, value)
        found = replace(found, mean_low=low, mean_high=high, mean_kind="bound")
    return found


def reachable(mechanism: Mechanism, tally: Tally) -> Reachable:
    """The limits of the estimates of a mechanism that may be one of several, for people who leave it and come to it."""
    made = mechanism.reachable(tally, reachable) if isinstance(mechanism, FromParts) else None
    return _of_averages(mechanism, tally) if made is None else made


def _of_averages(mechanism: Mechanism, tally: Tally) -> Reachable:
    effects, told = need(mechanism, ReportEffects, "attack/no-bound").report_effects(tally), mechanism.estimate(tally)
    ratios = [one for one in effects if not one.direct]
    unknown = np.full(told.schema.d, np.nan)
    f, product = (unknown if one is None else one for one in (told.frequency.values, told.product))
    people = np.array([one.people for one in ratios]).reshape(len(ratios), told.schema.d)
    even = len(ratios) == 1 and bool((people == tally.reports).all())
    known = ratios if all(one.fixed for one in effects) else []  # else nothing is proved

    def reach(leave: int, come: int) -> Reach:
        frequency = _parted(known, f, (1.0, 0.0), leave, come)
        moved = _parted(known, product, (0.0, 1.0), leave, come)
        errors = [_worst_error(ratios, *along, leave) for along in ((1.0, 0.0), (0.0, 1.0))]
        stated = told.frequency.se, unknown if told.product_se is None else told.product_se
        total = float(frequency.low.sum()), float(frequency.high.sum())
        if known and even and np.isfinite(f).all():
            total = _total(ratios[0], f, leave, come)

        def means() -> Interval:
            limits = _limits(effects, told, max(leave, come))
            if limits.mean_kind == "largest found":
                return Interval(-np.ones_like(f), np.ones_like(f))
            return Interval(np.nan_to_num(limits.mean_low, nan=-1.0), np.nan_to_num(limits.mean_high, nan=1.0))

        largest = tuple(np.fmax(one, np.nan_to_num(said)) for one, said in zip(errors, stated, strict=True))
        return Reach(frequency, moved, means, total, (largest[0], largest[1]), even)

    return reach


def _worst_error(effects: Sequence[Effects], frequency: float, product: float, leave: int = 0) -> Floats:
    """No spread of numbers between two limits exceeds half their distance (Popoviciu's inequality)."""
    ranges = np.array([np.subtract(*one.range(frequency, product)[::-1]) for one in effects])
    people = np.maximum(np.array([one.people for one in effects]) - leave, 1)
    error: Floats = np.sqrt(((ranges / 2) ** 2 / people).sum(axis=0))
    return error


def _parted(effects: Sequence[Effects], values: Floats, along: tuple[float, float], leave: int, come: int) -> Interval:
    """Limits of a number that so many people may leave, and so many come to."""
    ranges = [one.range(*along) for one in effects]
    touched = np.array([high > low for low, high in ranges]).reshape(len(effects), len(values))
    people = np.array([one.people for one in effects], dtype=np.float64).reshape(touched.shape)
    if not effects:
        return Interval(np.full_like(values, -np.inf), np.full_like(values, np.inf))
    if (np.count_nonzero(touched, axis=0) > 1).any():
        shift = most_moved(np.array([high - low for low, high in ranges]), people, max(leave, come))
        low, high = values - shift, values + shift
        return Interval(np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high))
    least, largest = (np.array([one[end] for one in ranges]).sum(axis=0) for end in (0, 1))
    return _one_parted(values, least, largest, np.where(touched, people, 0).sum(axis=0), leave, come)


def _one_parted(values: Floats, least: Floats, largest: Floats, people: Floats, leave: int, come: int) -> Interval:
    """Limits of averages over so many people of numbers between two ends; where nobody is left, those who come say."""
    values = np.where(np.isnan(values), least, values)
    down, up = np.maximum(values - least, 0), np.maximum(largest - values, 0)
    share = 1 / np.maximum(people - leave + come, 1)
    gone = people <= leave
    low = np.where(gone, np.fmin(least, values), values - np.minimum(down, (leave * up + come * down) * share))
    high = np.where(gone, np.fmax(largest, values), values + np.minimum(up, (leave * down + come * up) * share))
    return Interval(low, high)


def _total(effects: Effects, f: Floats, leave: int, come: int) -> tuple[float, float]:
    """Limits of the sum of all frequencies, an average of what a report adds to all keys together."""
    least, largest = effects.range(1.0, 0.0)
    top = np.sort(largest - least)[-(effects.at_once or len(f)) :].sum()
    value, lowest, highest = (np.atleast_1d(number) for number in (f.sum(), least.sum(), least.sum() + top))
    found = _one_parted(value, lowest, highest, effects.people[:1].astype(np.float64), leave, come)
    return float(found.low[0]), float(found.high[0])


def _touches(effects: Effects, place: int) -> bool:
    """Whether reports of this average move f (0) or f·m (1) at all."""
    least, largest = effects.range(*np.eye(2)[place])
    return bool(np.any(largest > least))


def _moved(effects: Sequence[Effects], values: Floats, attackers: int) -> tuple[Floats, Floats]:
    """Limits of frequencies; an average cannot leave the extremes of what it is made of."""
    shift = _shift(effects, 1.0, 0.0, attackers)
    low, high = values - shift, values + shift
    if len(effects) == 1:
        least, largest = effects[0].range(1.0, 0.0)
        low, high = np.maximum(low, np.minimum(least, values)), np.minimum(high, np.maximum(largest, values))
    return low, high


def _shift(effects: Sequence[Effects], frequency: float | Floats, product: float | Floats, attackers: int) -> Floats:
    """The most that ``frequency``·f + ``product``·f·m moves.

    The range of each average is the most that one report can do.
    """
    ranges = np.array([np.subtract(*one.range(frequency, product)[::-1]) for one in effects])
    people = np.array([one.people for one in effects], dtype=np.float64)
    return most_moved(ranges, people, attackers)


def most_moved(ranges: Floats, people: Floats, attackers: int) -> Floats:
    """The most that sums of averages move, per column; ``ranges`` and ``people`` are [average, column].

    Within one average it is m/N times the difference of the extremes. Where there are several, people may leave one
    average and count in another: then it is at most the sum of both, each with those who left taken off. No average
    moves by more than the difference of its extremes; those so small that this is all that is known count besides,
    since a few people can turn several of them (docs/robustness.md).
    """
    several = np.count_nonzero(ranges > 0, axis=0) > 1
    with np.errstate(divide="ignore", invalid="ignore"):
        replaced = np.where(several, attackers / np.maximum(people - attackers, 0), attackers / people)
        shifts = np.where(ranges > 0, ranges * np.minimum(replaced, 1.0), 0.0)
    shifts, small = np.where(np.isnan(ranges), np.nan, shifts), replaced >= 1
    rest = np.sort(np.where(small, 0.0, shifts), axis=0)[-2:]
    total: Floats = rest.sum(axis=0) + np.where(small, shifts, 0.0).sum(axis=0)
    return total if attackers else np.zeros_like(total)


def _quotients(effects: Sequence[Effects], told: Estimates, low: Floats, attackers: int) -> tuple[Floats, Floats]:
    """Limits of the means f·m / f; all of [-1, 1] where f comes so close to zero that it may be called absent.

    The quotient exceeds μ somewhere among the reachable (f, f·m) exactly if f·m - μ·f is positive there, and the most
    that this comes to falls as μ rises: a bisection finds where it is zero.
    """
    assert told.product is not None
    f, product = told.frequency.values, told.product
    certain = low > FAR * np.fmax(_worst_error(effects, 1.0, 0.0), np.nan_to_num(told.frequency.se))
    ends = []
    for sign in (-1.0, 1.0):
        below, above = np.full_like(f, -1.0), np.full_like(f, 1.0)
        for _ in range(STEPS):
            middle = (below + above) / 2
            reached = sign * product - middle * f + _shift(effects, -middle, sign, attackers) > 0
            below, above = np.where(reached, middle, below), np.where(reached, above, middle)
        ends.append(np.where(certain, sign * above, sign))
    return ends[0], ends[1]


def _with_levers(mechanism: Mechanism, tally: Tally, found: Attacked) -> Attacked:
    """Limits that hold what levers do, and what others do beside it; nobody has proved that nothing does more."""
    assert isinstance(mechanism, Levers) and isinstance(mechanism, ReportEffects)
    limits = [found]
    for moved, leave, come in mechanism.levers(tally, found.attackers):
        effects, told = mechanism.report_effects(moved), mechanism.estimate(moved)
        one = _limits(effects, told, max(leave, come))
        if len(effects) == 1 and not told.frequency.absent:
            low, high = _parted(effects, told.frequency.values, (1.0, 0.0), leave, come)
            one = replace(one, frequency_low=low, frequency_high=high)
        limits.append(one)
    ends = {name: np.array([getattr(one, name) for one in limits]) for name in LIMITS}
    lowest = {name: np.fmin.reduce(ends[name]) for name in LIMITS if name.endswith("low")}
    highest = {name: np.fmax.reduce(ends[name]) for name in LIMITS if name.endswith("high")}
    return replace(found, **lowest, **highest)
