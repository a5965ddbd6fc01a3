"""``keyveil compose`` and ``keyveil bounds``: the formulas of the papers, corrected, for people who plan."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.table import Table

from keyveil.cli.data import screen
from keyveil.cli.options import Json, Keys, names_like
from keyveil.core.epsilon import parse_epsilon
from keyveil.core.errors import MechanismError
from keyveil.core.hints import did_you_mean
from keyveil.planning.tail_bounds import kvoh_count_bound, kvue_count_bound, privkv_mean_bound
from keyveil.privacy.composition import TOTALS

_CAP = 3  # pairs of a person, where a total depends on them and nobody said


def compose(
    key: Annotated[str, typer.Option("--key", help="The budget of the key, an exact decimal.")],
    value: Annotated[str, typer.Option("--value", help="The budget of the value, an exact decimal.")],
    mechanism: Annotated[
        str | None, typer.Option("--mechanism", help="One name; otherwise all that split.", autocompletion=names_like)
    ] = None,
    max_pairs: Annotated[int, typer.Option("--max-pairs", help="The most pairs of a person that count.")] = _CAP,
    json: Json = False,
) -> int:
    """Say what a key and a value with budgets of their own cost together; papers add the two up, which is more."""
    budgets = float(parse_epsilon(key)), float(parse_epsilon(value))
    if mechanism is not None and mechanism not in TOTALS:
        hint = did_you_mean(mechanism, TOTALS) or f"; those of {', '.join(TOTALS)} do"
        raise MechanismError("mechanism/budget", f"Key and value of {mechanism!r} have no budgets of their own{hint}.")
    names = TOTALS if mechanism is None else (mechanism,)
    rows = [
        {"mechanism": name, "key_epsilon": budgets[0], "value_epsilon": budgets[1], "sum": sum(budgets)}
        | {"total": TOTALS[name](*budgets, max_pairs)}
        for name in names
    ]
    if json:
        print(msgspec.json.encode({"max_pairs": max_pairs, "mechanisms": rows}).decode())
        return 0
    table = Table(title="Budgets of key and value together", title_justify="left")
    for column in ("mechanism", "key", "value", "added up", "together"):
        table.add_column(column)
    for row in rows:
        table.add_row(*(f"{entry:.6f}" if isinstance(entry, float) else str(entry) for entry in row.values()))
    console = screen()
    console.print(table)
    console.print(
        f"pckv-grr is for at most {max_pairs} pairs of a person. These are formulas; what a mechanism spends comes "
        "from its integers: keyveil certify --mechanism NAME --epsilon E --set split=paper --set value_epsilon=V."
    )
    return 0


def bounds(
    users: Annotated[int, typer.Option("--users", min=1, help="How many people report.")],
    epsilon: Annotated[str, typer.Option("--epsilon", help="What everybody spends, an exact decimal.")],
    keys: Keys = 10,
    frequency: Annotated[
        float, typer.Option("--frequency", min=0, max=1, help="Of the rarest key whose mean is in question.")
    ] = 0.5,
    delta: Annotated[float, typer.Option("--delta", help="The probability that a bound fails.")] = 0.05,
    json: Json = False,
) -> int:
    """Say how far estimates can be off whatever the data, with a given probability: the tail bounds of the papers."""
    if keys < 1:
        raise MechanismError("plan/bound", f"There is at least one key, not {keys}.")
    budget, reports = float(parse_epsilon(epsilon)), users / keys
    half = budget / 2
    told = {
        "kvue": ("frequency", kvue_count_bound(reports, budget, delta) / reports, "Sun et al., Theorem 5"),
        "kvoh": ("frequency", kvoh_count_bound(reports, budget, delta) / reports, "Sun et al., Theorem 5"),
        "privkv": ("mean", privkv_mean_bound(reports, frequency, half, half, keys, delta), "Ye et al., Theorem 5.4"),
    }
    if json:
        rows = [{"mechanism": name, "of": what, "within": size} for name, (what, size, _) in told.items()]
        whole = {"users": users, "keys": keys, "epsilon": budget, "frequency": frequency, "delta": delta}
        print(msgspec.json.encode({**whole, "bounds": rows}).decode())
        return 0
    table = Table(title=f"Within what, with probability {1 - delta:g}", title_justify="left")
    for column in ("mechanism", "of", "within", "from"):
        table.add_column(column)
    for name, (what, size, source) in told.items():
        table.add_row(name, what, f"{size:.4f}", source)
    console = screen()
    console.print(table)
    console.print(
        f"The frequency of a state (absent, minus, plus) of one key; the means, on [-1, 1], of all {keys} keys at "
        f"once, where the rarest has the frequency {frequency:g} and key and value have {half:g} each. A bound of 2 "
        "says nothing. Intervals that come with estimates are narrower: they know the data."
    )
    return 0
