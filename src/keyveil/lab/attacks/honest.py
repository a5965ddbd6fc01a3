"""How often tests of detection tell honest reports: over five populations, and whether that keeps the level.

    python -m keyveil.lab.attacks.study docs/robustness.jsonl --honest 1000

What reports are about follows from their ids alone, so that a mechanism whose tests look at nothing else has one law
whatever people hold, and is run on one population only. The others are run on all five.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.lab import datasets
from keyveil.lab.attacks.settings import with_cap
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Mechanism
from keyveil.protocols.registry import as_protocol
from keyveil.robustness.detection import detect, tests_words
from keyveil.robustness.sketches import can_sketch, sketch

PEOPLE, KEYS, CAP = 1500, 12, 3
LEVELS = (0.05, 0.01, 0.001)
ANY = "any"  # the population of mechanisms whose tests look at public words only
FAMILY = 0.01  # the chance that Holm's test finds fault with any of the rates, if all are at most nominal
LOWEST = 5  # a rate below the level divided by this is called far below

Row = dict[str, Any]


def crowds(n: int, d: int) -> dict[str, Population]:
    """Five populations, among them one with correlated and one with dense sets."""
    rare, frequent = np.linspace(0.02, 0.3, d), np.linspace(0.5, 0.95, d)
    means = np.linspace(-0.6, 0.7, d)
    return {
        "independent": datasets.independent(n, rare, means, 1),
        "dense": datasets.independent(n, frequent, means, 2),
        "correlated": datasets.named(f"synthetic:survey:{n}", seed=3).population,
        "grouped": datasets.one_of_each_group(n, rare, means, 3, 4),
        "empty": datasets.independent(n, np.full(d, 1e-3), means, 5),
    }


def one_key_crowds(n: int, d: int) -> dict[str, Population]:
    """The same for mechanisms that take one key a person; the two frequent keys cannot be told from correlated ones."""
    shares = {
        "even": np.ones(d),
        "rising": np.linspace(0.02, 0.3, d),
        "one frequent": np.r_[1, np.full(d - 1, 1e-3)],
        "two frequent": np.r_[1, 1, np.full(d - 2, 1e-3)],
        "steep": 2.0 ** -np.arange(d),
    }
    return {name: datasets.one_key(n, share / share.sum(), np.zeros(d), 3) for name, share in shares.items()}


def populations(mechanism: Mechanism, n: int) -> dict[str, Population]:
    """Those that the mechanism takes, and of which its tests can depend."""
    d = mechanism.schema.d
    if mechanism.takes == "every key":
        return {ANY: datasets.everyone(n, np.linspace(-0.6, 0.7, d), 1)}
    found = one_key_crowds(n, d) if mechanism.takes == "one key" else crowds(n, d)
    return found if can_sketch(mechanism) else {ANY: next(iter(found.values()))}


def honest_rows(name: str, epsilon: str, runs: int, known: frozenset[str] = frozenset()) -> Iterator[Row]:
    """For every population that is not known yet, how many of so many runs raised an alarm at each level."""
    sizes = datasets.independent(PEOPLE, np.full(KEYS, 0.2), np.zeros(KEYS), 1).sizes
    mechanism = as_protocol(with_cap(name, Schema(keys=KEYS), epsilon, sizes, CAP)).single
    if mechanism is None or not (tests_words(mechanism) or can_sketch(mechanism)):
        return
    sketches = can_sketch(mechanism)
    for which, crowd in populations(mechanism, PEOPLE).items():
        if which in known:
            continue
        records, alarms = crowd.records(mechanism.schema), np.zeros(len(LEVELS), dtype=np.int64)
        for run in range(runs):
            reports = mechanism.perturb_many(records, SeededCoins(40, run))
            found = detect(mechanism, mechanism.tally(reports), sketch(mechanism, reports) if sketches else None)
            least = len(found.signs) * min((one.chance for one in found.signs), default=1.0)
            alarms += least <= np.array(LEVELS)
        told = {str(level): int(count) for level, count in zip(LEVELS, alarms, strict=True)}
        yield {"name": name, "epsilon": epsilon, "population": which, "runs": runs, "alarms": told}


def chance_of(alarms: int, runs: int, level: float) -> float:
    """The chance of so many alarms or more, if their rate is the level."""
    few = (
        math.exp(
            math.lgamma(runs + 1)
            - math.lgamma(k + 1)
            - math.lgamma(runs - k + 1)
            + k * math.log(level)
            + (runs - k) * math.log1p(-level)
        )
        for k in range(alarms)
    )
    return max(0.0, 1.0 - math.fsum(few))


def too_many(rows: Sequence[Row], family: float = FAMILY) -> list[tuple[Row, float]]:
    """Rows and levels whose rate of alarms is above nominal, by Holm's test over all of them together."""
    cells = [(row, level) for row in rows for level in LEVELS]
    chances = [chance_of(row["alarms"][str(level)], row["runs"], level) for row, level in cells]
    found = []
    for rank, at in enumerate(np.argsort(chances).tolist()):
        if chances[at] > family / (len(cells) - rank):
            break
        found.append(cells[at])
    return found


def far_below(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Names and ε that reach a fifth of the largest level on fewer than two populations, or on their only one."""
    level, found = LEVELS[0], []
    for setting in dict.fromkeys((row["name"], row["epsilon"]) for row in rows):
        own = [row for row in rows if (row["name"], row["epsilon"]) == setting]
        enough = [row for row in own if row["alarms"][str(level)] >= level / LOWEST * row["runs"]]
        if len(enough) < min(2, len(own)):
            found.append(setting)
    return found
