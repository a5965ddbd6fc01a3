"""Errors of a mechanism on known people before anybody reports, from its predicted variance and the bias of its cap.

By them a comparison finds the best cap, and a study chooses a mechanism in advance, without a look at results.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import KeyveilError, MechanismError
from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.frames.truth import Truth
from keyveil.lab.caps import missing
from keyveil.lab.contenders import BEST, CAP, Contender
from keyveil.lab.metrics import TOP, most_frequent
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import PredictedVariance, can
from keyveil.protocols.base import Protocol

Errors = dict[str, float]

CAP_QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.97, 1.0)  # of set sizes, among which the best cap is looked for
_UNKNOWN_MEAN = 1 / 3  # squared error of a mean of which nothing is learnt: the variance of a uniform law on [-1, 1]


def predicted_errors(made: Mechanism | Protocol, people: Population, truth: Truth) -> Errors | None:
    """Mean squared errors to expect by quantity, as ``lab.metrics`` names them; None for who does not predict any.

    Of a frequency: variance plus the square of what the cap hides. Of a mean: v/(1 + 3v), where v is the variance of
    the ratio to the frequency that the cap leaves. Where v is large, nothing is learnt about the mean and its error is
    at most that of a guess. A quantity that is not estimated is left out.
    """
    predicts = can(made, PredictedVariance) if isinstance(made, Mechanism) else None
    if predicts is None or not isinstance(made, Mechanism):
        return None
    lost, m = missing(made, people), np.nan_to_num(truth.mean)
    kept, held = np.maximum(truth.frequency - lost, 0), truth.frequency > 0
    sizes = np.bincount(people.sizes) / max(people.n, 1)
    spread = predicts.predicted_spread(kept, m, sizes, people.n)
    of_frequency = spread.frequency + lost**2
    ratio = (spread.product - 2 * m * spread.covariance + m**2 * spread.frequency) / np.where(held, kept, 1) ** 2
    of_mean = ratio / (1 + ratio / _UNKNOWN_MEAN)
    keys = {"": np.flatnonzero(held), "_top": most_frequent(truth.frequency, TOP)}
    found = {
        f"{quantity}{which}": float(np.mean(errors[chosen]))
        for quantity, errors in (("frequency", of_frequency), ("mean", of_mean))
        for which, chosen in keys.items()
        if len(chosen)
    }
    return {quantity: error for quantity, error in found.items() if np.isfinite(error)}


def caps_to_try(sizes: NDArray[np.int64], d: int) -> tuple[int, ...]:
    """A small grid of caps: some quantiles of the set sizes, between 1 and the number of keys."""
    quantiles = np.quantile(sizes, CAP_QUANTILES, method="inverted_cdf")
    return tuple(sorted({int(cap) for cap in np.clip(quantiles, 1, d)}))


def with_best_cap(
    contender: Contender, epsilon: Fraction, schema: Schema, people: Population, truth: Truth, told: dict[str, Any]
) -> Contender:
    """A contender whose ``max_pairs`` is best-frequency or best-mean, with the cap that has the least predicted error.

    Any other contender is returned as it is.
    """
    wanted = str(dict(contender.options).get(CAP, ""))
    if contender.made is not None or not wanted.startswith(BEST):
        return contender
    quantity, errors = wanted.removeprefix(BEST), dict[Contender, float]()
    for cap in caps_to_try(people.sizes, schema.d):
        capped = replace(contender, options=(*{**dict(contender.options), CAP: str(cap)}.items(),))
        try:
            found = predicted_errors(capped.at(epsilon, schema, people.sizes, told), people, truth) or {}
        except KeyveilError:
            continue  # a cap that the mechanism does not take
        if quantity in found:
            errors[capped] = found[quantity]
    if not errors:
        raise MechanismError(
            "compare/cap", f"{contender.name} does not tell its errors of a {quantity} beforehand: give it a cap."
        )
    return min(errors, key=errors.__getitem__)
