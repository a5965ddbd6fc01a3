"""What commands do when the name is a protocol: the same as for a mechanism, round by round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from keyveil.cli.loading import progress_bar, save, say
from keyveil.cli.options import USUAL_PAIRS
from keyveil.core.epsilon import Number, parse_epsilon
from keyveil.core.schema import Schema
from keyveil.lab.datasets import Dataset
from keyveil.lab.rounds import Run, run, with_public
from keyveil.lab.rounds_chart import over_rounds
from keyveil.protocols.base import Protocol, Round
from keyveil.protocols.registry import create


def run_protocol(
    name: str, dataset: Dataset, epsilon: str, seed: int | None, repeats: int, options: dict[str, Any]
) -> Run:
    """The protocol over a data set; every round of the first run is announced on standard error."""
    sizes = dataset.population.keyed(dataset.schema).sizes
    options, notes = with_public(name, sizes, dataset.schema.d, options)
    protocol = create(name, dataset.schema, parse_epsilon(epsilon), **options)
    heard = 0
    with progress_bar(dataset.population.n) as (bar, task):

        def tell(asked: Round, people: int) -> None:
            nonlocal heard
            if asked.number > heard:
                heard = asked.number
                cost = float(asked.epsilon)
                say(f"Round {heard}: {asked.mechanism.name}, at a cost of {cost:.6g} for each who answers.")
            if bar.tasks[0].completed >= dataset.population.n:
                bar.reset(task)
            bar.update(task, advance=people, description=f"Round {asked.number}")

        return run(protocol, dataset.population, seed, repeats=repeats, progress=tell, notes=notes)


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
    """What the person who paid most has paid."""
    return (
        f"{len(result.history)} rounds; nobody spent more than {float(result.spent):.6g} "
        f"of epsilon {float(result.protocol.epsilon):g}, whatever was announced."
    )
