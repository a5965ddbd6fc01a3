"""Mechanisms by name with their usual options, and people for them: five pairs each, or what the mechanism takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from keyveil.core.records import Records
from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import create, find_mechanism

PAIRS, CAP = 5, 8  # pairs of a person, and how many a mechanism takes


def usual(name: str, keys: int, **options: Any) -> Mechanism:
    """The mechanism with so many keys and ε = 1; ``MechanismError`` if so many keys are not for it."""
    needs = {option for example in find_mechanism(name).examples[:1] for option in example}
    if "max_pairs" in needs:
        options.setdefault("max_pairs", min(CAP, keys))
    if "set_sizes" in needs:
        options.setdefault("set_sizes", str(min(PAIRS, keys)))
    return create(name, Schema(keys=keys, low=-1, high=1), 1, **options)


def record_for(mechanism: Mechanism) -> dict[int, float]:
    """A record that the mechanism takes: some pairs, or one key, or all keys."""
    keys = mechanism.schema.d
    if mechanism.takes == "every key":
        return {key: (key % 21 - 10) / 10 for key in range(keys)}
    if mechanism.takes == "one key":
        return {keys // 3: 1.0}
    return {keys // PAIRS * number + number: (number - 2) / 2 for number in range(PAIRS)}


def people(mechanism: Mechanism, n: int) -> Records:
    """So many people, with keys at random and values 0."""
    keys = mechanism.schema.d
    pairs = {"every key": keys, "one key": 1}.get(mechanism.takes, min(PAIRS, keys))
    room = keys // pairs  # each pair has its own stretch of keys, so that keys rise
    draws = np.random.default_rng(1).integers(room, size=(n, pairs), dtype=np.int32)
    draws += room * np.arange(pairs, dtype=np.int32)
    return Records(np.arange(n + 1) * pairs, draws.reshape(-1), np.zeros(n * pairs, dtype=np.int32), keys)
