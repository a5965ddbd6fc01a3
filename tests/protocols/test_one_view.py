"""What coordinates and levels share: a record is cleaned whole before a device takes a view of it."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from keyveil.core.errors import RecordError
from keyveil.core.schema import Schema
from keyveil.protocols.coordinates import Coordinates
from keyveil.protocols.hierarchy import Levels
from keyveil.protocols.one_view import OneView

SNACKS = Schema(keys=["burger", "fries", "pepsi"])
AISLES = Schema(keys=["food/apple", "food/bread", "drink/tea"])
RATED = Coordinates(SNACKS, Fraction(1), names=("rating", "price"), ranges=((1, 5), (0, 20)))
SHELVED = Levels(AISLES, Fraction(1))


@pytest.mark.parametrize(
    ("protocol", "record"),
    [
        *[(SHELVED, {"food/apple": value}) for value in ("1", None, [1], math.nan)],
        *[(SHELVED, {key: 1.0}) for key in ("food/xyz", None, 3.5)],
        *[(RATED, {"fries": value}) for value in ("12", b"12", None, 4, (4,), (4, 1, 1), np.ones((2, 2)), {4, 5})],
        *[(RATED, {"fries": value}) for value in ((4, "cheap"), (None, 4), (4, math.inf), [4, [4]])],
        *[(RATED, {key: (4, 4)}) for key in ("tea", None, 3.5)],
    ],
    ids=lambda one: one.name if isinstance(one, OneView) else str(one),
)
def test_a_pair_that_cannot_be_read_is_absent_in_every_view(protocol: OneView, record: dict[Any, Any]) -> None:
    """A device answers whatever the record is: an error in one view would tell which records are so."""
    good: dict[str, Any] = {"drink/tea": 0.5} if protocol is SHELVED else {"pepsi": (2, 5)}
    for view in range(len(protocol.views)):
        assert protocol.view_of(record, view) == {}
        assert protocol.view_of(record | good, view) == protocol.view_of(good, view) != {}


@pytest.mark.parametrize("protocol", [SHELVED, RATED], ids=["levels", "coordinates"])
@pytest.mark.parametrize("record", [["fries"], "fries", None, 4])
def test_what_is_no_record_is_refused_in_every_view(protocol: OneView, record: Any) -> None:
    for view in range(len(protocol.views)):
        with pytest.raises(RecordError) as refused:
            protocol.view_of(record, view)
        assert refused.value.code == "record/type"
