"""Mechanisms side by side: the same people, the same exact epsilon, errors of frequencies and means.

Two yardsticks stand beside them: the truth itself (nobody is protected, nothing is wrong), and the average of everyone
(each key gets the mean frequency and the pooled mean, so nothing is learned about keys).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from keyveil.core.epsilon import Number, decimal_text, keeps, log_ceiling, parse_epsilon
from keyveil.core.errors import KeyveilError, MechanismError
from keyveil.core.records import Records
from keyveil.core.schema import Schema
from keyveil.frames.truth import Truth
from keyveil.lab.contenders import Contender, key_value_names, usual
from keyveil.lab.datasets import Dataset
from keyveil.lab.metrics import Metrics, metrics
from keyveil.lab.simulate import collect, over_cap, spent, summary, with_public
from keyveil.mechanisms.base import BLOCK, Mechanism
from keyveil.mechanisms.registry import create, find_mechanism

__all__ = ["QUANTITIES", "Comparison", "Measured", "compare", "key_value_names", "matched"]

QUANTITIES = ("frequency", "mean")
ALL_QUANTITIES = (*QUANTITIES, *(f"{quantity}_top" for quantity in QUANTITIES))
TIE = 2  # standard errors of a difference below which two errors are not told apart

_MOST_EXTRA = 31 * 4096  # up to 32 times what is asked for: one pair out of many padded ones hides much
_CLOSE = Decimal("0.999")  # a mechanism that spends this share is at its epsilon

Progress = Callable[[str, int], None]


@dataclass(frozen=True)
class Measured:
    """One mechanism at one epsilon; ``requested`` is larger where the mechanism spends less than it is asked for.

    ``mechanism`` has its options behind a colon where it was given some. ``spread`` are the standard errors of the mean
    squared errors over the runs; nothing is known about them after a single run.
    """

    mechanism: str
    epsilon: Fraction
    requested: Fraction
    exact_epsilon: float | None
    exact_epsilon_decimal: str | None
    options: dict[str, Any]
    bits_per_report: float
    metrics: Metrics
    spread: Metrics
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
    chosen: tuple[str, ...]
    entries: tuple[Measured, ...]
    refused: dict[str, str]  # mechanisms that do not apply, and why
    average: dict[str, float]  # squared errors of the average of everyone

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(entry.mechanism for entry in self.entries))

    def error(self, mechanism: str, epsilon: Fraction, quantity: str) -> float | None:
        found = self._entries.get((mechanism, epsilon))
        return None if found is None else found.error(quantity)

    def spread(self, mechanism: str, epsilon: Fraction, quantity: str) -> float | None:
        """The standard error of ``error`` over the runs."""
        found = self._entries.get((mechanism, epsilon))
        return None if found is None else found.spread[f"mse_{quantity}"]

    def best(self, epsilon: Fraction, quantity: str, among: Sequence[str] | None = None) -> str | None:
        """The mechanism with the smallest error."""
        errors = {name: self.error(name, epsilon, quantity) for name in among or self.mechanisms}
        known = {name: error for name, error in errors.items() if error is not None}
        return min(known, key=known.__getitem__) if known else None

    def ties(self, epsilon: Fraction, quantity: str, among: Sequence[str] | None = None) -> tuple[str, ...]:
        """Whom the runs do not tell from the best: their errors differ by less than two standard errors."""
        best = self.best(epsilon, quantity, among)
        if best is None:
            return ()
        others = (name for name in among or self.mechanisms if name != best)
        return tuple(name for name in others if self._close(name, best, epsilon, quantity))

    def _close(self, name: str, best: str, epsilon: Fraction, quantity: str) -> bool:
        error, least = (self.error(one, epsilon, quantity) for one in (name, best))
        spread, steady = (self.spread(one, epsilon, quantity) for one in (name, best))
        if error is None or least is None or spread is None or steady is None:
            return False
        return error - least < TIE * math.hypot(spread, steady)

    @cached_property
    def _entries(self) -> dict[tuple[str, Fraction], Measured]:
        return {(one.mechanism, one.epsilon): one for one in self.entries}

    def document(self) -> dict[str, Any]:
        """The object that ``keyveil compare --json`` prints; all but ``seconds`` is the same for a seed."""

        def told(ask: Callable[[Fraction, str], Any]) -> dict[str, dict[str, Any]]:
            return {
                quantity: {decimal_text(epsilon): ask(epsilon, quantity) for epsilon in self.epsilons}
                for quantity in QUANTITIES
            }

        return {
            "data": self.dataset.name,
            "users": self.dataset.population.n,
            "keys": self.dataset.schema.d,
            "epsilons": [float(epsilon) for epsilon in self.epsilons],
            "repeats": self.repeats,
            "seed": self.seed,
            "best": told(self.best),
            "ties": told(self.ties),
            "mechanisms": [entry.document() for entry in self.entries],
            "baselines": {
                "truth": dict.fromkeys((f"mse_{quantity}" for quantity in QUANTITIES), 0.0),
                "average": {f"mse_{quantity}": error for quantity, error in self.average.items()},
            },
            "not_applicable": self.refused,
        }


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

    Mechanisms may have options, as in ``privkv:split=paper``. ``shortcut`` draws tallies from their law where there is
    one. ``progress`` gets a label and the runs just done.
    """
    asked = tuple(dict.fromkeys(parse_epsilon(epsilon) for epsilon in epsilons))
    if not asked or repeats < 1:
        raise MechanismError("compare/size", "A comparison needs at least one epsilon and one run.")
    chosen = {one.label: one for one in map(Contender.parse, mechanisms or usual())}
    people = dataset.population.keyed(dataset.schema)
    records, truth = people.records(dataset.schema), people.truth(dataset.schema)
    blocks = [records.slice(start, min(start + BLOCK, records.n)) for start in range(0, records.n, BLOCK)]
    entries: list[Measured] = []
    refused: dict[str, str] = {}
    for one in chosen.values():
        for epsilon in asked:
            label = f"{one.label}, ε = {decimal_text(epsilon)}"
            try:
                options = _options(one, max_pairs, records, dataset)
                entries.append(_entry(one, epsilon, options, dataset, blocks, truth, repeats, seed, shortcut))
            except KeyveilError as reason:
                refused[one.label if len(asked) == 1 else label] = reason.sentence
            if progress:
                progress(f"{dataset.name}: {label}", repeats)
    return Comparison(
        dataset,
        asked,
        repeats,
        seed,
        tuple(chosen),
        tuple(entries),
        _merged(refused, tuple(chosen), asked),
        _average(truth),
    )


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


