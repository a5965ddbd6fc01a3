"""What ``keyveil simulate`` does when the name is a protocol: the same, round by round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from keyveil.cli.loading import progress_bar, save, say
from keyveil.core.epsilon import parse_epsilon
from keyveil.lab.datasets import Dataset
from keyveil.lab.rounds import Run, run
from keyveil.lab.rounds_chart import over_rounds
from keyveil.protocols.base import Round
from keyveil.protocols.registry import create


def run_protocol(
    name: str, dataset: Dataset, epsilon: str, seed: int | None, repeats: int, options: dict[str, Any]
) -> Run:
    """The protocol over a data set; every round of the first run is announced on standard error."""
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

        return run(protocol, dataset.population, seed, repeats=repeats, progress=tell)


def save_rounds(result: Run, path: Path) -> None:
    """Errors and cost over the rounds, in a picture beside that of the intervals."""
    save(over_rounds(result), path.with_name(f"{path.stem}-rounds{path.suffix}"))


def total(result: Run) -> str:
    """What the person who paid most has paid."""
    return (
        f"{len(result.history)} rounds; nobody spent more than {float(result.spent):.6g} "
        f"of epsilon {float(result.protocol.epsilon):g}, whatever was announced."
    )
