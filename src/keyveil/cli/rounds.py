"""A simulation on the terminal: rounds as they begin, and what they cost in the end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from keyveil.cli.data import many, progress_bar, save
from keyveil.core.schema import GRID
from keyveil.display.rounds import over_rounds
from keyveil.lab.datasets import Dataset
from keyveil.lab.simulate import Simulation, simulate
from keyveil.mechanisms.base import Mechanism
from keyveil.protocols.base import Protocol, Round
from keyveil.protocols.registry import as_protocol

_SHOWN = 4  # numbers of a long list
_LETTERS = 40  # of a long word
_ON_THE_GRID = ("fake", "centres")  # whole numbers that stand for means


def run_rounds(
    made: Mechanism | Protocol, dataset: Dataset, seed: int | None, repeats: int, threads: int
) -> Simulation:
    """A simulation over a data set; every round of a protocol's first run is announced on standard error."""
    people, runs = dataset.n, 0
    with progress_bar(people * repeats) as (bar, task):

        def announce(current: Round) -> None:
            nonlocal runs
            runs += current.number == 1
            answering = round(people * float(current.part.stop - current.part.start))
            which = f"Round {current.number}" if repeats == 1 else f"Run {runs}, round {current.number}"
            bar.reset(task, total=answering, description=which)
            if runs == 1:  # through the bar's own console, which keeps the two apart
                bar.console.print(_announcement(current), soft_wrap=True)

        return simulate(
            made,
            dataset.stream or dataset.population,
            seed=seed,
            repeats=repeats,
            threads=threads,
            progress=lambda answered: bar.advance(task, answered),
            announce=announce if as_protocol(made).single is None else None,
        )


def _announcement(current: Round) -> str:
    """A round in one line: which mechanism, what those who answer are told, and what they pay."""
    mechanism = current.mechanism
    told = ", ".join(f"{name} {_shown(mechanism, name)}" for name, value in mechanism.options.items() if value)
    return (
        f"Round {current.number}: {mechanism.name}{f' ({told})' if told else ''}, "
        f"at a cost of {float(current.epsilon):.6g} for each who answers."
    )


def _shown(mechanism: Mechanism, name: str) -> str:
    """An option for the eye: the beginning of a long one, means on [-1, 1], and keys by their names."""
    value = mechanism.options[name]
    if isinstance(value, Mapping):
        return " ".join(f"{option} {choice}" for option, choice in value.items() if choice)
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


def save_rounds(result: Simulation, path: Path) -> None:
    """Errors and cost over the rounds, in a picture beside that of the intervals."""
    save(over_rounds(result), path.with_name(f"{path.stem}-rounds{path.suffix}"))


def total(result: Simulation) -> str:
    """The largest epsilon that a person has spent, and the round after which the cost F was least."""
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
