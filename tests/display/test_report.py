"""Reports on estimates: the finding follows from the intervals, and the page stands by itself."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from fractions import Fraction
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import keyveil as kv
from keyveil.cli.app import run
from keyveil.core.columns import Column
from keyveil.core.estimates import Estimates, Header
from keyveil.display.finding import finding
from keyveil.display.report import MEANINGS, About, page

SCRIPT = "<script>alert(1)</script>"
KEYS = ["coffee", "crisps", "apple", "burger", SCRIPT]
ABOUT = About("Snacks", "Which snacks people buy.", privacy=("Odds.",), facts=(("hash", "abc"),), command="keyveil x")


def estimated(values: list[float], se: float = 0.01, n: int = 10_000, **more: Any) -> Estimates:
    schema = kv.Schema(keys=KEYS, low=1, high=5)
    errors, f = np.full(5, se), np.array(values)
    return Estimates(
        header=Header(schema, "ssr", Fraction(1), n),
        respondents=np.full(5, n),
        frequency=Column(schema, f, errors, f - 2 * errors, f + 2 * errors),
        mean=Column(schema, np.zeros(5), errors, -2 * errors, 2 * errors, scaled=True),
        **more,
    )


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([0.6, 0.4, 0.3, 0.2, 0.1], "coffee leads."),
        ([0.4, 0.6, 0.3, 0.2, 0.1], "crisps leads."),
        ([0.6, 0.4, 0.3, 0.29, 0.1], "coffee leads; ranks 3 to 4 cannot be told apart."),
        ([0.6, 0.59, 0.3, 0.2, 0.1], "coffee and crisps lead, and which of them is first cannot be told."),
        ([0.6, 0.59, 0.58, 0.57, 0.1], "The first 4 ranks cannot be told apart."),
        ([0.6, 0.57, 0.54, 0.51, 0.1], "coffee is among the first 2; the ranks of the first 4 overlap."),
        ([0.3, 0.3, 0.3, 0.3, 0.3], "No key's rank can be told from that of the others."),
        ([0.6, 0.4, 0.0, 0.0, 0.0], "coffee leads. 2 of 5 keys are told from absent."),
        ([0.6, 0.0, 0.0, 0.0, 0.0], "coffee leads. 1 of 5 keys is told from absent."),
        ([0.0, 0.0, 0.0, 0.0, 0.0], "No key is told from absent yet: more people must report."),
    ],
)
def test_the_finding_says_what_intervals_tell(values: list[float], sentence: str) -> None:
    assert finding(estimated(values)) == sentence


def test_wider_intervals_tell_less() -> None:
    values = [0.6, 0.5, 0.3, 0.2, 0.1]
    assert finding(estimated(values)).startswith("coffee leads")
    assert finding(estimated(values, se=0.025)).startswith("coffee and crisps lead")
    assert finding(estimated(values, n=0)) == "Nobody reported yet."


def test_where_only_means_are_known_they_are_ranked() -> None:
    known = estimated([0.6, 0.4, 0.3, 0.2, 0.1])
    nothing = np.full(5, np.nan)
    none = Column(known.schema, nothing, nothing, nothing, nothing, absent="not asked")
    values, errors = np.array([0.1, 0.2, 0.9, 0.3, 0.4]), np.full(5, 0.01)
    mean = Column(known.schema, values, errors, values - 2 * errors, values + 2 * errors, scaled=True)
    assert finding(replace(known, frequency=none, mean=mean)) == "apple has the highest mean."


def test_the_page_needs_nothing_and_runs_nothing() -> None:
    whole = page(estimated([0.6, 0.4, 0.3, 0.2, 0.1]), ABOUT)
    style = re.search(r"<style>(.*?)</style>", whole)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', whole)
    assert style is not None and policy is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy[1] == f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'"
    assert "<script" not in whole and " style=" not in whole and "http:" not in whole and "https:" not in whole
    assert SCRIPT in unescape(whole)  # shown as text
    for part in ("Snacks", "Which snacks people buy.", "coffee leads", "Odds.", "keyveil x", "abc", "ε = 1"):
        assert part in whole


def test_only_flags_that_occur_are_explained() -> None:
    plain = page(estimated([0.6, 0.4, 0.3, 0.2, 0.1]), ABOUT)
    assert MEANINGS["ok"] in plain and MEANINGS["insufficient"] not in plain
    assert MEANINGS["insufficient"] in page(estimated([0.6, 0.4, 0.0, 0.2, 0.1]), ABOUT)


def test_flags_that_only_the_table_shows_are_explained_too() -> None:
    """A mean near the end of its range: only for the eye is its interval cut there."""
    usual = estimated([0.6, 0.4, 0.3, 0.2, 0.1])
    near = np.full(5, 0.99)
    mean = Column(usual.schema, near, usual.mean.se, near - 0.02, near + 0.02, scaled=True)
    found = page(replace(usual, mean=mean), ABOUT)
    shown = set(re.findall(r"<td [^>]*>(\w+)</td></tr>", found))
    assert "clipped" in shown and all(MEANINGS[flag] in found for flag in shown), shown


def test_what_intervals_allow_for_is_named() -> None:
    known = estimated([0.6, 0.4, 0.3, 0.2, 0.1])
    sampled = replace(known, header=replace(known.header, population=True))
    assert "who was among the people" in page(sampled, ABOUT)
    assert "who was among the people" not in page(known, ABOUT)


def test_commands_write_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tally, first, second = (tmp_path / name for name in ("snacks.tally", "truth.html", "estimates.html"))
    simulated = ["simulate", "synthetic:uniform:3000", "--mechanism", "kvue", "--epsilon", "4", "--set", "bins=3"]
    assert run([*simulated, "--seed", "1", "--tally", str(tally), "--report", str(first)]) == 0
    assert run(["estimate", str(tally), "--report", str(second)]) == 0
    told = second.read_text(encoding="utf-8")
    assert "snacks: what 3,000 reports say" in told and "The program that devices run spends at most 3.9999999" in told
    assert f"keyveil estimate {tally} --report {second}" in told
    truth = first.read_text(encoding="utf-8")
    assert "A simulation of 3,000 people." in truth
    assert "the share in each part of the range" in told and "the share in each part" in truth  # values in three cells
    capsys.readouterr()
    assert run(["estimate", str(tally), "--report", str(tmp_path)]) == 2
    assert "[output/file]" in capsys.readouterr().err
