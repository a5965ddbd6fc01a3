"""What commands do when the name is a protocol: the same as for a mechanism, round by round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from keyveil.cli.data import many, progress_bar, save, say
from keyveil.cli.options import USUAL_PAIRS
from keyveil.core.epsilon import Number, parse_epsilon
from keyveil.core.schema import GRID, Schema
from keyveil.lab.datasets import Dataset
from keyveil.lab.rounds import Run, run, with_public
from keyveil.lab.rounds_chart import over_rounds
from keyveil.mechanisms.base import Mechanism
from keyveil.protocols.base import Protocol, Round
from keyveil.protocols.registry import create

_SHOWN = 4  # numbers of a long list
_LETTERS = 40  # of a long word
_ON_THE_GRID = ("fake", "centres")  # whole numbers that stand for means


def run_protocol(
    name: str,
    dataset: Dataset,
    epsilon: str,
    seed: int | None,
    repeats: int,
    options: dict[str, Any],
    threads: int = 1,
) -> Run:
    """The protocol over a data set; every round of the first run is announced on standard error."""
    sizes = dataset.population.keyed(dataset.schema).sizes
    options, notes = with_public(name, sizes, dataset.schema.d, options)
    protocol = create(name, dataset.schema, parse_epsilon(epsilon), **options)
    runs = 0
    with progress_bar(dataset.population.n) as (bar, task):

        def announce(asked: Round) -> None:
            nonlocal runs
            runs += asked.number == 1
            people = round(dataset.population.n * float(asked.part.stop - asked.part.start))
            which = f"Round {asked.number}" if repeats == 1 else f"Run {runs}, round {asked.number}"
            bar.reset(task, total=people, description=which)
            if runs == 1:  # through the bar's own console, which keeps the two apart
                bar.console.print(_announcement(asked), soft_wrap=True)

        return run(
            protocol,
            dataset.population,
            seed,
            repeats=repeats,
            threads=threads,
            progress=lambda _, people: bar.advance(task, people),
            announce=announce,
            notes=notes,
        )


def _announcement(asked: Round) -> str:
    """A round in one line: what is asked, what those who answer are told, and what they pay."""
    mechanism = asked.mechanism
    told = ", ".join(f"{name} {_shown(mechanism, name)}" for name, value in mechanism.options.items() if value)
    return (
        f"Round {asked.number}: {mechanism.name}{f' ({told})' if told else ''}, "
        f"at a cost of {float(asked.epsilon):.6g} for each who answers."
    )


def _shown(mechanism: Mechanism, name: str) -> str:
    """An option for the eye: the beginning of a long one, means on [-1, 1], and keys by their names."""
    value = mechanism.options[name]
    if not isinstance(value, tuple | list):
        word = str(value)
        return word if len(word) <= _LETTERS else word[:_LETTERS] + "…"
    some = value[:_SHOWN]
    if name in _ON_THE_GRID:
        items = [f"{place / GRID:.3g}" for place in some]
    elif name == "keys":
        items = [mechanism.schema.keys[at] for at in some]
    else:
        items = [str(item) for item in some]
    return ", ".join(items) + (f", … ({len(value):,} in all)" if len(value) > _SHOWN else "")


def without_data(name: str, keys: int, epsilon: Number, options: dict[str, Any]) -> Protocol:
    """A protocol for so many keys; how many pairs people hold is assumed where it must be known, and said."""
    usual = np.array([min(USUAL_PAIRS, keys)])
    filled, notes = with_public(name, usual, keys, options)
    for _ in notes:
        say(f"keyveil: {name} is taken for people with {usual[0]} pairs; say otherwise with --max-pairs.")
    return create(name, Schema(keys=keys), epsilon, **filled)


def save_rounds(result: Run, path: Path) -> None:
    """Errors and cost over the rounds, in a picture beside that of the intervals."""
    save(over_rounds(result), path.with_name(f"{path.stem}-rounds{path.suffix}"))


def total(result: Run) -> str:
    """What the person who paid most has paid, and after which round the means were best worth their rounds."""
    paid = (
        f"{many(len(result.history), 'round')}; nobody spent more than {float(result.spent):.6g} "
        f"of epsilon {float(result.protocol.epsilon):g}, whatever was announced."
    )
    best = result.cheapest
    if best is None:
        return paid
    least, last = result.cost(best), result.cost(len(result.history))
    run = "" if result.repeats == 1 else " of the first run"
    return (
        f"{paid} The cost F{run}, the error of the announced means plus the price of rounds, is least after "
        f"round {best}: {least:.3g}; it ended at {last:.3g}."
    )
