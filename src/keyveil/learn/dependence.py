"""How the estimates of two keys depend on each other: needed for sums of keys and for comparing them.

Two keys i ≠ j of one collection have

    Cov(f̂_i, f̂_j) = base + slope·(f_i + f_j) + both·f_ij + product·f_i·f_j

with f_ij the share of people who hold both, which frequencies do not tell. The constants follow from how often one
report supports both keys, for people who hold none, one or both of them (docs/queries.md has the derivation):

* unary encodings, local hashing: supports are independent, all zero;
* one symbol a report (grr, pckv-grr, wsr) and subsets (ss, ssr): supports exclude each other, base and slope are
  negative;
* one pair or key sampled, or arcs on a circle: only who holds both matters.

``both`` is never positive, so f_ij is taken as 0 where that makes a variance larger, and as min(f_i, f_j) elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import KeyveilError, MechanismError
from keyveil.core.estimates import Estimates
from keyveil.learn.constraints import belongs
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.categorical.grr import GRR
from keyveil.mechanisms.categorical.hr import HR
from keyveil.mechanisms.categorical.olh import LocalHash
from keyveil.mechanisms.categorical.ss import SS
from keyveil.mechanisms.categorical.unary import Unary
from keyveil.mechanisms.families.categorical import Categorical
from keyveil.mechanisms.families.one_key import OneKey
from keyveil.mechanisms.families.sampled import Sampled
from keyveil.mechanisms.families.set_response import SetResponse
from keyveil.mechanisms.keyvalue.baselines import Harmony
from keyveil.mechanisms.keyvalue.pckv_grr import PCKVGRR
from keyveil.mechanisms.registry import create, find_mechanism
from keyveil.mechanisms.responses import Response

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Dependence:
    """The constants of the covariance for one report; those of n reports are n times smaller."""

    base: float = 0.0
    slope: float = 0.0
    both: float = 0.0
    product: float = 0.0
    extra: float = 0.0  # a variance per key that bounds whatever else there is
    n: int = 1

    def variance(self, weights: Floats, frequency: Floats, se: Floats) -> float:
        """An upper bound, close where few people hold two of the keys, of the variance of a weighted sum."""
        f = np.clip(frequency, 0.0, 1.0)
        squares, each = weights**2, float(weights.sum())
        held = float(weights @ f)
        shared = (
            self.base * (each**2 - squares.sum())
            + self.slope * 2 * (each * held - squares @ f)
            + self.product * (held**2 - squares @ f**2)
            + self.extra * squares.sum()
        )
        plus, minus = weights > 0, weights < 0
        if self.both and plus.any() and minus.any():
            most = np.minimum.outer(f[plus], f[minus])
            shared += 2 * self.both * float(weights[plus] @ most @ weights[minus])
        return max(float(squares @ se**2) + float(shared) / self.n, 0.0)

    def at_most(self, first: float, second: float) -> float:
        """The largest absolute covariance of two keys of these frequencies."""
        common = self.base + self.slope * (first + second) + self.product * first * second
        return (abs(common) + abs(self.both) * min(first, second) + self.extra) / self.n


def dependence(estimates: Estimates, mechanism: Mechanism | None = None) -> Dependence:
    """The constants for these estimates; mechanisms with options must be given for it."""
    belongs(estimates, mechanism)
    kind = type(mechanism) if mechanism is not None else _found(estimates)
    for family, rule in _RULES:
        if issubclass(kind, family):
            own = mechanism if mechanism is not None else _without_options(estimates, kind)
            constants = rule(own) if own is not None else _by_name(kind)
            return replace(_sampled(constants, kind, estimates.population), n=max(estimates.n, 1))
    raise _unknown(estimates.mechanism)


def _independent(mechanism: Mechanism) -> Dependence:
    return Dependence()


def _hadamard(mechanism: Any) -> Dependence:
    """In the set form two keys agree more often for the one holder of a third: by rows of the matrix at most once."""
    if mechanism.public_column:
        return Dependence()
    return Dependence(extra=1 / float(2 * mechanism.response.holder.support - 1))


def _one_symbol(mechanism: Any) -> Dependence:
    response: Response = mechanism.response
    return _from_supports(response, 0.0, 0.0, 0.0)


def _subset(mechanism: Any) -> Dependence:
    channel = mechanism.channel
    none, one = float(channel.two_others), float(channel.own_and_other)
    return _from_supports(mechanism.response, none, one, one)


def _set_response(mechanism: Any) -> Dependence:
    if len(mechanism.odds) > 1:
        raise MechanismError(
            "queries/dependence", f"{mechanism.name} with unequal weights does not tell how its estimates depend."
        )
    if getattr(mechanism, "direct", False):
        return _one_key(mechanism)
    _, odds = mechanism.odds[0]
    labels = mechanism.labels.count
    held, foreign = float(odds.own_and_other), float(odds.two_others)
    aside = foreign if odds.signs is None else float(odds.signs.opposite * odds.other)  # hashed keys are independent
    return _from_supports(
        odds.of_key(labels),
        labels**2 * foreign,
        labels * held + labels * (labels - 1) * aside,
        (2 * labels - 1) * held + (labels - 1) ** 2 * aside,
    )


def _one_key(mechanism: Mechanism) -> Dependence:
    """Who is asked about one key is not asked about another: draws without replacement from the same people."""
    return Dependence(both=-1.0, product=1.0)


def _one_pair(mechanism: Mechanism) -> Dependence:
    return Dependence(both=-1.0)


def _baseline(mechanism: Any) -> Dependence:
    if not isinstance(mechanism.oracle, GRR):
        return Dependence(both=-1.0)
    d, inner = mechanism.schema.d, mechanism.oracle.response
    other = float(inner.stranger.support)
    gain = float(inner.holder.support - inner.stranger.support) / d
    return Dependence(-((other / gain) ** 2), -other / gain, -1.0)


_RULES: tuple[tuple[type[Mechanism], Callable[[Any], Dependence]], ...] = (
    (GRR, _one_symbol),
    (SS, _subset),
    (HR, _hadamard),
    (Unary, _independent),
    (LocalHash, _independent),
    (OneKey, _one_key),
    (PCKVGRR, _one_symbol),
    (Sampled, _one_pair),
    (SetResponse, _set_response),
    (Harmony, _baseline),
)
_OPTIONS_DO_NOT_MATTER = (Unary, LocalHash, OneKey, Sampled)


def _from_supports(response: Response, none: float, one: float, two: float) -> Dependence:
    """From the mean of Q_i·Q_j for people who hold none, one or both of two keys."""
    holder, stranger = float(response.holder.support), float(response.stranger.support)
    with_none, with_one, with_both = none - stranger**2, one - holder * stranger, two - holder**2
    scale = (holder - stranger) ** 2
    curve = (with_both - 2 * with_one + with_none) / scale
    return Dependence(with_none / scale, (with_one - with_none) / scale, min(curve, 0.0))


def _sampled(constants: Dependence, kind: type[Mechanism], population: bool) -> Dependence:
    """Nobody holds two keys of a categorical mechanism; people who are a sample add the covariance of holding."""
    if issubclass(kind, Categorical):
        return replace(constants, both=0.0, product=-1.0 if population else 0.0)
    if not population:
        return constants
    return replace(constants, both=min(constants.both + 1.0, 0.0), product=constants.product - 1.0)


def _found(estimates: Estimates) -> type[Mechanism]:
    try:
        return find_mechanism(estimates.mechanism)
    except KeyveilError:
        raise _unknown(estimates.mechanism) from None


def _without_options(estimates: Estimates, kind: type[Mechanism]) -> Mechanism | None:
    """The mechanism itself, where its name, schema and epsilon say everything."""
    if len(fields(kind)) > len(fields(Mechanism)):
        return None
    return create(estimates.mechanism, estimates.schema, estimates.epsilon)


def _by_name(kind: type[Mechanism]) -> Dependence:
    if issubclass(kind, _OPTIONS_DO_NOT_MATTER) and not issubclass(kind, PCKVGRR):
        return next(rule for family, rule in _RULES if issubclass(kind, family))(None)
    raise MechanismError(
        "queries/mechanism",
        f"How estimates of {kind.name} depend on each other follows from its options; give mechanism.",
    )


def _unknown(name: str) -> MechanismError:
    return MechanismError(
        "queries/dependence",
        f"The estimates of {name} do not tell how they depend on each other; those of grr, oue, olh, kvue or ssr do.",
    )
