"""Mechanisms and protocols side by side: the same people, the same exact epsilon, errors of frequencies and means.

Two yardsticks stand beside them: the truth itself (nobody is protected, nothing is wrong), and the average of everyone
(each key gets the mean frequency and the pooled mean, so nothing is learned about keys).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, overload

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
from keyveil.lab.contenders import Contender, contenders, key_value_names, usual, with_best_caps
from keyveil.lab.datasets import Dataset
from keyveil.lab.decoders import RAW, decoded, known, title
from keyveil.lab.matching import matched, ratio_of
from keyveil.lab.metrics import Metrics, metrics
from keyveil.lab.predicted import with_best_cap
from keyveil.lab.rounds import Blocks, ask, bits_per_person
from keyveil.lab.scores import score
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
Caps = Literal["given", "best"]
CAPS: tuple[Caps, ...] = ("given", "best")


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
    decoders: Sequence[str] = ...,
    caps: Caps = ...,
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
    decoders: Sequence[str] = ...,
    caps: Caps = ...,
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
    decoders: Sequence[str] = (RAW,),
    caps: Caps = "given",
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

    ``decoders`` are what is done with everybody's estimates: ``raw`` (nothing), ``bayes`` and the methods of
    consistency, such as ``norm-sub``. With ``caps="best"`` those that have a cap also take part with the caps that have
    the least predicted error of frequencies and of means.
    """
    chosen = contenders(usual() if mechanisms is None else mechanisms)
    made = [one.made for one in chosen.values() if one.made is not None]
    own = schema or (made[0].schema if made else None)
    sets = _datasets([data] if isinstance(data, Data) else data, own, seed)
    found = comparisons(
        sets,
        _several(epsilon),
        chosen,
        options,
        repeats=repeats,
        seed=seed,
        shortcut=shortcut,
        decoders=decoders,
        caps=caps,
        progress=progress,
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
    decoders: Sequence[str] = (RAW,),
    caps: Caps = "given",
    progress: Progress | None = None,
) -> Comparisons:
    """``compare`` for data sets that are loaded one after the other, contenders by label, and options of any name."""
    epsilons, given = tuple(dict.fromkeys(parse_epsilon(one) for one in epsilon)), spelled(options)
    if not epsilons or repeats < 1 or not chosen:
        raise MechanismError("compare/size", "A comparison needs at least one mechanism, one epsilon and one run.")
    course = _Course(epsilons, given, repeats, seed, shortcut, known(decoders), progress)
    if known_caps(caps) == "best":
        chosen = with_best_caps(chosen)
    for option in given:
        if not any(option in one.known for one in chosen.values()):
            raise MechanismError("mechanism/option", f"Nobody in this comparison has the option {option!r}.")
    return Comparisons(tuple(_compared(one, chosen, course) for one in data))


def known_caps(name: str) -> Caps:
    """Which caps a comparison shows, by name; anything else is refused."""
    for one in CAPS:
        if name == one:
            return one
    raise MechanismError("compare/cap", f"Caps are {' or '.join(CAPS)}, not {name!r}.")


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


@dataclass(frozen=True)
class _Course:
    """What is the same for all data sets and contenders of a comparison."""

    epsilons: Sequence[Fraction]
    given: dict[str, Any]
    repeats: int
    seed: int
    shortcut: bool
    decoders: tuple[str, ...]
    progress: Progress | None


def _compared(dataset: Dataset, chosen: Mapping[str, Contender], course: _Course) -> Comparison:
    people, epsilons = dataset.population.keyed(dataset.schema), course.epsilons
    truth, blocks = people.truth(dataset.schema), Blocks.of(people, dataset.schema)
    entries: list[Measured] = []
    done: dict[tuple[str, Fraction], _Runs] = {}  # the best cap is often the given one: measured once
    refused: dict[str, str] = {}
    for name, one in chosen.items():
        for epsilon in epsilons:
            label = f"{name}, ε = {decimal_text(epsilon)}"
            try:
                begin = time.perf_counter()
                capped = with_best_cap(one, epsilon, dataset.schema, people, truth, course.given)
                made = capped.at(epsilon, dataset.schema, people.sizes, course.given)
                same = repr(made), epsilon
                if same not in done:
                    done[same] = _measured(epsilon, made, people, blocks, truth, course, begin)
                entries += [replace(entry, mechanism=name) for entry in done[same].entries]
                refused |= {f"{label}, {title(decoder)}": reason for decoder, reason in done[same].refused.items()}
            except KeyveilError as reason:
                refused[name if len(epsilons) == 1 else label] = reason.sentence
            if course.progress:
                course.progress(f"{dataset.name}: {label}", course.repeats)
    return Comparison(
        dataset,
        tuple(epsilons),
        course.repeats,
        course.seed,
        tuple(chosen),
        tuple(entries),
        _merged(refused, tuple(chosen), epsilons),
        _average(truth),
        course.given,
        course.decoders,
    )


@dataclass(frozen=True)
class _Runs:
    """What the runs of one contender gave, an entry for each decoder; and the decoders that do not apply to it."""

    entries: tuple[Measured, ...]
    refused: dict[str, str]


def _measured(
    epsilon: Fraction,
    made: Mechanism | Protocol,
    people: Population,
    blocks: Blocks,
    truth: Truth,
    course: _Course,
    begin: float,
) -> _Runs:
    """One entry for each decoder, all from the same reports."""
    protocol = as_protocol(made)
    runs: dict[str, list[Estimates]] = {decoder: [] for decoder in course.decoders}
    first: list[Finished] = []
    refused: dict[str, str] = {}
    for run in range(course.repeats):
        history = ask(protocol, blocks, course.seed, run, shortcut=course.shortcut)
        first = first or history
        estimates = protocol.estimate(history)
        for decoder, found in runs.items():
            try:
                found.append(decoded(decoder, estimates))
            except KeyveilError as reason:
                refused[decoder] = reason.sentence
    entries = []
    for decoder, found in runs.items():
        if decoder in refused:
            continue
        errors = [metrics(run, truth) for run in found]
        entries.append(
            Measured(
                mechanism=protocol.name,
                epsilon=epsilon,
                requested=protocol.epsilon,
                **exact_entries(realised(ratio_of(made), epsilon)),
                options=protocol.parameters,
                bits_per_report=bits_per_person(first, truth.n),
                metrics=summary(found, truth),
                spread=_spread(errors),
                truncated=any(truncated(one, people).any() for one in first),
                seconds=time.perf_counter() - begin,
                decoder=decoder,
                runs={quantity: _told(errors, quantity) for quantity in ALL_QUANTITIES},
            )
        )
    return _Runs(tuple(entries), refused)


def _told(runs: Sequence[Metrics], quantity: str) -> tuple[float, ...]:
    """The mean squared errors of the runs that tell something about a quantity."""
    return tuple(error for run in runs if (error := run[f"mse_{quantity}"]) is not None)


def _spread(runs: Sequence[Metrics]) -> Metrics:
    """The standard errors of mean squared errors that are averaged over runs; None where a single run tells none."""
    told = {quantity: _told(runs, quantity) for quantity in ALL_QUANTITIES}
    return {f"mse_{quantity}": score("", errors).spread if errors else None for quantity, errors in told.items()}


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
