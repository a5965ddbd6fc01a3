"""``keyveil attack``: how far crafted reports move the estimates of one key, beside the most that they can do."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

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
    working,
)
from keyveil.cli.options import Epsilon, Json, MaxPairs, Settings, names_like, settings
from keyveil.core.epsilon import parse_epsilon
from keyveil.core.errors import MechanismError
from keyveil.lab import datasets
from keyveil.lab.attacks.bench import KINDS, AttackStudy, Gain
from keyveil.lab.attacks.bench import attack as attacked
from keyveil.mechanisms.registry import find


def attack(
    data: Data,
    mechanism: Annotated[str, typer.Option("--mechanism", help="A name of the registry.", autocompletion=names_like)],
    epsilon: Epsilon,
    share: Annotated[str, typer.Option("--share", help="Shares of attackers, such as 0.01,0.05.")] = "0.01,0.05",
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="KEY", help="The least frequent key that is told from absent unless given."),
    ] = None,
    low: Low = None,
    high: High = None,
    levels: LevelsOption = None,
    hierarchy: HierarchyOption = False,
    groups: GroupsOption = None,
    max_pairs: MaxPairs = None,
    set: Settings = None,
    down: Annotated[bool, typer.Option("--down", help="Make the key look smaller instead of larger.")] = False,
    worst: Annotated[
        bool, typer.Option("--worst", help="Replace the reports that stand against the attack instead of any.")
    ] = False,
    round: Annotated[int | None, typer.Option(min=1, help="The only round in which attackers speak.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Repeatable coins.")] = 0,
    plot: Plot = None,
    user: User = "user",
    key: Key = "key",
    value: Value = "value",
    json: Json = False,
) -> int:
    """Let some people of a data set send crafted reports, and say how far they move the estimates of a key."""
    find(mechanism)  # mistakes are refused before any data are read
    parse_epsilon(epsilon)
    shares = _shares(share)
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
        seed=seed,
    )
    with working("Attacking"):
        study = attacked(
            mechanism,
            dataset.population,
            dataset.schema,
            epsilon,
            shares=shares,
            target=target,
            directions=(not down,),
            seed=seed,
            round=round,
            worst=worst,
            **options,
        )
    for remark in (describe(dataset), *study.notes):
        say(remark)
    if plot is not None:
        from keyveil.display.attacks import gains_over_shares

        title = f"{study.protocol.name}, ε = {float(study.protocol.epsilon):g}, {study.n:,} people, key {study.target}"
        save(gains_over_shares([one.document() for one in study.gains], title), plot)
    if json:
        print(msgspec.json.encode(study.document()).decode())
    else:
        console = screen()
        console.print(_table(study))
        console.print(_remark(study))
    return 0


def _shares(text: str) -> list[float]:
    try:
        shares = [float(part) for part in text.split(",")]
    except ValueError:
        raise MechanismError("attack/share", f"Shares are written like 0.01,0.05, not {text!r}.") from None
    return shares


def _table(study: AttackStudy) -> Table:
    title = f"{study.protocol.name}, {many(study.n, 'person', 'people')}: attacks on the key {study.target}"
    table = Table(title=title, title_justify="left", pad_edge=False)
    for column in ("share", "quantity", "attack", "before", "after", "gain", "bound", "kind of bound"):
        table.add_column(column, justify="left" if column in ("quantity", "attack", "kind of bound") else "right")
    for one in sorted(study.gains, key=lambda gain: (gain.share, gain.quantity, KINDS.index(gain.kind))):
        bound = "–" if one.bound is None else _shown(one, one.bound)
        told = (_shown(one, one.before, rank=True), _shown(one, one.after, rank=True), _shown(one, one.gain))
        moved = f"{one.quantity} {'up' if one.up else 'down'}"
        table.add_row(
            f"{one.share:.3g}", moved, one.kind, *told, bound, one.bound_kind if one.bound is not None else ""
        )
    return table


def _shown(one: Gain, number: float, *, rank: bool = False) -> str:
    if one.quantity == "rank":
        return f"{abs(number) if rank else number:.0f}"
    return f"{number:.3f}"


def _remark(study: AttackStudy) -> str:
    known = ""
    if study.protocol.single is None:
        known = " Nothing is proved of several rounds: these gains were found."
    elif any(one.bound is None for one in study.gains):
        known = " There is no bound: these estimates are no averages of what reports say."
    return (
        "Gain: the same honest reports with a share of them replaced by crafted ones, less without. Means on [-1, 1]."
        + known
    )
