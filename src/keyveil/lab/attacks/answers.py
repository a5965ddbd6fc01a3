"""How far crafted reports move answers to questions: proved where it can be, else found by a search.

A sum of frequencies moves by no more than its terms together, a difference by no more than both ends, and ranks follow
from the limits of all keys. Conditionals, and quantiles of histograms, have limits by interval evaluation. For other
quantiles (EM) the largest change that a search found stands beside them, and is named so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from keyveil.core.attacked import Attacked
from keyveil.core.estimates import Estimates
from keyveil.core.tally import Tally
from keyveil.lab.attacks.found import Answer, largest_found
from keyveil.lab.coins import SeededCoins
from keyveil.learn.conditionals import Conditionals
from keyveil.learn.distributions import distribution
from keyveil.learn.places import Within
from keyveil.learn.questions import known
from keyveil.mechanisms.base import Mechanism
from keyveil.robustness.answers import conditional_limits, quantile_limits
from keyveil.robustness.influence import influence

QUANTITIES: tuple[Literal["frequency"], Literal["mean"]] = ("frequency", "mean")
TRIED, JUDGED = 800, 200  # reports that are thought of for an answer, and those that are looked at

Row = dict[str, Any]


def with_attackers(
    kind: str,
    rows: list[Row],
    mechanism: Mechanism,
    tally: Tally,
    estimates: Estimates,
    attackers: int,
    within: Within = "any",
) -> None:
    """Write ``attacked`` beside every answer to a question of this kind."""
    if kind in ("conditional", "quantiles"):
        for row in rows:
            _answered(kind, row, mechanism, tally, attackers, within)
        return
    limits = estimates.attacked or influence(mechanism, tally, attackers, estimates)
    for row in rows:
        if kind == "subset":
            places = [mechanism.schema.place(key) for key in row["keys"]]
            low, high = (float(end[places].sum()) for end in (limits.frequency_low, limits.frequency_high))
            row["sum"]["attacked"] = _limits(limits.frequency_kind, low, high, attackers)
        elif kind == "compare":
            row["difference"]["attacked"] = _difference(limits, row, attackers)
        else:
            at = mechanism.schema.place(row["key"])
            best, worst = limits.ranks(estimates.frequency.values)
            ends = limits.frequency_low[at], limits.frequency_high[at]
            told = _limits(limits.frequency_kind, *ends, attackers)
            row["attacked"] = {**told, "best": int(best[at]), "worst": int(worst[at])}


def _difference(limits: Attacked, row: Row, attackers: int) -> Row:
    """Of two frequencies, or of two means in the schema's units."""
    of = "mean" if row["of"] == "mean" else "frequency"
    columns, places = limits.columns(), [limits.schema.place(key) for key in row["keys"]]
    low, high = (columns[f"{of}_attacked_{end}"][places] for end in ("low", "high"))
    kind = limits.mean_kind if of == "mean" else limits.frequency_kind
    return _limits(kind, low[0] - high[1], high[0] - low[1], attackers)


def _limits(kind: str, low: float, high: float, attackers: int) -> Row:
    return {"low": known(low), "high": known(high), "kind": kind, "attackers": attackers}


def _answered(kind: str, row: Row, mechanism: Mechanism, tally: Tally, attackers: int, within: Within) -> None:
    """Limits of a conditional or a quantile, in the units of its key."""

    def put(numbers: Row | None, limits: tuple[float, float] | None, answer: Answer, unit: bool = False) -> None:
        if numbers is None or numbers["value"] is None:
            return
        if limits is None:
            found = largest_found(mechanism, tally, attackers, answer, keys, SeededCoins(0), TRIED, JUDGED)
            numbers["attacked"] = _limits(found.kind, found.low, found.high, attackers)
            return
        ends = np.array(limits) if unit else schema.from_unit(np.array(limits), np.full(2, schema.place(row["key"])))
        numbers["attacked"] = _limits("bound", float(ends[0]), float(ends[1]), attackers)

    schema, keys = mechanism.schema, [row["key"], *row.get("given", ())]
    if kind == "quantiles":
        limits = quantile_limits(mechanism, tally, attackers, row["key"], row["quantile"], within)
        put(row["value"], limits, _quantile(mechanism, row, within))
        return
    for of in QUANTITIES:
        limits = conditional_limits(mechanism, tally, attackers, of, row["key"], row["given"])
        put(row[of], limits, _conditional(mechanism, of, row), unit=of == "frequency")


def _conditional(mechanism: Mechanism, of: str, row: Row) -> Answer:
    def answer(tally: Tally) -> float:
        ask: Callable[..., Any] = getattr(Conditionals(mechanism, tally), of)
        return float(ask(row["key"], row["given"]).value)

    return answer


def _quantile(mechanism: Mechanism, row: Row, within: Within) -> Answer:
    return lambda tally: float(
        distribution(mechanism, tally, within=within).quantile(row["quantile"], row["key"]).value
    )
