"""Columns of estimates for means that are ratios of f·m and f, and for means that deserve no interval."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.core.estimates import FLAGS, Column, Estimates
from keyveil.core.schema import Schema
from keyveil.mechanisms.families.key_value import KeyValue
from keyveil.mechanisms.responses import INSUFFICIENT, Floats, Spread, fieller, normal_quantile

SHRUNK, CLIPPED = FLAGS.index("shrunk"), FLAGS.index("clipped")


def ratio_estimates(
    mechanism: KeyValue,
    *,
    n: int,
    asked: NDArray[np.int64],
    frequency: Floats,
    product: Floats,
    spread: Spread,
    confidence: float,
    population: bool,
) -> Estimates:
    """Estimates from frequencies, products f·m and their joint errors; unknown where nobody was asked."""
    z, nothing = normal_quantile(confidence), asked == 0
    se = np.where(nothing, np.nan, np.sqrt(spread.frequency))
    low, high = np.where(nothing, 0, frequency - z * se), np.where(nothing, 1, frequency + z * se)
    flag = np.where(nothing, INSUFFICIENT, 0).astype(np.int8)
    return Estimates(
        schema=mechanism.schema,
        mechanism=mechanism.name,
        epsilon=mechanism.epsilon,
        n=n,
        confidence=confidence,
        population=population,
        asked=asked,
        frequency=Column(mechanism.schema, frequency, se, low, high, flag),
        mean=fieller(mechanism.schema, frequency, product, spread, z),
        product=product,
        product_se=np.sqrt(spread.product),
        covariance=spread.covariance,
    )


def biased_means(schema: Schema, values: Floats, flag: NDArray[np.integer]) -> Column:
    """Means that are biased by design: flagged, and without errors or limits, which would promise what is not so."""
    unknown = np.full(schema.d, np.nan)
    flagged = np.where(np.isnan(values), INSUFFICIENT, flag).astype(np.int8)
    return Column(schema, values, unknown, unknown, unknown, flagged, scaled=True)
