"""One answer from several disjoint groups of people who were asked about the same keys.

The groups part all people at random, and the target is all of them. A group's own answer is about its own people, so
that weighting groups otherwise than by their size adds an error: with weights w and shares p of the people,

    Var = Σ w² · Var(group, its people fixed)  +  S² · Σ (w - p)² / n        (S²: variance between people)

Inverse variances, those of a sample from a larger population, are the weights that make this smallest. They are
averages over keys: a key's own plugged-in variance goes with its error, and would bias the merge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from keyveil.core.estimates import FLAGS, Column, Estimates, Header
from keyveil.core.tally import Tally
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.responses import INSUFFICIENT, Solution, Spread, normal_quantile

if TYPE_CHECKING:
    from keyveil.core.undercount import Undercount

Floats = NDArray[np.float64]

WIDE = FLAGS.index("wide")


def merge(header: Header, fixed: Sequence[Estimates], sampled: Sequence[Estimates]) -> Estimates:
    """Frequencies and means of everybody, from the answers of disjoint groups.

    ``fixed`` and ``sampled`` are the same groups' estimates with ``population`` False and True: the weights need both
    kinds of variance. What comes out is about the target that ``header`` names, with the groups' schema.
    """
    header = replace(header, schema=fixed[0].schema, undercount=header.undercount or _unseen(fixed))
    if len(fixed) == 1:
        return (sampled if header.population else fixed)[0].under(header)
    n = np.array([float(one.n) for one in fixed])
    frequency, product = _frequency_and_product(fixed, sampled, n)
    respondents = np.sum([one.respondents for one in fixed], axis=0)
    carried = np.max([carried_flags(one) for one in fixed], axis=0)
    if product is None or frequency is None:
        return with_flags(_apart(header, respondents, fixed, sampled, frequency, n), carried)
    crossed = [(a.covariance, b.covariance) for a, b in _pairs(fixed, sampled)]
    spread = Spread(
        frequency.variance(n, header.population),
        product.variance(n, header.population),
        _covariance(crossed, frequency, product, n, header.population),
    )
    solution = Solution(frequency.value, product.value, spread)
    return with_flags(solution.estimates(header, respondents=respondents), carried)


@dataclass(frozen=True, eq=False)
class PartAnswer:
    """What one part of the people says, and its weights in the merged estimates, [key]."""

    mechanism: Mechanism
    tally: Tally
    share: float  # of all reports; more where what they say is scaled
    frequency_weights: Floats
    product_weights: Floats

    def scaled(self, times: float) -> PartAnswer:
        """The same where the merged estimates are so many times what the parts say, because a cap hides the rest."""
        weights = times * self.frequency_weights, times * self.product_weights
        return replace(self, share=times * self.share, frequency_weights=weights[0], product_weights=weights[1])


def part_answers(
    parts: Sequence[tuple[Mechanism, Tally]], fixed: Sequence[Estimates], sampled: Sequence[Estimates]
) -> list[PartAnswer]:
    """Every part with the weights that ``merge`` gives it."""
    n = np.array([float(one.n) for one in fixed])
    frequency, product = _frequency_and_product(fixed, sampled, n)
    nothing = np.zeros((len(parts), fixed[0].schema.d))
    weights = [nothing if one is None else one.weights for one in (frequency, product)]
    shares = (n / max(n.sum(), 1)).tolist()
    return [PartAnswer(*part, *each) for part, *each in zip(parts, shares, *weights, strict=True)]


def merge_spreads(fixed: Sequence[Spread], sampled: Sequence[Spread], n: Floats, population: bool) -> Spread:
    """The errors of the merged f and f·m, from those that groups of ``n[group]`` people predict of their own.

    NaN where no group says anything; ``fixed`` and ``sampled`` as for ``merge``.
    """
    nothing = np.zeros_like(fixed[0].frequency)
    frequency, product = (
        _answers([(nothing, np.sqrt(a[which]), np.sqrt(b[which])) for a, b in zip(fixed, sampled, strict=True)], n)
        for which in (0, 1)
    )
    assert frequency is not None and product is not None
    crossed = [(a.covariance, b.covariance) for a, b in zip(fixed, sampled, strict=True)]
    covariance = _covariance(crossed, frequency, product, n, population)
    told, told_product = (of.weights.sum(axis=0) > 0 for of in (frequency, product))
    return Spread(
        np.where(told, frequency.variance(n, population), np.nan),
        np.where(told_product, product.variance(n, population), np.nan),
        np.where(told & told_product, covariance, np.nan),
    )


@dataclass(frozen=True, eq=False)
class GroupValues:
    """What the groups say about one quantity of every key, [group, key]; silent where they say nothing."""

    values: Floats
    within: Floats  # variance with the group's people fixed
    between: Floats  # variance of the quantity between people
    weights: Floats  # columns sum to one, where anybody speaks

    @property
    def value(self) -> Floats:
        total: Floats = (self.weights * self.values).sum(axis=0)
        return np.where(self.weights.sum(axis=0) > 0, total, np.nan)

    def variance(self, n: Floats, population: bool) -> Floats:
        """The variance of the merged value."""
        return _total(self.within, (self.weights * self.between).sum(axis=0), self, self, n, population)


def _answers(groups: Sequence[tuple[Floats | None, Floats | None, Floats | None]], n: Floats) -> GroupValues | None:
    """The groups' values with their weights, from values and both kinds of standard error."""
    known = [one for one in groups if one[0] is not None and not np.isnan(one[0]).all()]
    if not known:
        return None
    silent = np.full(len(np.asarray(known[0][0])), np.nan)
    values, fixed, sampled = (
        np.array([silent if one[part] is None else one[part] for one in groups], dtype=np.float64) for part in range(3)
    )
    speaks = np.isfinite(values) & np.isfinite(fixed) & (sampled > 0)
    squares = np.where(speaks, sampled**2, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        typical = squares.sum(axis=1) / speaks.sum(axis=1)
        weights = np.where(speaks, 1 / typical[:, None], 0.0)
        weights = np.nan_to_num(weights / weights.sum(axis=0))
    within = np.where(speaks, fixed**2, 0.0)
    between = np.maximum(squares - within, 0) * n[:, None]
    return GroupValues(np.where(speaks, values, 0.0), within, between, weights)


def _frequency_and_product(
    fixed: Sequence[Estimates], sampled: Sequence[Estimates], n: Floats
) -> tuple[GroupValues | None, GroupValues | None]:
    """f and f·m of every key as the groups have them; None for what no group gives."""
    pairs = _pairs(fixed, sampled)
    frequency = _answers([(a.frequency.values, a.frequency.se, b.frequency.se) for a, b in pairs], n)
    return frequency, _answers([(a.product, a.product_se, b.product_se) for a, b in pairs], n)


def _covariance(
    crossed: Sequence[tuple[Floats | None, Floats | None]], a: GroupValues, b: GroupValues, n: Floats, population: bool
) -> Floats:
    """The covariance of two merged quantities; groups that speak of one only have none of their own."""
    nothing = np.zeros(a.values.shape[1])
    fixed, sampled = (
        np.array([nothing if one is None else one for one in part]) for part in zip(*crossed, strict=True)
    )
    fixed, sampled = np.nan_to_num(fixed), np.nan_to_num(sampled)
    share = np.sqrt(a.weights * b.weights)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.nan_to_num(share / share.sum(axis=0))
    between = (share * (sampled - fixed) * n[:, None]).sum(axis=0)
    return _total(fixed, between, a, b, n, population)


def _total(within: Floats, between: Floats, a: GroupValues, b: GroupValues, n: Floats, population: bool) -> Floats:
    """What lies within groups, and what their weights and the drawing of people add."""
    shares = np.zeros((len(n), 1)) if population else (n / n.sum())[:, None]
    uneven = ((a.weights - shares) * (b.weights - shares) / n[:, None]).sum(axis=0)
    total: Floats = (a.weights * b.weights * within).sum(axis=0) + between * uneven
    return total


def _unseen(groups: Sequence[Estimates]) -> Undercount | None:
    """The smallest cap of groups, whose effect on the merged answer nobody knows; nothing if no cap can bind."""
    from keyveil.core.undercount import Undercount  # devices do not need it

    caps = [one.header.undercount.cap for one in groups if one.header.undercount is not None]
    return Undercount(min(caps)) if caps else None


def _apart(
    header: Header,
    respondents: NDArray[np.int64],
    fixed: Sequence[Estimates],
    sampled: Sequence[Estimates],
    frequency: GroupValues | None,
    n: Floats,
) -> Estimates:
    """Groups of which none gives both: frequencies and means are merged on their own."""
    mean = _answers([(a.mean.values, a.mean.se, b.mean.se) for a, b in _pairs(fixed, sampled)], n)
    z, population = normal_quantile(header.confidence), header.population
    return Estimates(
        header=header,
        respondents=respondents,
        frequency=_column(fixed, "frequency", frequency, n, z, population),
        mean=_column(fixed, "mean", mean, n, z, population),
    )


def _column(
    fixed: Sequence[Estimates], which: str, of: GroupValues | None, n: Floats, z: float, population: bool
) -> Column:
    raw: Column = getattr(fixed[-1], which)  # the main question says best what could answer
    if of is None:
        return raw
    se, silent = np.sqrt(of.variance(n, population)), np.isnan(of.value)
    least = -1.0 if raw.scaled else 0.0
    low, high = np.where(silent, least, of.value - z * se), np.where(silent, 1.0, of.value + z * se)
    flag = np.where(silent, INSUFFICIENT, 0).astype(np.int8)
    return Column(raw.schema, of.value, np.where(silent, np.nan, se), low, high, flag, scaled=raw.scaled)


def _pairs(fixed: Sequence[Estimates], sampled: Sequence[Estimates]) -> list[tuple[Estimates, Estimates]]:
    return list(zip(fixed, sampled, strict=True))


def carried_flags(estimates: Estimates, lacked: bool = False) -> NDArray[np.int8]:
    """Flags of frequencies and of means, [2, key], that stay in what is made of these estimates.

    What one of several groups got wrong is still in the sum; what it lacked (``insufficient``) is not, so that stays
    only where it is asked for. How wide intervals are is looked at anew.
    """
    flags = np.stack([estimates.frequency.flag, np.asarray(estimates.alone)])
    return np.where((lacked | (flags < INSUFFICIENT)) & (flags != WIDE), flags, 0).astype(np.int8)


def with_flags(estimates: Estimates, flags: NDArray[np.int8]) -> Estimates:
    """The estimates with the flags of frequencies and of means, [2, key], where they have none that is more severe."""
    of_frequency, of_mean = flags
    return replace(
        estimates,
        frequency=replace(estimates.frequency, flag=np.maximum(estimates.frequency.flag, of_frequency)),
        mean=replace(estimates.mean, flag=np.maximum(estimates.mean.flag, of_mean)),
        alone=np.maximum(np.asarray(estimates.alone), of_mean),
    )
