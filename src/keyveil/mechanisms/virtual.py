"""Virtual iterations: what further rounds of PrivKVM would give in expectation, computed instead of asked.

The published mean of a key mixes its holders with people who lack it and make up a value of the announced mean. After
c rounds, one real and c - 1 virtual, its bias is θᶜ·(announced mean - mean), where θ of those who speak about the key
lack it; infinitely many give the unbiased mean. Derivation: docs/mechanisms/privkv.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.core.estimates import Column
from keyveil.mechanisms.ratios import CLIPPED, SHRUNK, biased_means
from keyveil.mechanisms.responses import INSUFFICIENT, Floats


def iterated_means(
    mixed: Floats,
    fake: Floats | float,
    presence: float,
    frequency: Column,
    respondents: NDArray[np.int64],
    iterations: int,
) -> Column:
    """Means on [-1, 1] after so many rounds, the real one included; flagged, without intervals.

    ``mixed`` is the published mean of the real round, in which presence was told with probability ``presence`` and
    people without the key made up values of mean ``fake``. A frequency that cannot be told from zero would make θ
    reach one and the sum explode, so it is floored at two standard errors.
    """
    floor = np.maximum(1 / np.maximum(respondents, 1), np.nan_to_num(2 * frequency.se))
    held = np.clip(np.nan_to_num(frequency.values), np.minimum(floor, 1), 1)
    true, false = held * presence, (1 - held) * (1 - presence)  # claims to hold the key
    theta = false / (true + false)
    values = fake + (mixed - fake) * (1 - theta**iterations) / (1 - theta)
    flag = np.select([frequency.values < floor, frequency.values > 1], [INSUFFICIENT, CLIPPED], SHRUNK)
    return biased_means(frequency.schema, values, flag)
