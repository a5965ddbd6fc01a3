"""Laws of set sizes: read, spelled, and asked for a cap."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from keyveil.core.errors import MechanismError
from keyveil.mechanisms.size_law import SizeLaw


@pytest.mark.parametrize(
    ("given", "text"),
    [(5, "5"), ("5", "5"), ("2:0.8,1:0.2", "1:0.2,2:0.8"), ({1: 1, 3: 3}, "1:0.25,3:0.75"), ("0:1,4:2", "0:1/3,4:2/3")],
)
def test_laws_of_sizes_have_one_spelling(given: Any, text: str) -> None:
    assert str(SizeLaw.read(given)) == text
    assert SizeLaw.read(text) == SizeLaw.read(given)


def test_a_law_knows_its_mean_its_largest_size_and_who_holds_the_pairs() -> None:
    law = SizeLaw.of((0.5, 0.25, 0, 0.25))
    assert law == SizeLaw.read("0:2,1:1,3:1")
    assert (law.mean, law.largest) == (1.0, 3)
    assert law.by_size.tolist() == [0.5, 0.25, 0, 0.25]
    assert law.of_holders.tolist() == [0, 0.25, 0.75]
    assert sum((share for _, share in SizeLaw.of([0.3] * 3).shares), Fraction(0)) == 1


def test_quantiles_of_sizes() -> None:
    law = SizeLaw.of((0.5, 0.3, 0.2))
    assert [law.quantile(share) for share in (0.4, 0.8, 0.9, 1.0, Fraction(4, 5))] == [1, 1, 2, 2, 1]
    for share in (0, 1.5):
        with pytest.raises(MechanismError) as refused:
            law.quantile(share)
        assert refused.value.code == "learn/quantile"


@pytest.mark.parametrize(
    ("shares", "text"),
    [((0, 1), "1:1"), ((0.12344, 0.87656), "0:0.1234,1:0.8766"), ((1, 0), "1"), ((0.99999, 0.00001), "1")],
)
def test_an_estimated_law_has_four_decimals_and_somebody_who_holds_something(shares: Any, text: str) -> None:
    assert SizeLaw.of(shares).rounded == text


@pytest.mark.parametrize(
    "given",
    ["five", "1:0.5,1:0.5", "1:-1,2:2", "-1", "1:0", "1:1/0", {1: "x"}, "", "1:2:3", "1:1e3000000,2:1", "9" * 20],
    ids=str,
)
def test_what_is_no_law_is_refused(given: Any) -> None:
    with pytest.raises(MechanismError) as refused:
        SizeLaw.read(given)
    assert refused.value.code == "mechanism/option"
