"""Estimates as people see them: inside their range, intervals around their points, no number where data lack."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from keyveil.core.epsilon import parse_epsilon
from keyveil.core.estimates import Column, Estimates, Header
from keyveil.core.schema import Schema
from keyveil.core.undercount import Undercount
from keyveil.display.estimates import listed, more_people, table

SCHEMA = Schema(keys=["map", "mail", "youtube", "radio"], low=0, high=600)


@pytest.fixture
def estimates() -> Estimates:
    """Two keys that are well known, one whose mean is wild, one that nobody can tell from absent."""
    f, se = np.array([1.02, 0.5, 0.4, -0.01]), np.full(4, 0.02)
    low, high = np.array([0.9, -0.6, -3.4, -1.0]), np.array([1.2, -0.1, 0.46, 1.0])
    values = np.array([1.1, -0.4, -0.6, 0.3])
    return Estimates(
        header=Header(SCHEMA, "ssr", parse_epsilon(1), 1000),
        respondents=np.full(4, 1000),
        frequency=Column(SCHEMA, f, se, f - 1.96 * se, f + 1.96 * se),
        mean=Column(SCHEMA, values, np.full(4, 0.1), low, high, scaled=True),
    )


def test_flags_follow_from_the_intervals(estimates: Estimates) -> None:
    assert estimates.flag == ("ok", "ok", "wide", "insufficient")


def test_what_is_shown_is_possible_and_inside_its_interval(estimates: Estimates) -> None:
    shown = listed(estimates, 4)
    for column, least, most in ((shown.frequency, 0, 1), (shown.mean.in_units, 0, 600)):
        known = np.isfinite(column.values)
        assert (column.low >= least).all() and (column.high <= most).all()
        assert (column.low <= column.values)[known].all() and (column.values <= column.high)[known].all()
    assert np.isnan(shown.mean.values[3]) and not np.isnan(estimates.mean.values[3])
    assert shown.mean["radio"].low == 0 and shown.mean["radio"].high == 600
    assert estimates.rows()[2]["mean_low"] == pytest.approx(-720)  # rows are as estimated


def test_the_table_has_no_impossible_number(estimates: Estimates) -> None:
    page = table(estimates)
    numbers = [float(one) for one in re.findall(r"(?<![\w.#-])-?\d+\.\d+(?= \[|,|\])", page)]
    assert numbers and min(numbers) >= 0 and max(numbers) <= 600
    assert "unknown" in page and more_people(estimates) in page
    assert "4,000" in more_people(estimates) and "2 of 4 keys" in more_people(estimates)


def test_lists_of_some_keys_have_wider_frequencies(estimates: Estimates) -> None:
    one, all_keys, alone = estimates.chosen(1), estimates.chosen(4), estimates.per_key().chosen(1)
    width = (estimates.frequency.high - estimates.frequency.low)[1]
    assert (one.frequency.high - one.frequency.low)[1] == pytest.approx(width * 2.4977 / 1.96, rel=1e-3)
    assert (all_keys.frequency.high - all_keys.frequency.low)[1] == pytest.approx(width)
    assert (alone.frequency.high - alone.frequency.low)[1] == pytest.approx(width)


@pytest.mark.parametrize("seen", [True, False])
def test_more_people_do_not_lessen_what_a_cap_hides(estimates: Estimates, seen: bool) -> None:
    hidden = Undercount(2, 0.1, 0.03, 0.2, 0.05, 0.9, 0.02, 0.15, seen=seen)
    told = replace(estimates, header=replace(estimates.header, undercount=hidden))
    assert ("what the cap hides" in more_people(told)) == seen and ("half as wide" in more_people(told)) != seen


def test_how_many_exceed_a_cap_is_a_limit_where_nothing_is_seen() -> None:
    """Whoever asks 300 people has seven answers: that 19 % of them exceed the cap may be chance alone."""
    told = Undercount(3, 0.19, 0.37, 0.1, 0.4, 0.95, 0.2, 0.8)
    assert "at most 79.9% of the people hold more" in str(told)
    assert ": 19.0% of the people hold more" in str(replace(told, seen=True))
