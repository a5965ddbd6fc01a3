"""``keyveil simulate``: one mechanism or protocol over a file, truth against estimates."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from keyveil.cli.attacked_estimates import recovered
from keyveil.cli.data import (
    Data,
    GroupsOption,
    HierarchyOption,
    High,
    Key,
    LevelsOption,
    Low,
    Plot,
    User,
    Value,
    describe,
    listed,
    many,
    save,
    say,
    screen,
)
from keyveil.cli.estimate import write_tally
from keyveil.cli.options import (
    Attackers,
    Detect,
    Epsilon,
    Json,
    MaxPairs,
    PerKey,
    Raw,
    Recover,
    Settings,
    names_like,
    settings,
)
from keyveil.cli.pages import ReportFile, privacy_of, write_page
from keyveil.cli.rounds import run_rounds, save_rounds, total
from keyveil.core.epsilon import parse_epsilon
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Column, Estimates
from keyveil.display.estimates import remarks
from keyveil.display.report import About
from keyveil.lab import datasets
from keyveil.lab.metrics import most_frequent
from keyveil.lab.public_options import collected_for, with_typical
from keyveil.lab.simulate import Simulation
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import histogram_of
from keyveil.mechanisms.registry import find
from keyveil.planning.auto import AUTO, resolve
from keyveil.protocols.base import Protocol
from keyveil.protocols.registry import as_protocol
from keyveil.robustness.detection import detect as detected
from keyveil.robustness.influence import with_influence


def simulate(
    data: Data,
    mechanism: Annotated[
        str, typer.Option("--mechanism", help="A name of the registry, or auto.", autocompletion=names_like)
    ],
    epsilon: Epsilon,
    low: Low = None,
    high: High = None,
    levels: LevelsOption = None,
    hierarchy: HierarchyOption = False,
    groups: GroupsOption = None,
    max_pairs: MaxPairs = None,
    set: Settings = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Repeatable coins; otherwise the system's.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Runs over the same people; errors are averaged.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Blocks of people worked on at once.")] = 1,
    top: Annotated[int, typer.Option(min=1, help="How many of the most frequent keys the table shows.")] = 20,
    per_key: PerKey = False,
    raw: Raw = False,
    attackers: Attackers = None,
    detect: Detect = False,
    recover: Recover = None,
    plot: Plot = None,
    tally: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the tally, for keyveil estimate.")] = None,
    report: ReportFile = None,
    user: User = "user",
    key: Key = "key",
    value: Value = "value",
    json: Json = False,
) -> int:
    """Let everybody in a data set report, and hold the estimates against the truth."""
    if mechanism != AUTO:
        find(mechanism)  # mistakes are refused before any data are read
    parse_epsilon(epsilon)
    options: dict[str, Any] = dict(settings(set, max_pairs))
    dataset = datasets.named(
        data,
        user=user,
        key=key,
        value=value,
        low=low,
        high=high,
        levels=listed(levels),
        hierarchy=hierarchy,
        groups=listed(groups),
        seed=seed or 0,
        stream=True,
    )
    made, chosen = _made(mechanism, dataset, epsilon, options)
    single = as_protocol(made).single
    if single is None and tally is not None:
        raise MechanismError("simulate/tally", f"{mechanism} has a tally for every round; --tally writes only one.")
    result = run_rounds(made, dataset, seed, repeats, threads)
    result = replace(result, notes=(*chosen, *result.notes))
    if result.approximate and tally is not None:
        raise MechanismError(
            "simulate/approximate", f"The tally of {mechanism} is approximate, and a file would not say so."
        )
    if per_key:
        result = replace(result, rounds=tuple(one.per_key() for one in result.rounds))
    if attackers is not None:
        result = replace(result, rounds=(*result.rounds[:-1], _attacked(result, single, attackers)))
    seen = None
    if detect:
        seen = detected(_only(single, mechanism, "detect"), result.tally)
        result = replace(result, notes=(*result.notes, str(seen)))
    if recover is not None:
        own = _only(single, mechanism, "recover")
        told, after = recovered(recover, None, own, result.tally, result.estimates, None)
        result = replace(result, rounds=(*result.rounds[:-1], told), notes=(*result.notes, str(after)))
    for remark in (describe(dataset), *result.notes):
        say(remark)
    if plot is not None:
        save(result.estimates.plot(top=top), plot)
        if single is None:
            save_rounds(result, plot)
    if tally is not None and single is not None:
        write_tally(tally, single, result.tally)
    if report is not None:
        people = f"A simulation of {many(result.estimates.n, 'person', 'people')}."
        about = About(
            f"{Path(data).stem}: truth against estimates", people, privacy=() if single is None else privacy_of(single)
        )
        write_page(result.estimates, report, about, None if single is None else histogram_of(single, result.tally))
    if json:
        looked = {} if seen is None else {"suspicion": seen.document()}
        print(msgspec.json.encode({**result.document(), **looked}).decode())
    else:
        console = screen()
        console.print(_table(result.estimates, top, raw))
        console.print(remarks(result.estimates))
        console.print(_summary(result))
        if single is None:
            console.print(total(result))
    return 0


def _only(single: Mechanism | None, name: str, option: str) -> Mechanism:
    """The mechanism of the only round."""
    if single is None:
        raise MechanismError("simulate/rounds", f"--{option} looks at one round, and {name} asks several.")
    return single


def _attacked(result: Simulation, single: Mechanism | None, attackers: int) -> Estimates:
    """The estimates with what attackers could have done; of several rounds the largest that a search found."""
    if single is not None:
        return with_influence(result.estimates, single, result.tally, attackers)
    from keyveil.lab.attacks.found import protocol_limits
    from keyveil.lab.coins import SeededCoins

    found = protocol_limits(result.protocol, result.history, attackers, SeededCoins(result.seed or 0))
    return replace(result.estimates, attacked=found)


def _made(
    mechanism: str, dataset: datasets.Dataset, epsilon: str, options: dict[str, Any]
) -> tuple[Mechanism | Protocol, tuple[str, ...]]:
    """The mechanism or protocol by name, and what was chosen for the data; ``auto`` chooses all of it."""
    if mechanism == AUTO:
        found = resolve(dataset.schema, epsilon, sample=dataset.population, **options)
        return found.mechanism, (f"Chosen: {found.reason}",)
    people = dataset.population.keyed(dataset.schema)
    told, typical = with_typical(mechanism, people, dataset.schema, options)
    made, notes = collected_for(mechanism, dataset.schema, epsilon, people.sizes, told)
    return made, (*typical, *notes)


def _table(estimates: Estimates, top: int, raw: bool) -> Table:
    about = " (approximate: drawn from a normal limit)" if estimates.header.approximate else ""
    table = Table(title=f"Truth against estimates with 95 % intervals{about}", title_justify="left", pad_edge=False)
    moved = estimates.attacked
    more = () if moved is None else ("frequency with attackers", "mean with attackers")
    for column in ("key", "frequency", "estimated frequency", "mean", "estimated mean", *more, "in", "flag"):
        table.add_column(
            column,
            justify="left" if column in ("key", "in", "flag") else "right",
            no_wrap=column in ("in", "flag"),
            overflow="fold",
        )
    truth = estimates.truth
    assert truth is not None
    means, keys = truth.mean_in_units, estimates.schema.keys
    shown = estimates if raw else estimates.display()
    for at in most_frequent(truth.frequency, top).tolist():
        frequency, frequency_in = _cell(shown.frequency, keys[at], truth.frequency[at])
        mean, mean_in = _cell(shown.mean, keys[at], means[at])
        table.add_row(
            keys[at],
            f"{truth.frequency[at]:.3f}",
            frequency,
            f"{means[at]:.3f}",
            mean,
            *(() if moved is None else (moved.cell("frequency", at), moved.cell("mean", at))),
            "––" if estimates.header.approximate else frequency_in + mean_in,
            estimates.flag[at],
        )
    return table


def _cell(column: Column, key: str, true: float) -> tuple[str, str]:
    """An estimate as text, and whether its interval holds the truth; a dash where there is none."""
    if column.absent:
        return "–", "–"
    one = column[key]
    value = "unknown" if isnan(one.value) else f"{one.value:.3f}"
    if isnan(one.low) or isnan(one.high):
        return value, "–"
    return f"{value} [{one.low:.3f}, {one.high:.3f}]", "✓" if true in one else "✗"


def _summary(result: Simulation) -> str:
    mechanism, errors = result.mechanism, result.metrics

    def known(name: str) -> str:
        value = errors[name]
        return "–" if value is None else f"{value:.3g}"

    runs = "" if result.repeats == 1 else f", mean of {result.repeats} runs"
    approximate = "Approximate. " if result.approximate else ""
    return (
        f"{approximate}{mechanism.name}, epsilon {float(mechanism.epsilon):g}, "
        f"{many(result.truth.n, 'person', 'people')}, {result.bits_per_report:.4g} bits a report, "
        f"{result.seconds:.1f} s. Mean squared error{runs}: "
        f"frequencies {known('mse_frequency')}, means on [-1, 1] {known('mse_mean')}; intervals that hold the truth: "
        f"frequencies {known('coverage_frequency')}, means {known('coverage_mean')}."
    )
