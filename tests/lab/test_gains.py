"""Gains of the newer mechanisms over the older ones: how they are judged, and, in the soak suite, whether they hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from keyveil.lab.gains import DENSE, SHOWN, SIGNS, SPARSE, Claim, Gain, Row, claims, dense_rows, page, row, sparse_rows


def rows(ratio: float, se: float = 0.01, epsilons: tuple[str, ...] = ("1", "4", "6")) -> list[Row]:
    gains = dict.fromkeys((*SHOWN, "f", "m"), Gain(ratio, se))
    return [Row("somebody", 0.1, epsilon, gains) for epsilon in epsilons]


def test_a_claim_fails_only_where_a_row_is_surely_below() -> None:
    assert not Claim("", "f·m", 1.6, rows(1.5, 0.06)).broken
    assert [one.epsilon for one in Claim("", "f·m", 1.6, rows(1.5, 0.04)).broken] == ["1", "4", "6"]
    assert not any(claim.broken for claim in claims(rows(3), rows(3)))
    broken = [claim for claim in claims(rows(1.3), rows(1.3)) if claim.broken]
    assert [(claim.what, claim.least) for claim in broken] == [
        ("f·m", 1.6),
        ("m, top 20", 1.5),
        ("m", 1.4),
        ("f", 1.7),
        ("m", 2.7),
    ]
    assert [one.epsilon for one in claims(rows(3), rows(3))[0].rows] == ["1"]  # apart is for ε up to 2


def test_the_page_says_what_holds() -> None:
    text = page(rows(1.3), rows(0.5), rows(3), Path("docs/gains.md"))
    assert "| f·m | 1.6 | 1.30 ± 0.01 | not on somebody at ε = 1 |" in text
    assert "| block, ε = 6 | m | 2.7 | 3.00 ± 0.01 | yes |" in text
    assert "python -m keyveil.lab.gains docs/gains.md" in text
    assert "not on" not in page(rows(3), rows(0.5), rows(3), Path("page.md"))


def test_errors_are_compared_on_the_same_people() -> None:
    """A mechanism against itself gains nothing, and one that is known to be worse here loses."""
    few = replace(DENSE["panel"], people=2000)
    same = row("panel", few, "2", (("kvue", {}), ("block", {"width": 1, "states": 3})), runs=12)
    assert same.gains["f"].ratio == pytest.approx(1, abs=6 * same.gains["f"].se)  # width one and three states: kvue
    worse = row("panel", few, "2", (("block", {}), ("wsr", {"max_pairs": 14})), runs=2)
    assert worse.gains["f"].ratio < 0.8


@pytest.mark.soak
def test_the_gains_hold(record_property: Callable[[str, object], None]) -> None:
    for claim in claims(sparse_rows(SPARSE, ("0.5", "1", "2")), dense_rows(("4", "6"))):
        record_property(f"{claim.text}: {claim.what} at least {claim.least:g}", str(claim.lowest))
        assert not claim.broken
    signs = sparse_rows(SIGNS, ("2",))[0].gains  # a loss that the page names
    assert signs["m, top 20"].ratio < 1
