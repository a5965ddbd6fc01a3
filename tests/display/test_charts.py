"""Charts and markup: well formed, complete, and nothing but text where text was given."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

import keyveil as kv
from keyveil.display.charts import arrivals, forest, shares
from keyveil.display.markup import Html, tag, together


@pytest.fixture(scope="module")
def estimates() -> kv.Estimates:
    schema = kv.Schema(keys=["<b>burger", "fries & co", "pepsi"], low=1, high=5)
    mechanism = kv.mechanism("ssr", schema, epsilon=4, max_pairs=2)
    people = kv.Population.from_records([{"<b>burger": 4}, {"fries & co": 2, "pepsi": 5}, {}] * 500)
    return mechanism.estimate(mechanism.tally(mechanism.perturb_many(people.records(schema), kv.Coins())))


def named(drawn: str, name: str, look: str) -> list[ElementTree.Element]:
    """Elements of a chart by name and class, all of them beside each other and none inside another."""
    root = ElementTree.fromstring(drawn)
    return [one for one in root.iter(name) if look in one.get("class", "") and not len(one)]


def test_a_forest_has_an_interval_and_a_point_for_every_key_and_panel(estimates: kv.Estimates) -> None:
    drawn = forest(estimates)
    assert len(named(drawn, "line", "interval")) == len(named(drawn, "circle", "point")) == 2 * 3
    assert "fries &amp; co" in drawn and "<b>" not in drawn
    assert len(named(forest(estimates, top=1), "circle", "point")) == 2


def test_arrivals_leave_gaps_where_nothing_came() -> None:
    drawn = arrivals([{"bucket": 80_000, "reports": 5}, {"bucket": 80_010, "reports": 10}], 6)
    assert isinstance(drawn, Html)
    first, last = named(drawn, "rect", "bar")
    assert float(last.get("height", 0)) == 2 * float(first.get("height", 0))
    assert float(last.get("x", 0)) > 5 * float(first.get("width", 0))
    assert "15 reports from 2024-10-04 to 2024-10-06" in drawn
    assert arrivals([], 6) == "none yet"


def test_shares_are_bars_of_their_heights() -> None:
    bars = named(shares([1, 5], [0.25, 0.75], "told"), "rect", "bar")
    assert float(bars[1].get("height", 0)) == pytest.approx(3 * float(bars[0].get("height", 0)), rel=1e-4)


@pytest.mark.parametrize("count", [5, 64])
def test_few_values_are_named_and_many_stand_on_a_round_axis(count: int) -> None:
    values = np.linspace(1, 5, count).tolist()
    drawn = shares(values, [1 / count] * count, "told")
    words = [one.text for one in named(drawn, "text", "quiet")]
    assert words[-5:] == ["1", "2", "3", "4", "5"] and len(named(drawn, "rect", "bar")) == count
    last = named(drawn, "rect", "bar")[-1]
    middle = float(last.get("x", 0)) + float(last.get("width", 0)) / 2
    assert float(named(drawn, "text", "quiet")[-1].get("x", 0)) == pytest.approx(middle, abs=0.1)


def test_axes_have_round_numbers_and_crafted_reports_a_band(estimates: kv.Estimates) -> None:
    words = [one.text or "" for one in named(forest(estimates), "text", "quiet")]
    assert words.count("frequency") == words.count("mean") == 1
    assert all(len(word.removeprefix("0.")) <= 2 for word in words if word[0].isdigit()), words
    assert not named(forest(estimates), "line", "crafted")


def test_text_stays_text_and_attributes_cannot_be_left() -> None:
    evil = "\"><script>alert('x')</script>"
    made = tag("p", evil, tag("b", evil), title=evil, hidden=False, class_="note", data_x=True)
    assert "<script" not in made and made.startswith('<p title="&quot;&gt;') and made.count("&lt;script") == 3
    assert " data-x>" in made and "hidden" not in made and "class=" in made
    assert together(made, None, ["a", 1]) == made + "a1"
