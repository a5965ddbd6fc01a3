"""Answers to questions (``learn.questions``) in words, for terminals and pages alike.

What is not told is said to be so: a flag such as "insufficient" never stands beside a number that looks like one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Row = Mapping[str, Any]

UNTOLD = ("insufficient", "suppressed")
_ENDS = ("value", "low", "high")


def told(numbers: Row | None) -> bool:
    """Whether an answer has a value that may be shown."""
    return numbers is not None and numbers["value"] is not None and numbers["flag"] not in UNTOLD


def interval_text(numbers: Row | None, least: float = -math.inf, most: float = math.inf) -> str:
    """A value with its interval, cut to what is possible; an end that is not known is "…"."""
    if numbers is None or not told(numbers):
        return "unknown"

    def shown(number: float | None) -> str:
        return "…" if number is None else f"{min(max(number, least), most):.4g}"

    value, low, high = (shown(numbers[name]) for name in _ENDS)
    moved = numbers.get("attacked")
    if moved is None:
        return f"{value} [{low}, {high}]"
    return f"{value} [{low}, {high}], {moved['kind']} {shown(moved['low'])} to {shown(moved['high'])}"


def share_text(numbers: Row | None) -> str:
    """A share of people in per cent, with its interval; or that it is not told."""
    if numbers is None or not told(numbers):
        return "not told"
    value, low, high = (
        "…" if numbers[name] is None else f"{100 * min(max(numbers[name], 0.0), 1.0):.3g} %" for name in _ENDS
    )
    return f"{value} (from {low} to {high})"


def condition_text(given: Mapping[str, bool]) -> str:
    """Who is spoken of: "those who hold a and not b"."""
    if not given:
        return "everybody who reported"
    return "those who hold " + " and ".join(name if held else f"not {name}" for name, held in given.items())


def conditional_sentence(row: Row) -> str:
    """A conditional as a sentence."""
    whom, key, frequency, mean = condition_text(row["given"]), row["key"], row["frequency"], row["mean"]
    if not told(frequency):
        return f"Of {whom}, how many hold {key} cannot be told from these reports: {frequency['flag']}."
    about = f"Of {whom}, {share_text(frequency)} hold {key}"
    if mean is None:
        return f"{about}."
    known = f"is {interval_text(mean)}" if told(mean) else f"cannot be told ({mean['flag']})"
    return f"{about}; the mean of {key} among these {known}."


def comparison_sentence(row: Row, confidence: float = 0.95) -> str:
    """A comparison of two keys as a sentence: by the p-value, at the confidence of the interval."""
    (first, second), of, difference, chance = row["keys"], row["of"], row["difference"], row["p_value"]
    if not told(difference) or chance is None:
        return f"Whether {first} and {second} differ in {of} cannot be told: {difference['flag']}."
    if chance >= 1 - confidence:
        return f"{first} and {second} are not told apart by their {of} (p = {chance:.2g})."
    more, less = (first, second) if difference["value"] > 0 else (second, first)
    said = f"{more} is more frequent than {less}" if of == "frequency" else f"{more} has a higher mean than {less}"
    return f"{said}: the difference is {interval_text(difference)} (p = {chance:.2g})."


def ranking_text(row: Row) -> str:
    """The ranks that a key may have."""
    return str(row["best"]) if row["best"] == row["worst"] else f"{row['best']} to {row['worst']}"
