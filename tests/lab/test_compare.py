from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from keyveil.core.epsilon import keeps, log_ceiling
from keyveil.core.errors import KeyveilError, MechanismError
from keyveil.core.schema import Schema
from keyveil.lab import datasets
from keyveil.lab.compare import Comparison, compare, key_value_names, matched
from keyveil.lab.page import page

HALF, FOUR = Fraction(1, 2), Fraction(4)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    data = datasets.load("linear-s", n=3000, seed=1)
    return compare(data, ["0.5", 4], ["kvue", "pckv-ue", "ioh"], repeats=2, seed=1)


def test_every_mechanism_at_every_epsilon(comparison: Comparison) -> None:
    assert comparison.mechanisms == ("kvue", "pckv-ue")
    assert [(entry.mechanism, entry.epsilon) for entry in comparison.entries] == [
        ("kvue", HALF), ("kvue", FOUR), ("pckv-ue", HALF), ("pckv-ue", FOUR)
    ]  # fmt: skip
    assert all(0 < float(entry.exact_epsilon or 0) <= entry.epsilon for entry in comparison.entries)


def test_what_does_not_apply_says_why(comparison: Comparison) -> None:
    assert set(comparison.refused) == {"ioh"} and "20" in comparison.refused["ioh"]


def test_the_best_has_the_smallest_error(comparison: Comparison) -> None:
    for quantity in ("frequency", "mean"):
        best = comparison.best(FOUR, quantity)
        errors = [float(comparison.error(name, FOUR, quantity) or 9) for name in comparison.mechanisms]
        assert best is not None and comparison.error(best, FOUR, quantity) == min(errors)


def test_everyones_average_is_the_error_of_knowing_nothing_about_keys(comparison: Comparison) -> None:
    truth = comparison.dataset.population.truth(comparison.dataset.schema)
    assert comparison.average["frequency"] == pytest.approx(truth.frequency.var())
    pooled = comparison.dataset.population.values.mean()
    assert comparison.average["mean"] == pytest.approx(np.mean((truth.mean - pooled) ** 2))


def test_the_document_is_json_and_repeatable(comparison: Comparison) -> None:
    again = compare(comparison.dataset, ["0.5", 4], ["kvue", "pckv-ue", "ioh"], repeats=2, seed=1)
    documents = [one.document() for one in (comparison, again)]
    for document in documents:
        for entry in document["mechanisms"]:
            del entry["seconds"]
    assert json.dumps(documents[0], allow_nan=False) == json.dumps(documents[1])
    assert documents[0]["best"]["frequency"]["4"] in ("kvue", "pckv-ue")


def test_drawing_every_report_gives_the_same_picture(comparison: Comparison) -> None:
    slow = compare(comparison.dataset, [4], ["kvue"], repeats=2, seed=1, shortcut=False)
    ratio = float(slow.error("kvue", FOUR, "frequency") or 0) / float(comparison.error("kvue", FOUR, "frequency") or 1)
    assert 0.2 < ratio < 5  # each is a mean of 40 squared errors: a factor of 5 is beyond ten standard errors


def test_all_key_value_mechanisms_are_compared_unless_told() -> None:
    assert {"kvue", "pckv-ue", "ssr"} <= set(key_value_names())
    assert not {"grr", "duchi"} & set(key_value_names())


@pytest.mark.parametrize("name", ["kvue", "krr-harmony", "shist-harmony", "rappor-meanest"])
def test_equal_epsilon_means_what_is_spent(name: str) -> None:
    """A mechanism that spends less than it is asked for is asked for more, and never spends more than epsilon."""
    mechanism = matched(name, Schema(keys=8), Fraction(1), {})
    assert keeps(mechanism.ratio, Fraction(1))
    assert log_ceiling(mechanism.ratio) > Decimal("0.998")


def test_the_page_marks_winners_and_names_the_absent(comparison: Comparison) -> None:
    text = page([comparison])
    rows = [line for line in text.splitlines() if line.startswith("| linear-s | 4 |")]
    assert [row.count("**") for row in rows] == [2, 2, 2, 2]  # frequencies and means, of all keys and of the top
    assert "- linear-s, ioh: " in text and "--repeats 2 --seed 1" in text and "3,000" in text
    assert "keyveil compare synthetic:linear-s:3000 " in text


def test_mistakes_are_refused(comparison: Comparison) -> None:
    with pytest.raises(MechanismError):
        compare(comparison.dataset, [])
    with pytest.raises(MechanismError):
        compare(comparison.dataset, [1], ["kvu"])
    with pytest.raises(KeyveilError):
        compare(comparison.dataset, [0], ["kvue"])