def _options(one: Contender, max_pairs: int | None, records: Records, dataset: Dataset) -> dict[str, Any]:
    capped = "max_pairs" in {field.name for field in fields(find_mechanism(one.name))}
    given: dict[str, Any] = {"max_pairs": max_pairs} if capped and max_pairs is not None else {}
    return with_public(one.name, records.sizes, dataset.schema.d, {**given, **dict(one.options)})[0]


def _entry(
    one: Contender,
    epsilon: Fraction,
    options: dict[str, Any],
    dataset: Dataset,
    blocks: Sequence[Records],
    truth: Truth,
    repeats: int,
    seed: int,
    shortcut: bool,
) -> Measured:
    begin = time.perf_counter()
    mechanism = matched(one.name, dataset.schema, epsilon, options)
    tallies = (collect(mechanism, blocks, seed, run, shortcut=shortcut) for run in range(repeats))
    runs = [mechanism.estimate(tally) for tally in tallies]
    errors, spread = summary(runs, truth), _spread([metrics(run, truth) for run in runs])
    truncated = bool(over_cap(mechanism, dataset.population.keyed(dataset.schema)).any())
    seconds = time.perf_counter() - begin
    return Measured(
        mechanism=one.label,
        epsilon=epsilon,
        requested=mechanism.epsilon,
        **spent(mechanism),
        options=mechanism.options,
        bits_per_report=mechanism.bits_per_report,
        metrics=errors,
        spread=spread,
        truncated=truncated,
        seconds=seconds,
    )


def _spread(runs: Sequence[Metrics]) -> Metrics:
    """The standard errors of mean squared errors that are averaged over runs; None where a single run tells none."""

    def standard_error(name: str) -> float | None:
        known = [error for run in runs if (error := run[name]) is not None]
        return float(np.std(known, ddof=1) / math.sqrt(len(known))) if len(known) > 1 else None

    return {f"mse_{quantity}": standard_error(f"mse_{quantity}") for quantity in ALL_QUANTITIES}


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
