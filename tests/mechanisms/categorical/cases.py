"""The categorical mechanisms in all their forms, and people with one key each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.records import Records
from keyveil.core.schema import Schema
from keyveil.mechanisms.families.categorical import Categorical, FrequencyOracle
from keyveil.mechanisms.registry import create

ORACLES: list[tuple[str, dict[str, Any]]] = [
    ("grr", {}),
    ("sue", {}),
    ("oue", {}),
    ("olh", {}),
    ("olh", {"buckets": 3}),
    ("ss", {}),
    ("ss", {"size": 2}),
    ("hr", {}),
    ("hr", {"form": "bit"}),
    ("shist", {}),
]
FORMS = [*ORACLES, ("rappor", {}), ("rappor", {"permanent": "0.25"}), ("rappor", {"hashes": 1, "bits": 40})]


def title(form: tuple[str, dict[str, Any]]) -> str:
    name, options = form
    return name + "".join(f"-{option}={value}" for option, value in options.items())


def categorical(form: tuple[str, dict[str, Any]], keys: int, epsilon: str = "1") -> Categorical:
    name, options = form
    mechanism = create(name, Schema(keys=keys), epsilon, **options)
    assert isinstance(mechanism, Categorical)
    return mechanism


def oracle(form: tuple[str, dict[str, Any]], keys: int, epsilon: str = "1") -> FrequencyOracle:
    mechanism = categorical(form, keys, epsilon)
    assert isinstance(mechanism, FrequencyOracle)
    return mechanism


def holding(keys: NDArray[Any], d: int) -> Records:
    """One person for each entry, who holds that key."""
    held = np.asarray(keys, dtype=np.int32)
    return Records(np.arange(len(held) + 1, dtype=np.int64), held, np.zeros_like(held), d)
