from __future__ import annotations

import math
from fractions import Fraction

import pytest

from keyveil.lab.coins import SeededCoins
from keyveil.testing.people import copies
from tests.mechanisms.keyvalue import sampling
from tests.mechanisms.keyvalue.sampling import expected_counts, make, spent
from tests.mechanisms.keyvalue.sets import variances

SIZES = [(3, 1), (2, 2), (4, 2)]


def test_the_constants_of_the_optimum() -> None:
    seen, fake, truth = (float(rate) for rate in make("pckv-grr", 20, 5).rates)
    assert seen == pytest.approx(0.1807672711, abs=1e-9)
    assert fake == pytest.approx(0.0341346970, abs=1e-9)
    assert truth == pytest.approx(0.9055838570, abs=1e-9)


@pytest.mark.parametrize(("d", "pairs"), SIZES)
@pytest.mark.parametrize("epsilon", ["0.3", "1", "4"])
def test_all_of_epsilon_is_spent_and_no_more(d: int, pairs: int, epsilon: str) -> None:
    """Over sets of every size up to d, so also those that exceed the cap."""
    mechanism = make("pckv-grr", d, pairs, epsilon)
    assert float(epsilon) - 1e-6 < spent(mechanism) <= float(epsilon)
    assert math.log(mechanism.ratio) == pytest.approx(spent(mechanism), abs=1e-12)


@pytest.mark.parametrize(("d", "pairs"), SIZES)
def test_halving_epsilon_leaves_much_of_it(d: int, pairs: int) -> None:
    """Sampling amplifies: ln((e^ε + λ) / (min(e^ε₁, (e^ε₂ + 1)/2) + λ)) with λ = (ℓ - 1)(e^ε₂ + 1)/2."""
    mechanism, half = make("pckv-grr", d, pairs, split="paper"), math.exp(0.5)
    blanket = (pairs - 1) * (half + 1) / 2
    true = math.log((half**2 + blanket) / (min(half, (half + 1) / 2) + blanket))
    assert spent(mechanism) == pytest.approx(true, abs=1e-6)
    assert math.log(mechanism.ratio) == pytest.approx(true, abs=1e-6)
    assert true < 0.85


@pytest.mark.parametrize("split", ["tight", "paper"])
@pytest.mark.parametrize("value", [sampling.MINUS, 12_345, sampling.PLUS])
def test_expectations_are_unbiased_exactly(split: str, value: int) -> None:
    mechanism = make("pckv-grr", 3, 2, split=split)
    counts, v = expected_counts(mechanism, [(1, value)]), Fraction(value, sampling.PLUS)
    response = mechanism.response
    for key in range(3):
        one = response.holder if key == 1 else response.stranger
        assert counts[2 * key] + counts[2 * key + 1] == one.support
        assert counts[2 * key + 1] - counts[2 * key] == one.signed * v
    assert sum(counts) == 1


def test_erratum_F3_the_dummies_are_protected_too_well() -> None:  # noqa: N802
    """Their symbol never tells more than a factor (E + 1)/2 of the E it could; the null symbol of ``wsr`` tells all."""
    for name, most in (("pckv-grr", (math.e + 1) / 2), ("wsr", math.e)):
        mechanism = make(name, 4, 2)
        nothing, full = (
            expected_counts(mechanism, [(key, sampling.PLUS) for key in range(held)])[mechanism.null] for held in (0, 2)
        )
        assert float(nothing / full) == pytest.approx(most)
    sampled, together = (variances(make(name, 20, 5))[0] for name in ("pckv-grr", "wsr"))
    assert together / sampled == pytest.approx(0.912, abs=0.001)
    # of 2(x - 2)/(E - 1)², one symbol for each dummy more
    assert (sampled - together) * (math.e - 1) ** 2 / 2 == pytest.approx(5)


def test_what_goes_into_the_channel_can_be_counted() -> None:
    mechanism = make("pckv-grr", 3, 2)
    counts = mechanism.hot_counts(copies([(1, sampling.PLUS)], 1000, 3), SeededCoins(4))
    assert counts[3] + counts[mechanism.null] == counts.sum() == 1000
    assert abs(counts[3] - 500) < 170  # fair draws: a false alarm has probability below 1e-25


def test_a_report_is_one_symbol() -> None:
    assert make("pckv-grr", 100, 5).bits_per_report == math.ceil(math.log2(201))
