"""How far crafted reports move answers that are no averages: the largest change that a search found, and named so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keyveil.core.tally import Tally
from keyveil.lab.attacks.found import Answer, largest_found
from keyveil.lab.coins import SeededCoins
from keyveil.learn.conditionals import Conditionals
from keyveil.learn.distributions import distribution
from keyveil.mechanisms.base import Mechanism

Row = dict[str, Any]


def with_found(answers: dict[str, list[Row]], mechanism: Mechanism, tally: Tally, attackers: int) -> None:
    """Write ``attacked`` beside every conditional and quantile among the answers."""

    def put(numbers: Row | None, keys: list[str], answer: Answer) -> None:
        if numbers is None or numbers["value"] is None:
            return
        found = largest_found(mechanism, tally, attackers, answer, keys, SeededCoins(0))
        numbers["attacked"] = {"low": found.low, "high": found.high, "kind": found.kind, "attackers": attackers}

    for row in answers.get("given", []):
        keys = [row["key"], *row["given"]]
        put(row["frequency"], keys, _conditional(mechanism, "frequency", row))
        put(row["mean"], keys, _conditional(mechanism, "mean", row))
    for row in answers.get("quantiles", []):
        put(row["value"], [row["key"]], _quantile(mechanism, row))


def _conditional(mechanism: Mechanism, which: str, row: Row) -> Answer:
    def answer(tally: Tally) -> float:
        ask: Callable[..., Any] = getattr(Conditionals(mechanism, tally), which)
        return float(ask(row["key"], row["given"]).value)

    return answer


def _quantile(mechanism: Mechanism, row: Row) -> Answer:
    return lambda tally: float(distribution(mechanism, tally).quantile(row["quantile"], row["key"]).value)
