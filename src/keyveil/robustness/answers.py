"""How far crafted reports can move a conditional or a quantile: proved by interval evaluation.

A conditional is a ratio of two sums of averages (``mechanisms.effects.JointEffects``). Each of them stays within its
own limits, and so the ratio stays within what their corners give.

A quantile of a histogram is where the cumulative of the nearest proper law (Norm-Sub) reaches a level. For a fixed
level of cutting, that the law has reached a place is a sum of masses above the cut, and one report moves this sum by
no more than its own masses; so does the level of cutting (docs/robustness.md).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from keyveil.core.tally import Tally
from keyveil.learn.conditionals import Conditionals, Given
from keyveil.learn.masses import Floats, LabelMasses, label_masses
from keyveil.learn.places import Places, Within
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import Cells, Windows, can
from keyveil.mechanisms.effects import Average, JointEffects
from keyveil.mechanisms.report_laws import ReportParts
from keyveil.robustness.influence import FAR, most_moved

HALVINGS = 50  # of a place within a cell

Limits = tuple[float, float]


def conditional_limits(
    mechanism: Mechanism, tally: Tally, attackers: int, of: Literal["frequency", "mean"], key: str, given: Given
) -> Limits | None:
    """The least and the largest that a conditional frequency, or a mean on [-1, 1], can be made; None if unknown.

    They are cut to [0, 1] and [-1, 1]. They are all of it where the people who fulfil the condition may be so few that
    the ratio means nothing (``influence.FAR``).
    """
    if not isinstance(mechanism, JointEffects):
        return None
    asked = Conditionals(mechanism, tally)
    keys, *statistics = asked.ratio(of, key, given)
    told = mechanism.answer_jointly(tally, keys, statistics)  # type: ignore[attr-defined]
    effects = [mechanism.joint_effects(tally, keys[0], one) for one in statistics]
    if any(one is None for one in effects):
        return None
    averages = [list(one or ()) for one in effects]
    (whole, part), shifts = told.values[0], [_moved(one, attackers) for one in averages]
    least, most = (0.0, 1.0) if of == "frequency" else (-1.0, 1.0)
    lowest = whole - shifts[0]
    error = max(_worst_error(averages[0], attackers), float(np.sqrt(told.covariance[0, 0, 0])))
    if not lowest > FAR * error:
        return least, most
    corners = [(part + up * shifts[1]) / (whole + side * shifts[0]) for up in (-1, 1) for side in (-1, 1)]
    return float(np.clip(min(corners), least, most)), float(np.clip(max(corners), least, most))


def _moved(averages: list[Average], attackers: int) -> float:
    if not averages:
        return 0.0
    ranges = np.array([[one.largest - one.least] for one in averages])
    return float(most_moved(ranges, np.array([[float(one.people)] for one in averages]), attackers)[0])


def _worst_error(averages: list[Average], attackers: int) -> float:
    """The largest standard error there can be, by Popoviciu's inequality for what one report adds."""
    people = [max(one.people - attackers, 1) for one in averages]
    return float(
        np.sqrt(sum(((one.largest - one.least) / 2) ** 2 / n for one, n in zip(averages, people, strict=True)))
    )


def quantile_limits(
    mechanism: Mechanism, tally: Tally, attackers: int, key: str | int, level: float, within: Within = "any"
) -> Limits | None:
    """The least and the largest quantile of a key, on [-1, 1], that can come out; None if nothing is proved.

    Proved for histograms, whose masses are averages over the reports that speak about the key.
    """
    if can(mechanism, Windows) is not None or can(mechanism, Cells) is None:
        return None
    while isinstance(mechanism, ReportParts):  # what corrects all masses alike leaves the law as it is
        number = next(at for at, part in enumerate(mechanism.parts) if can(part, Cells) is not None)
        tally, mechanism = mechanism.part_tally(tally, number), mechanism.parts[number]
    masses, at = label_masses(mechanism, tally, population=False), mechanism.schema.place(key)
    own, other, mixed, two = masses.sums.odds[at]
    places, people = masses.places(at), int(masses.respondents[at])
    cells = len(places.points)
    whole = float(min(places.points[0], places.edges[0])), float(max(places.points[-1], places.edges[-1]))
    at_once = cells if mixed > 0 or two > 0 else 1  # labels of a key that one report can support
    if not 0 < level < 1 or people <= attackers:
        return whole
    mass, step = masses.of(at), _Step(attackers / people / float(own - other), at_once)
    if not mass.sum() > step.most:
        return whole
    low, high = _reached(mass, _cuts(mass, step.most), places, level, step)
    # The value is cut to its interval, an end of which lies no further out than where masses reach the level for sure.
    first = _surely(masses, at, places, level, step, within, mirrored=False)
    last = -_surely(masses, at, places.mirrored, 1 - level, step, within, mirrored=True)
    return max(min(low, last), whole[0]), min(max(high, first), whole[1])


