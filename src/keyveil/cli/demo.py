"""``keyveil demo``: a small collection on this machine, truth against estimates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from keyveil.cli.options import Epsilon
from keyveil.core.coins import Coins
from keyveil.core.display import page as whole_page
from keyveil.core.estimates import Estimates
from keyveil.core.population import Population
from keyveil.core.schema import Schema
from keyveil.lab.rounds import Run
from keyveil.lab.simulate import Simulation, simulate
from keyveil.mechanisms.registry import create

SNACKS = {  # key: share of people who buy it, and their mean rating from 1 to 5
    "coffee": (0.62, 4.3),
    "crisps": (0.48, 3.4),
    "apple": (0.41, 4.0),
    "burger": (0.33, 3.1),
    "fries": (0.29, 3.7),
    "pepsi": (0.22, 2.6),
    "sushi": (0.12, 4.5),
    "kale": (0.05, 1.9),
}


def demo(
    people: Annotated[int, typer.Option(min=1000, max=5_000_000, help="How many people take part.")] = 300_000,
    epsilon: Epsilon = "1",
    seed: Annotated[int | None, typer.Option(help="Repeatable coins, for this simulation only.")] = None,
    out: Annotated[Path, typer.Option(help="Where the picture and the page are written.")] = Path("keyveil-demo"),
) -> int:
    """Simulate a small collection and hold its estimates against the truth."""
    console, schema = Console(), Schema(keys=list(SNACKS), low=1, high=5)
    mechanism = create("kvue", schema, epsilon)
    record = {"fries": 4, "pepsi": 2}
    report = mechanism.perturb(record, Coins())
    certificate = mechanism.certificate()
    console.print(f"One person holds {record}. Their device sends {mechanism.bits_per_report:g} bits:")
    console.print(f"  id {report.public.hex()}  payload {mechanism.encode(report).hex()}")
    console.print(
        f"Whatever they hold, that report is at most e^{certificate.exact_epsilon:.12f} times likelier than for "
        "anybody else.\n"
    )
    result = _run(people, schema, epsilon, seed)
    console.print(_table(result.estimates.display()))
    console.print(f"{people:,} people, epsilon {epsilon}, {result.seconds:.1f} s; ✓ the interval holds the truth.")
    for path in _write(result.estimates, out):
        console.print(f"Written: {path}")
    return 0


def _run(people: int, schema: Schema, epsilon: str, seed: int | None) -> Simulation | Run:
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        task = progress.add_task("Reporting", total=people)
        population = _snackers(people, 7 if seed is None else seed)
        return simulate(
            "kvue", population, schema, epsilon, seed=seed, progress=lambda block: progress.advance(task, block)
        )


def _snackers(people: int, seed: int) -> Population:
    from keyveil.lab.datasets import independent

    shares, ratings = zip(*SNACKS.values(), strict=True)
    on_scale = independent(people, shares, [(rating - 3) / 2 for rating in ratings], seed, names=list(SNACKS))
    return Population(on_scale.names, on_scale.offsets, on_scale.keys, on_scale.values * 2 + 3)


def _table(estimates: Estimates) -> Table:
    table = Table(title="Truth against estimates with 95 % intervals", title_justify="left", pad_edge=False)
    for column in ("key", "share", "estimated share", "mean", "estimated mean", "in"):
        table.add_column(column, justify="left" if column in ("key", "in") else "right", no_wrap=True)
    truth = estimates.truth
    assert truth is not None
    means = estimates.schema.from_unit(truth.mean)
    for at, key in enumerate(estimates.schema.keys):
        share, mean = estimates.frequency[key], estimates.mean[key]
        inside = "".join("✓" if hit else "✗" for hit in (truth.frequency[at] in share, means[at] in mean))
        shown = (f"{one.value:.3f} [{one.low:.3f}, {one.high:.3f}]" for one in (share, mean))
        table.add_row(key, f"{truth.frequency[at]:.3f}", next(shown), f"{means[at]:.3f}", next(shown), inside)
    return table


def _write(estimates: Estimates, out: Path) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    picture, page = out / "estimates.png", out / "report.html"
    estimates.plot().savefig(picture, dpi=150, bbox_inches="tight")
    page.write_text(whole_page(estimates, "Keyveil demo: truth against estimates"), encoding="utf-8")
    return [picture, page]
