"""Mechanisms and protocols side by side: the same people, the same exact epsilon, errors of frequencies and means.

Two yardsticks stand beside them: the truth itself (nobody is protected, nothing is wrong), and the average of everyone
(each key gets the mean frequency and the pooled mean, so nothing is learned about keys).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, overload

import numpy as np

from keyveil.core.epsilon import Number, decimal_text, exact_entries, parse_epsilon, realised
from keyveil.core.errors import KeyveilError, MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.frames.truth import Truth
from keyveil.lab import datasets
from keyveil.lab.caps import truncated
from keyveil.lab.comparison import ALL_QUANTITIES, QUANTITIES, Comparison, Comparisons, Measured
from keyveil.lab.contenders import Contender, contenders, key_value_names, usual
from keyveil.lab.datasets import Dataset
from keyveil.lab.matching import matched, ratio_of
from keyveil.lab.metrics import Metrics, metrics
from keyveil.lab.rounds import Blocks, ask, bits_per_person
from keyveil.lab.simulate import summary
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.options import spelled
from keyveil.protocols.base import Finished, Protocol
from keyveil.protocols.registry import as_protocol

__all__ = [
    "ALL_QUANTITIES",
    "QUANTITIES",
    "Comparison",
    "Comparisons",
    "Measured",
    "compare",
    "key_value_names",
    "matched",
]

Data = Dataset | Population | str
Progress = Callable[[str, int], None]


@overload
def compare(
    data: Data,
    epsilon: Number | Sequence[Number] = ...,
    mechanisms: Sequence[str | Mechanism | Protocol] | None = ...,
    *,
    schema: Schema | None = ...,
    repeats: int = ...,
    seed: int = ...,
    shortcut: bool = ...,
    progress: Progress | None = ...,
    **options: Any,
) -> Comparison: ...


@overload
def compare(
    data: Sequence[Data],
    epsilon: Number | Sequence[Number] = ...,
    mechanisms: Sequence[str | Mechanism | Protocol] | None = ...,
    *,
    schema: Schema | None = ...,
    repeats: int = ...,
    seed: int = ...,
    shortcut: bool = ...,
    progress: Progress | None = ...,
    **options: Any,
) -> Comparisons: ...


def compare(
    data: Data | Sequence[Data],
    epsilon: Number | Sequence[Number] = 1,
    mechanisms: Sequence[str | Mechanism | Protocol] | None = None,
    *,
    schema: Schema | None = None,
    repeats: int = 1,
    seed: int = 0,
    shortcut: bool = True,
    progress: Progress | None = None,
    **options: Any,
) -> Comparison | Comparisons:
    """Run every contender at every epsilon over the same people.

    ``data`` is a population, a data set, what the command line calls one (``synthetic:gauss:50000``, a file), or a list
    of these: then the result has one comparison for each. ``mechanisms`` are names of mechanisms and protocols, with
    options as in ``privkv:split=paper``, or objects; without them all mechanisms that take sets of pairs. Everybody
    spends epsilon in all: what spends less than requested gets a larger request. ``options`` such as ``max_pairs=3`` go
    to all who have them; ``schema`` is for populations, whose own range it replaces. Who cannot take the data or
    cannot spend epsilon is named under ``refused`` with the reason. ``shortcut`` draws tallies from their law where
    there is one; ``progress`` gets a label and the runs just done.
    """
    chosen = contenders(usual() if mechanisms is None else mechanisms)
    made = [one.made for one in chosen.values() if one.made is not None]
    own = schema or (made[0].schema if made else None)
    sets = _datasets([data] if isinstance(data, Data) else data, own, seed)
    found = comparisons(
        sets, _several(epsilon), chosen, options, repeats=repeats, seed=seed, shortcut=shortcut, progress=progress
    )
    return found[0] if isinstance(data, Data) else found


def comparisons(
    data: Iterable[Dataset],
    epsilon: Sequence[Number],
    chosen: Mapping[str, Contender],
    options: Mapping[str, Any],
    *,
    repeats: int = 1,
    seed: int = 0,
    shortcut: bool = True,
    progress: Progress | None = None,
) -> Comparisons:
    """``compare`` for data sets that are loaded one after the other, contenders by label, and options of any name."""
    epsilons, given = tuple(dict.fromkeys(parse_epsilon(one) for one in epsilon)), spelled(options)
    if not epsilons or repeats < 1 or not chosen:
        raise MechanismError("compare/size", "A comparison needs at least one mechanism, one epsilon and one run.")
    for option in given:
        if not any(option in one.known for one in chosen.values()):
            raise MechanismError("mechanism/option", f"Nobody in this comparison has the option {option!r}.")
    return Comparisons(
        tuple(_compared(one, epsilons, chosen, given, repeats, seed, shortcut, progress) for one in data)
    )


def _several(epsilon: Number | Sequence[Number]) -> Sequence[Number]:
    return (epsilon,) if isinstance(epsilon, int | float | str | Fraction | Decimal) else epsilon


def _datasets(data: Sequence[Data], schema: Schema | None, seed: int) -> list[Dataset]:
    if not data:
        raise MechanismError("compare/size", "A comparison needs at least one data set.")
    found: list[Dataset] = []
    for place, one in enumerate(data, start=1):
        if isinstance(one, str):
            found.append(datasets.named(one, seed=seed))
        elif isinstance(one, Population):
            name = "population" if len(data) == 1 else f"population {place}"
            about = "the range is that of the data" if schema is None else "values clipped to the given range"
            found.append(Dataset(name, one, schema or one.schema(), about, name))
        else:
            found.append(one)
    return found


def _compared(
    dataset: Dataset,
    epsilons: Sequence[Fraction],
    chosen: Mapping[str, Contender],
    given: dict[str, Any],
    repeats: int,
    seed: int,
    shortcut: bool,
    progress: Progress | None,
) -> Comparison:
    people = dataset.population.keyed(dataset.schema)
    truth, blocks = people.truth(dataset.schema), Blocks.of(people, dataset.schema)
    entries: list[Measured] = []
    refused: dict[str, str] = {}
    for name, one in chosen.items():
        for epsilon in epsilons:
            label = f"{name}, ε = {decimal_text(epsilon)}"
            try:
                begin = time.perf_counter()
                made = one.at(epsilon, dataset.schema, people.sizes, given)
                entries.append(_measured(name, epsilon, made, people, blocks, truth, repeats, seed, shortcut, begin))
            except KeyveilError as reason:
                refused[name if len(epsilons) == 1 else label] = reason.sentence
            if progress:
                progress(f"{dataset.name}: {label}", repeats)
    return Comparison(
        dataset,
        tuple(epsilons),
        repeats,
        seed,
        tuple(chosen),
        tuple(entries),
        _merged(refused, tuple(chosen), epsilons),
        _average(truth),
        given,
    )


def _measured(
    label: str,
    epsilon: Fraction,
    made: Mechanism | Protocol,
    people: Population,
    blocks: Blocks,
    truth: Truth,
    repeats: int,
    seed: int,
    shortcut: bool,
    begin: float,
) -> Measured:
    protocol = as_protocol(made)
    runs: list[Estimates] = []
    first: list[Finished] = []
    for run in range(repeats):
        history = ask(protocol, blocks, seed, run, shortcut=shortcut)
        first = first or history
        runs.append(protocol.estimate(history))
    return Measured(
        mechanism=label,
        epsilon=epsilon,
        requested=protocol.epsilon,
        **exact_entries(realised(ratio_of(made), epsilon)),
        options=protocol.parameters,
        bits_per_report=bits_per_person(first, truth.n),
        metrics=summary(runs, truth),
        spread=_spread([metrics(run, truth) for run in runs]),
        truncated=any(truncated(one, people).any() for one in first),
        seconds=time.perf_counter() - begin,
    )


def _spread(runs: Sequence[Metrics]) -> Metrics:
    """The standard errors of mean squared errors that are averaged over runs; None where a single run tells none."""

    def standard_error(name: str) -> float | None:
        known = [error for run in runs if (error := run[name]) is not None]
        return float(np.std(known, ddof=1) / math.sqrt(len(known))) if len(known) > 1 else None

    return {f"mse_{quantity}": standard_error(f"mse_{quantity}") for quantity in ALL_QUANTITIES}


def _merged(refused: dict[str, str], chosen: Sequence[str], epsilons: Sequence[Fraction]) -> dict[str, str]:
    """One line for a contender that is refused for the same reason at every epsilon."""
    merged = dict(refused)
    for name in chosen:
        labels = [f"{name}, ε = {decimal_text(epsilon)}" for epsilon in epsilons]
        reasons = {refused.get(label) for label in labels}
        if len(epsilons) > 1 and len(reasons) == 1 and None not in reasons:
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
