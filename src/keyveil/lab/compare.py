"""Mechanisms side by side: the same people, the same exact epsilon, errors of frequencies and means.

Two yardsticks stand beside them: the truth itself (nobody is protected, nothing is wrong), and the average of everyone
(each key gets the mean frequency and the pooled mean, so nothing is learned about keys).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from keyveil.core.epsilon import Number, decimal_text, keeps, log_ceiling, parse_epsilon
from keyveil.core.errors import KeyveilError, MechanismError
from keyveil.core.records import Records
from keyveil.core.schema import Schema
from keyveil.core.truth import Truth
from keyveil.lab.datasets import Dataset
from keyveil.lab.metrics import Metrics
from keyveil.lab.simulate import collect, over_cap, spent, summary, with_public
from keyveil.mechanisms.base import BLOCK, Mechanism
from keyveil.mechanisms.keyvalue.base import KeyValue
from keyveil.mechanisms.registry import create, find, names

QUANTITIES = ("frequency", "mean")

_MOST_EXTRA = 2 * 4096  # up to three times what is asked for
_CLOSE = Decimal("0.999")  # a mechanism that spends this share is at its epsilon

Progress = Callable[[str, int], None]


@dataclass(frozen=True)
class Entry:
    """One mechanism at one epsilon; ``requested`` is larger where the mechanism spends less than it is asked for."""

    mechanism: str
    epsilon: Fraction
    requested: Fraction
    exact_epsilon: float | None
    options: dict[str, Any]
    bits_per_report: float
    metrics: Metrics
    truncated: bool  # some people hold more than the cap
    seconds: float

    def error(self, quantity: str) -> float | None:
        """The mean squared error over all keys that somebody holds; of "…_top" over the 20 most frequent ones."""
        return self.metrics[f"mse_{quantity}"]

    def document(self) -> dict[str, Any]:
        return {**vars(self), "epsilon": float(self.epsilon), "requested": float(self.requested)}


@dataclass(frozen=True, eq=False)
class Comparison:
    """All mechanisms on one data set."""

    dataset: Dataset
    epsilons: tuple[Fraction, ...]
    repeats: int
    seed: int
    entries: tuple[Entry, ...]
    refused: dict[str, str]  # mechanisms that do not apply, and why
    average: dict[str, float]  # squared errors of the average of everyone

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(entry.mechanism for entry in self.entries))

    def error(self, mechanism: str, epsilon: Fraction, quantity: str) -> float | None:
        found = (one for one in self.entries if one.mechanism == mechanism and one.epsilon == epsilon)
        return next((one.error(quantity) for one in found), None)

    def best(self, epsilon: Fraction, quantity: str) -> str | None:
        """The mechanism with the smallest error."""
        errors = {name: self.error(name, epsilon, quantity) for name in self.mechanisms}
        known = {name: error for name, error in errors.items() if error is not None}
        return min(known, key=known.__getitem__) if known else None

    def document(self) -> dict[str, Any]:
        """The object that ``keyveil compare --json`` prints; all but ``seconds`` is the same for a seed."""
        best = {
            quantity: {decimal_text(epsilon): self.best(epsilon, quantity) for epsilon in self.epsilons}
            for quantity in QUANTITIES
        }
        return {
            "data": self.dataset.name,
            "users": self.dataset.population.n,
            "keys": self.dataset.schema.d,
            "epsilons": [float(epsilon) for epsilon in self.epsilons],
            "repeats": self.repeats,
            "seed": self.seed,
            "best": best,
            "mechanisms": [entry.document() for entry in self.entries],
            "baselines": {
                "truth": dict.fromkeys((f"mse_{quantity}" for quantity in QUANTITIES), 0.0),
                "average": {f"mse_{quantity}": error for quantity, error in self.average.items()},
            },
            "not_applicable": self.refused,
        }


def key_value_names() -> tuple[str, ...]:
    """The mechanisms that are compared unless told: all that take sets of pairs."""
    return tuple(name for name in names() if issubclass(find(name), KeyValue))


def compare(
    dataset: Dataset,
    epsilons: Sequence[Number],
    mechanisms: Sequence[str] | None = None,
    *,
    repeats: int = 1,
    seed: int = 0,
    max_pairs: int | None = None,
    shortcut: bool = True,
    progress: Progress | None = None,
) -> Comparison:
    """Run every mechanism at every epsilon; one that cannot take the data is named with its reason.

    ``shortcut`` draws tallies from their law where there is one. ``progress`` gets a label and the runs just done.
    """
    asked = tuple(dict.fromkeys(parse_epsilon(epsilon) for epsilon in epsilons))
    chosen = tuple(dict.fromkeys(mechanisms)) if mechanisms else key_value_names()
    if not asked or repeats < 1:
        raise MechanismError("compare/size", "A comparison needs at least one epsilon and one run.")
    for name in chosen:
        find(name)  # a misspelt name is a mistake, not a mechanism that does not apply
    people = dataset.population.keyed(dataset.schema)
    records, truth = people.records(dataset.schema), people.truth(dataset.schema)
    blocks = [records.slice(start, min(start + BLOCK, records.n)) for start in range(0, records.n, BLOCK)]
    entries: list[Entry] = []
    refused: dict[str, str] = {}
    for name in chosen:
        for epsilon in asked:
            label = f"{name}, ε = {decimal_text(epsilon)}"
            try:
                options = _options(name, max_pairs, records, dataset)
                entries.append(_entry(name, epsilon, options, dataset, blocks, truth, repeats, seed, shortcut))
            except KeyveilError as reason:
                refused[name if len(asked) == 1 else label] = reason.sentence
            if progress:
                progress(f"{dataset.name}: {label}", repeats)
    return Comparison(dataset, asked, repeats, seed, tuple(entries), _merged(refused, chosen, asked), _average(truth))


def matched(name: str, schema: Schema, epsilon: Fraction, options: dict[str, Any]) -> Mechanism:
    """The mechanism whose exact epsilon is the one asked for: some published budgets spend less than they say.

    Such a mechanism may be asked for more, as long as the certificate's closed form keeps to epsilon.
    """
    mechanism = create(name, schema, epsilon, **options)
    least, most = 0, _MOST_EXTRA
    if not keeps(mechanism.ratio, epsilon) or log_ceiling(mechanism.ratio) > Decimal(float(epsilon)) * _CLOSE:
        return mechanism
    while least < most:  # steps of epsilon / 4096
        middle = (least + most + 1) // 2
        try:
            candidate = create(name, schema, epsilon * (1 + Fraction(middle, 4096)), **options)
        except KeyveilError:
            most = middle - 1
            continue
        if keeps(candidate.ratio, epsilon):
            least, mechanism = middle, candidate
        else:
            most = middle - 1
    return mechanism


def _options(name: str, max_pairs: int | None, records: Records, dataset: Dataset) -> dict[str, Any]:
    capped = "max_pairs" in {field.name for field in fields(find(name))}
    given = {"max_pairs": max_pairs} if capped and max_pairs is not None else {}
    return with_public(name, records.sizes, dataset.schema.d, given)[0]


def _entry(
    name: str,
    epsilon: Fraction,
    options: dict[str, Any],
    dataset: Dataset,
    blocks: Sequence[Records],
    truth: Truth,
    repeats: int,
    seed: int,
    shortcut: bool,
) -> Entry:
    begin = time.perf_counter()
    mechanism = matched(name, dataset.schema, epsilon, options)
    tallies = (collect(mechanism, blocks, seed, run, shortcut=shortcut) for run in range(repeats))
    metrics = summary([mechanism.estimate(tally) for tally in tallies], truth)
    truncated = bool(over_cap(mechanism, dataset.population.keyed(dataset.schema)).any())
    seconds = time.perf_counter() - begin
    bits = mechanism.bits_per_report
    shown = mechanism.options
    return Entry(name, epsilon, mechanism.epsilon, spent(mechanism), shown, bits, metrics, truncated, seconds)


def _merged(refused: dict[str, str], chosen: Sequence[str], asked: Sequence[Fraction]) -> dict[str, str]:
    """One line for a mechanism that is refused for the same reason at every epsilon."""
    merged = dict(refused)
    for name in chosen:
        labels = [f"{name}, ε = {decimal_text(epsilon)}" for epsilon in asked]
        reasons = {refused.get(label) for label in labels}
        if len(asked) > 1 and len(reasons) == 1 and None not in reasons:
            merged[name] = merged[labels[0]]
            for label in labels:
                del merged[label]
    return merged


def _average(truth: Truth) -> dict[str, float]:
    """Squared errors if every key gets the mean frequency s̄/d and the pooled mean of all pairs."""
    held = truth.count > 0
    pooled = truth.total.sum() / max(int(truth.count.sum()), 1)
    return {
        "frequency": float(np.mean((truth.frequency - truth.mean_size / len(truth.count))[held] ** 2)),
        "mean": float(np.mean((truth.mean - pooled)[held] ** 2)),
    }