class _Step(NamedTuple):
    """How far crafted reports move masses."""

    size: float  # a single mass
    at_once: int  # how many labels one report supports

    @property
    def most(self) -> float:
        """The sum of any masses."""
        return self.size * self.at_once

    def of(self, weights: Floats) -> Floats:
        """Weighted sums of any of the masses, per row of weights: from the labels that count least to those most."""
        rising = np.sort(weights, axis=-1)
        lost, won = -np.minimum(rising[..., : self.at_once], 0), np.maximum(rising[..., -self.at_once :], 0)
        return np.asarray(self.size * (lost.sum(axis=-1) + won.sum(axis=-1)))


def _cuts(mass: Floats, shift: float) -> Floats:
    """The levels of cutting T that can come out, and all between them where a mass is cut.

    Norm-Sub takes T off every mass and cuts at zero, so that the sum stays: Σ min(mass, T) = 0. That sum moves by at
    most ``shift``.
    """

    def solved(target: float) -> float:
        """The least T ≥ 0 with Σ min(mass, T) ≥ target, which the sum of all masses exceeds."""
        knots = np.unique(np.concatenate(([0.0], mass[mass > 0])))
        sums = np.minimum(mass[:, None], knots).sum(axis=0)
        after = int(np.searchsorted(sums, target))
        if after == 0:
            return 0.0
        before, here = knots[after - 1], knots[after]
        rise = sums[after] - sums[after - 1]
        return float(before + (here - before) * (target - sums[after - 1]) / rise)

    least, most = solved(-shift), solved(shift)
    return np.concatenate(([least], np.sort(mass[(mass > least) & (mass < most)]), [most]))


def _reached(mass: Floats, cuts: Floats, places: Places, level: float, step: _Step) -> Limits:
    """The first place at which the law may reach the level, and the last before which it may not."""
    left = np.maximum(mass - cuts[:, None], 0.0)  # [cut, cell]
    if places.kind == "levels":
        weights = (places.points <= places.points[:, None]).astype(np.float64) - level  # [place, cell]
        sums, shifts = left @ weights.T, step.of(weights)
        first = np.flatnonzero(sums.max(axis=0) + shifts >= 0)
        short = np.flatnonzero(sums.min(axis=0) - shifts < 0)
        after = min(int(short[-1]) + 1, len(mass) - 1) if len(short) else 0
        return float(places.points[first[0]]), float(places.points[after])

    def may_reach(place: float, sign: int) -> bool:
        weights = np.clip((place - places.edges[:-1]) / np.diff(places.edges), 0.0, 1.0) - level
        sums = left @ weights
        return bool((sums.max() if sign > 0 else sums.min()) + sign * step.of(weights) >= 0)

    found = []
    for sign in (1, -1):
        below, above = float(places.edges[0]), float(places.edges[-1])
        for _ in range(HALVINGS):
            middle = (below + above) / 2
            below, above = (below, middle) if may_reach(middle, sign) else (middle, above)
        found.append(below if sign > 0 else above)
    return found[0], found[1]


def _surely(
    masses: LabelMasses, key: int, places: Places, level: float, step: _Step, within: Within, *, mirrored: bool
) -> float:
    """The first place at which masses before the projection reach the level, whatever crafted reports say."""
    at = places.looked_at(within)
    rows = places.rows(at, within)
    weights = (rows[..., ::-1] if mirrored else rows) - level
    least = (weights @ masses.of(key) - step.of(weights)).min(axis=0)
    reached = np.flatnonzero(least >= 0)
    return float(at[reached[0]] if len(reached) else at[-1])
