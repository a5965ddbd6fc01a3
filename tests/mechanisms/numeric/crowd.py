"""People for the tests of numeric mechanisms, and the exact unbiased estimate that one report stands for."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.schema import GRID, Schema
from keyveil.mechanisms.families.numeric import Numeric
from keyveil.mechanisms.numeric.duchi import Duchi
from keyveil.mechanisms.numeric.hybrid import Hybrid
from keyveil.mechanisms.numeric.mean_est import MeanEst
from keyveil.mechanisms.numeric.piecewise import Piecewise
from keyveil.mechanisms.numeric.square_wave import SquareWave
from keyveil.mechanisms.registry import create

NAMES = ("duchi", "mean-est", "piecewise", "hybrid", "square-wave")
EPSILONS = ("0.1", "0.5", "1", "2", "5")


def numeric(name: str, epsilon: str, keys: int = 1, **options: Any) -> Numeric:
    mechanism = create(name, Schema(keys=keys), epsilon, **options)
    assert isinstance(mechanism, Numeric)
    return mechanism


def everyone(values: NDArray[Any]) -> Records:
    """People with values on [-1, 1]; a column for each key."""
    table = np.rint(np.asarray(values, dtype=float).reshape(len(values), -1) * GRID).astype(np.int32)
    n, d = table.shape
    return Records(np.arange(n + 1) * d, np.tile(np.arange(d, dtype=np.int32), n), table.reshape(-1), d)


def stands_for(mechanism: Numeric, payload: Payload, word: int, key: int = 0) -> Fraction:
    """The unbiased estimate of a key's value, written down from the channel's integers by another hand."""
    if isinstance(mechanism, MeanEst):
        assert isinstance(payload, bytes)
        positive = payload[key // 8] >> key % 8 & 1
        return (2 * positive - 1) / mechanism.slope
    assert isinstance(payload, int)
    if isinstance(mechanism, Duchi):
        return (2 * payload - 1) * Fraction(mechanism.channel.total, mechanism.channel.high - mechanism.channel.low)
    if isinstance(mechanism, Hybrid) and not mechanism.is_piecewise(word):
        return (2 * payload - 1) * Fraction(mechanism.sign.total, mechanism.sign.high - mechanism.sign.low)
    assert isinstance(mechanism, Piecewise | Hybrid | SquareWave)
    channel, half = mechanism.window.channel, mechanism.window.half
    steps = Fraction(mechanism.window.inputs - 1, 2)
    centred = payload - Fraction(channel.outputs - 1, 2)
    return centred * channel.total / ((channel.high - channel.low) * (2 * half + 1) * steps)
