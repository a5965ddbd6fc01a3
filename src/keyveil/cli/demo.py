"""``keyveil demo``: the whole system on this machine; a collector, thousands of devices, two rounds, and the truth."""

from __future__ import annotations

import math
import time
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from keyveil.campaign.rounds import RoundDocument
from keyveil.cli.connection import Collector, address
from keyveil.cli.data import save, screen
from keyveil.cli.device_processes import DeviceProcesses
from keyveil.cli.local_collector import running_collector
from keyveil.cli.options import Epsilon
from keyveil.cli.pages import privacy_of, write_page
from keyveil.cli.simulated_devices import Example, records_of
from keyveil.cli.terminal import Terminal
from keyveil.core.epsilon import decimal_text, parse_epsilon
from keyveil.core.errors import KeyveilError
from keyveil.core.estimates import Estimates
from keyveil.core.schema import Schema
from keyveil.device import HttpTransport, LedgerEntry
from keyveil.display.report import About
from keyveil.frames.population import Population
from keyveil.mechanisms.base import Mechanism

NAME = "snacks"
SHARE = "0.2"  # of the people, the pilot: they are asked how many things they buy, the others then which
CAP = "0.99"  # of the people have no more pairs than count in the main round
SNACKS = {  # key: its frequency, and the mean rating of those who buy it, from 1 to 5
    "coffee": (0.62, 4.3),
    "crisps": (0.48, 3.4),
    "apple": (0.41, 4.0),
    "burger": (0.33, 3.1),
    "fries": (0.29, 3.7),
    "pepsi": (0.22, 2.6),
    "sushi": (0.12, 4.5),
    "kale": (0.05, 1.9),
}

_TURNS = 60.0  # seconds that the collector may take to count a round and open the next


def demo(
    people: Annotated[int, typer.Option(min=1000, max=200_000, help="How many people take part.")] = 10_000,
    epsilon: Epsilon = "2",
    seed: Annotated[int, typer.Option(min=0, help="Of the invented people; devices draw from the system.")] = 7,
    out: Annotated[Path, typer.Option(help="Where the picture, the page and the database go.")] = Path("keyveil-demo"),
    stay: Annotated[
        bool, typer.Option("--stay", help="Keep the collector and its pages running until Ctrl-C.")
    ] = False,
) -> int:
    """Run a collector and thousands of devices on this machine, and hold the estimates against the truth."""
    console, begin = screen(), time.perf_counter()
    console.soft_wrap = not console.is_terminal
    document, database = _campaign(people, epsilon), _fresh(out)
    with closing(DeviceProcesses()) as devices, running_collector(database, out / "collector.log") as (server, token):
        population = _snackers(people, seed)
        transport = HttpTransport(server)
        collector = Collector(transport, token)
        collector.ask("POST", "/v1/campaigns", document)
        collector.ask("PATCH", address(NAME), {"action": "open"})
        console.print(f"A collector runs at {server}, as a process of its own.\n")
        devices.begin(server, NAME, records_of(population))
        _collect(collector, devices, people, console)
        campaign, view = collector.campaign(NAME)
        found = collector.ask("GET", address(NAME, "estimates"))
        status = collector.ask("GET", address(NAME, "status"))
        transport.close()
        main_round = RoundDocument.from_document(view["round"]["document"], campaign)
        _tell_of_one(console, devices.example, main_round)
        answered = np.array(sorted(devices.answered.get(main_round.number, ())), dtype=np.int64)
        truth = those(population, answered).truth(campaign.schema)
        estimates = Estimates.from_document(found, campaign.schema).with_truth(truth)
        console.print(_table(estimates.display()))
        console.print(_summary(devices, status, people, epsilon, time.perf_counter() - begin))
        _write(estimates, campaign.purpose, main_round.mechanism, out)
        if stay:
            _stay(console, server, token)
    if not stay:
        console.print(f"Look around: keyveil serve --database {database}, then open http://127.0.0.1:8337/")
    return 0


def _stay(console: Terminal, server: str, token: str) -> None:
    """Keep the pages up until somebody has seen enough."""
    console.print(f"Look at it with a browser: {server}/campaigns/{NAME}")
    console.print(f"Sign in with the token {token}; it is good until you press Ctrl-C.")
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        console.print("")


