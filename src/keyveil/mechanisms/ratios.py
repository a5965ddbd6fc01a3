"""Columns of means that are biased by design and therefore have no interval."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.core.estimates import FLAGS, Column
from keyveil.core.schema import Schema
from keyveil.mechanisms.responses import INSUFFICIENT, Floats

SHRUNK, CLIPPED = FLAGS.index("shrunk"), FLAGS.index("clipped")


def biased_means(schema: Schema, values: Floats, flag: NDArray[np.integer]) -> Column:
    """Means that are biased by design: flagged, and without errors or limits, which would promise what is not so."""
    unknown = np.full(schema.d, np.nan)
    flagged = np.where(np.isnan(values), INSUFFICIENT, flag).astype(np.int8)
    return Column(schema, values, unknown, unknown, unknown, flagged, scaled=True)
