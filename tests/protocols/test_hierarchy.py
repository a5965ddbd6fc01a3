"""Keys in a hierarchy: everybody reports at one level."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from keyveil.core.errors import KeyveilError
from keyveil.core.schema import Schema
from keyveil.protocols.hierarchy import Levels

AISLES = Schema(keys=["food/apple", "food/bread", "drink/tea"])
SNACKS = Schema(keys=["burger", "fries", "pepsi"])
SHELVED = Levels(AISLES, Fraction(1))


def test_a_hierarchy_is_reported_at_one_level() -> None:
    protocol = Levels(AISLES, Fraction(1), depths=(1, 2))
    assert {name: view.keys for name, view in protocol.views.items()} == {
        "1": ("food", "drink"),
        "2": ("food/apple", "food/bread", "drink/tea"),
    }
    assert protocol.view_of({"food/apple": 1.0, "food/bread": 0.0, "drink/tea": 0.5}, 0) == {"food": 0.5, "drink": 0.5}
    first = protocol.next_round([])
    assert first is not None and first.part.stop == Fraction(1, 2)


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        ({"food/xyz": 1.0, "cake/apple": 1.0, "food": 1.0}, {}),  # keys that the dictionary does not have
        ({"food/apple": 9.0, "food/bread": 0.0}, {"food": 0.5}),  # clamped first, then averaged
        ({"food/apple": math.nan, "drink/tea": math.inf}, {}),
        ({"food/apple": math.nan, "food/bread": -1}, {"food": -1.0}),
        ({"food/apple": Decimal("0.5"), "food/bread": np.float32(0.5), "drink/tea": True}, {"food": 0.5, "drink": 1.0}),
    ],
    ids=str,
)
def test_a_record_is_cleaned_before_it_is_cut_to_a_level(record: dict[str, Any], shown: dict[str, float]) -> None:
    assert SHELVED.view_of(record, 0) == shown


def test_values_keep_their_levels_where_no_two_keys_fall_together() -> None:
    rated = Levels(Schema(AISLES.keys, levels=[1, 2, 3]), Fraction(1), depths=(1, 2))
    assert [view.most_levels for view in rated.views.values()] == [0, 3]  # a mean of two ratings is no rating


def test_levels_keep_the_scale_and_the_place_of_unknown_keys() -> None:
    schema = Schema(AISLES.keys, low=1, high=100, map="log", other="food/other")
    protocol = Levels(schema, Fraction(1), depths=(1, 2))
    assert protocol.view_of({"food/apple": 1, "food/xyz": 100}, 0) == {"food": pytest.approx(10)}  # a geometric mean
    assert protocol.view_of({"food/xyz": 100, "cake": 1}, 1) == {"food/other": pytest.approx(1)}  # the last one wins
    assert protocol.views["1"].map == "log"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Levels(SNACKS, Fraction(1), mechanism="kvue", depths=(1, 2)),
        lambda: Levels(SNACKS, Fraction(1), mechanism="nonsense", depths=(1,)),
        lambda: Levels(AISLES, Fraction(1), depths=(1, 1)),
        lambda: Levels(AISLES, Fraction(1), depths=()),
        lambda: Levels(Schema(AISLES.keys, 1, 9, map={"drink/tea": "log"}), Fraction(1)),
    ],
)
def test_levels_that_make_no_sense_are_refused(make: object) -> None:
    with pytest.raises(KeyveilError):
        make()  # type: ignore[operator]
