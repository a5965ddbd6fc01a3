from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keyveil.core.dimensions import joint_key, product_keys
from keyveil.core.errors import KeyveilError
from keyveil.core.population import Population
from keyveil.core.schema import Schema
from keyveil.lab import datasets
from keyveil.lab.coins import SeededCoins
from keyveil.lab.rounds import those
from keyveil.protocols.base import Finished, Protocol, most_spent
from keyveil.protocols.facets import Coordinates, Levels

SNACKS = Schema(keys=["burger", "fries", "pepsi"])


def answered(protocol: Protocol, sides: list[Population], n: int) -> list[Finished]:
    """Everybody answers the round of their part, with the side of their record that it asks about."""
    words = SeededCoins(5).words(n)
    finished: list[Finished] = []
    while (asked := protocol.next_round(finished)) is not None:
        mine = asked.part.members(words)
        people = sides[len(finished)].records(asked.mechanism.schema)
        reports = asked.mechanism.perturb_many(those(people, mine), SeededCoins(6, len(finished)))
        tally = asked.mechanism.tally(reports)
        finished.append(Finished(asked, tally))
    return finished


def test_keys_of_several_dimensions_are_one_domain() -> None:
    keys = product_keys(["berlin", "rome"], ["fries", "pepsi"])
    assert keys == ["berlin/fries", "berlin/pepsi", "rome/fries", "rome/pepsi"]
    assert Schema(keys=keys).index(joint_key("rome", "fries")) == 2
    with pytest.raises(KeyveilError):
        joint_key("a/b", "c")


def test_everybody_reports_one_coordinate_and_pays_once() -> None:
    n = 60_000
    protocol = Coordinates(SNACKS, Fraction(2), mechanism="kvue", names=("rating", "price"))
    rating, price = [0.5, -0.2, 0.1], [-0.4, 0.3, 0.0]
    sides = [datasets.independent(n, [0.6, 0.4, 0.3], means, 3, SNACKS.keys) for means in (rating, price)]
    finished = answered(protocol, sides, n)
    assert most_spent([one.round for one in finished]) == 2
    answers = protocol.answers(finished)
    for name, means in (("rating", rating), ("price", price)):
        assert np.abs((answers[name].mean.values - means) / answers[name].mean.se).max() < 5.5
    together = protocol.estimate(finished)
    assert np.abs((together.frequency.values - sides[0].truth(SNACKS).frequency) / together.frequency.se).max() < 5.5
    assert together.frequency.se.max() < min(one.frequency.se.max() for one in answers.values())
    with pytest.raises(KeyveilError):
        _ = together.mean["fries"]


def test_a_device_shows_the_coordinate_that_is_asked_for() -> None:
    protocol = Coordinates(SNACKS, Fraction(1), mechanism="kvue", names=("rating", "price"), ranges=((1, 5), (0, 20)))
    record = {"fries": (4, 3.5), "pepsi": (2, 1.9)}
    assert protocol.seen(record, 0) == {"fries": 4, "pepsi": 2}
    assert protocol.seen(record, 1) == {"fries": 3.5, "pepsi": 1.9}
    assert float(protocol.sides["price"].high) == 20  # type: ignore[arg-type]
    with pytest.raises(KeyveilError):
        protocol.seen({"fries": (4,)}, 0)


def test_a_hierarchy_is_reported_at_one_level() -> None:
    schema = Schema(keys=["food/apple", "food/bread", "drink/tea"])
    protocol = Levels(schema, Fraction(1), mechanism="kvue", depths=(1, 2))
    assert {name: side.keys for name, side in protocol.sides.items()} == {
        "1": ("food", "drink"),
        "2": ("food/apple", "food/bread", "drink/tea"),
    }
    assert protocol.seen({"food/apple": 1.0, "food/bread": 0.0, "drink/tea": 0.5}, 0) == {"food": 0.5, "drink": 0.5}
    first = protocol.next_round([])
    assert first is not None and first.part.stop == Fraction(1, 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Coordinates(SNACKS, Fraction(1), mechanism="kvue", names=()),
        lambda: Coordinates(SNACKS, Fraction(1), mechanism="kvue", names=("a", "a")),
        lambda: Coordinates(SNACKS, Fraction(1), mechanism="kvue", names=("a",), ranges=((0, 1), (0, 1))),
        lambda: Levels(SNACKS, Fraction(1), mechanism="kvue", depths=(1, 2)),
        lambda: Levels(SNACKS, Fraction(1), mechanism="nonsense", depths=(1,)),
    ],
)
def test_what_makes_no_sense_is_refused(make: object) -> None:
    with pytest.raises(KeyveilError):
        make()  # type: ignore[operator]


def test_the_example_of_the_documentation_runs() -> None:
    """Half of 1,500 people answer about prices; what comes out lies within the range, with an interval."""
    page = (Path(__file__).parents[2] / "docs" / "protocols-groups.md").read_text(encoding="utf-8")
    (example,) = (block for block in page.split("```python\n")[1:] if "Coordinates(" in block)
    names: dict[str, Any] = {}
    exec(example.split("```")[0], names)
    price, frequencies = names["price"], names["frequencies"]
    assert price.low < price.value < price.high
    assert abs(price.value - 3.25) < 6 * price.se
    assert abs(frequencies["fries"].value - 2 / 3) < 6 * frequencies["fries"].se
    assert sum(one.tally.reports for one in names["finished"]) == len(names["people"])