def _campaign(people: int, epsilon: str) -> dict[str, Any]:
    """A pilot group tells how many things people buy; its answers set the cap for the others."""
    schema = Schema(keys=list(SNACKS), low=1, high=5)
    return {
        "keyveil": 1,
        "name": NAME,
        "purpose": "Which snacks people buy and how they rate them. Nobody sees your answers.",
        "schema": schema.document(),
        "protocol": {"name": "pilot", "epsilon": decimal_text(parse_epsilon(epsilon)), "share": SHARE, "quantile": CAP},
        "rounds": [{"enough": people // 25}, {}],
        "min_reports": 100,
        "contact": "privacy@example.org",
    }


def _collect(collector: Collector, devices: DeviceProcesses, people: int, console: Terminal) -> None:
    """Both rounds, from consent to the last count."""
    bars = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*bars, console=Terminal(stderr=True), transient=True) as progress:
        task = progress.add_task("Round 1: how many snacks?", total=people // 5)
        devices.progress = lambda count: progress.advance(task, count)
        console.print(devices.explanation())
        console.print()
        devices.first_round(enough=people // 25)
        _await(collector, "open", 2)
        waited = len(devices.answered.get(1, ()))
        progress.reset(task, description="Round 2: which, and how good?", total=people - waited)
        devices.second_round()
        devices.close()
        collector.ask("PATCH", address(NAME), {"action": "close"})
        progress.reset(task, description="Counting", total=None)
        _await(collector, "folded", 2)


def _await(collector: Collector, state: str, number: int) -> None:
    """Wait until a round of the collector has a state."""
    until = time.monotonic() + _TURNS
    while time.monotonic() < until:
        last = collector.ask("GET", address(NAME))["round"]
        if last["number"] == number and last["state"] == state:
            return
        time.sleep(0.2)
    raise KeyveilError("demo/slow", f"Round {number} is not {state} after {_TURNS:g} seconds.")


def _tell_of_one(console: Terminal, example: Example | None, document: RoundDocument) -> None:
    """What one person holds, what left their device, what it cost, and what that means."""
    if example is None:
        return
    exact = document.mechanism.certificate().exact_epsilon
    console.print(f"One of them holds {dict(example.record)}. What left their device:")
    report = (example.outcome.report or b"").hex()
    console.print(f"  id {report}  payload {example.payload.hex()}")
    console.print(
        f"Whatever they hold, that is at most e^{exact:.12f} times likelier than for anybody else. Their ledger:"
    )
    for entry in example.ledger:
        console.print(f"  {entry.day}  {entry.series}, round {entry.round}: {entry.mechanism}, epsilon {_up(entry)}")
    for line in example.spent:
        console.print(f"  {line}")
    console.print()


def _up(entry: LedgerEntry) -> str:
    """Six places of the price, rounded up."""
    return decimal_text(Fraction(math.ceil(entry.epsilon * 10**6), 10**6))


def _summary(devices: DeviceProcesses, status: dict[str, Any], people: int, epsilon: str, seconds: float) -> str:
    rounds = ", ".join(f"round {one['round']} ({one['mechanism']}) {one['reports']:,}" for one in status["rounds"])
    refused = "".join(f"; {count} {code}" for code, count in devices.refused.items())
    return (
        f"{people:,} people at epsilon {epsilon}, reports by single uploads: {rounds}{refused}. {seconds:.1f} s. "
        f"Round 1 asks a group of {float(SHARE):.0%} of the people and closes at {people // 25:,} reports (a few more "
        "may be on their way); round 2 asks everybody else. Nobody is asked twice, so the rest of that group reports "
        "nothing. "
        "Truth is that of the people who answered round 2; ✓ the interval holds it."
    )


def _fresh(out: Path) -> Path:
    """A place for the database of this run; that of an earlier run is removed."""
    database = out / "collector.db"
    try:
        out.mkdir(parents=True, exist_ok=True)
        for part in ("", "-wal", "-shm"):
            database.with_name(database.name + part).unlink(missing_ok=True)
    except OSError as reason:
        raise KeyveilError("output/file", f"{out} cannot be written: {reason}.") from reason
    return database


def _snackers(people: int, seed: int) -> Population:
    from keyveil.lab.datasets import independent

    frequencies, ratings = zip(*SNACKS.values(), strict=True)
    on_scale = independent(people, frequencies, [(rating - 3) / 2 for rating in ratings], seed, names=list(SNACKS))
    values = np.round(on_scale.values * 2 + 3, 2)
    return Population(on_scale.names, on_scale.offsets, on_scale.keys, values)


def those(population: Population, chosen: NDArray[np.int64]) -> Population:
    """Some of the people, in order."""
    starts, sizes = population.offsets[chosen], population.sizes[chosen]
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    places = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])
    return Population(population.names, offsets, population.keys[places], population.values[places])


def _table(estimates: Estimates) -> Table:
    table = Table(title="Truth against estimates with 95 % intervals", title_justify="left", pad_edge=False)
    for column in ("key", "frequency", "estimated frequency", "mean", "estimated mean", "in"):
        table.add_column(column, justify="left" if column in ("key", "in") else "right", no_wrap=True)
    truth = estimates.truth
    assert truth is not None
    means = truth.mean_in_units
    for at, key in enumerate(estimates.schema.keys):
        frequency, mean = estimates.frequency[key], estimates.mean[key]
        inside = "".join("✓" if hit else "✗" for hit in (truth.frequency[at] in frequency, means[at] in mean))
        shown = map(str, (frequency, mean))
        table.add_row(key, f"{truth.frequency[at]:.3f}", next(shown), f"{means[at]:.3f}", next(shown), inside)
    return table


def _write(estimates: Estimates, purpose: str, mechanism: Mechanism, out: Path) -> None:
    save(estimates.plot(), out / "estimates.png")
    about = About("Keyveil demo: truth against estimates", purpose, privacy=privacy_of(mechanism))
    write_page(estimates, out / "report.html", about)
