"""What the tests of the padding-and-sampling mechanisms share: exact expectations, and exact epsilon."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

from keyveil.core.epsilon import log_ceiling
from keyveil.core.schema import GRID, Schema
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.registry import create
from keyveil.privacy.certify import enumerate_worst
from keyveil.privacy.enumerate import law

PLUS, MINUS = GRID, -GRID


def make(name: str, d: int, max_pairs: int, epsilon: str = "1", **options: Any) -> Any:
    return create(name, Schema(keys=d), epsilon, max_pairs=max_pairs, **options)


def spent(mechanism: Mechanism) -> float:
    """The exact epsilon over all pairs of records, of every size."""
    return float(log_ceiling(enumerate_worst(mechanism).ratio))


def expected_counts(mechanism: Mechanism, pairs: Pairs) -> Any:
    """What one person with these pairs adds to a tally on average, exactly: lists of fractions in its shape."""
    expected: Any = Fraction(0)
    for payload, share in law(partial(mechanism.respond, pairs, 0)).items():
        counts = mechanism.fold(mechanism.codec.stack([payload]), None)  # type: ignore[arg-type]
        expected = expected + counts.astype(object) * share
    return expected.tolist()
