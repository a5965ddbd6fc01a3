"""Rounds that add up: the variances and the covariance of one round are those of its response, and n rounds are n times
as much evidence."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from keyveil.mechanisms.evidence import Observed, combined
from keyveil.mechanisms.responses import three_state

SEEN, FAKE, TRUTH = Fraction(1, 2), Fraction(1, 5), Fraction(3, 4)
KEEP = float(2 * TRUTH - 1)
SHARES, MEANS = np.array([0.1, 0.3, 0.6]), np.array([0.5, -0.6, 0.9])
PEOPLE = 10**9  # so that counts are as expected to nine digits


def observed(asked: int, fake_mean: float) -> Observed:
    """A round whose counts of nothing, minus and plus are exactly what is expected."""
    seen, fake = float(SEEN), float(FAKE)
    speaks = SHARES * seen + (1 - SHARES) * fake
    signed = KEEP * (SHARES * seen * MEANS + (1 - SHARES) * fake * fake_mean)
    laws: NDArray[np.float64] = np.stack([1 - speaks, (speaks - signed) / 2, (speaks + signed) / 2])
    counts = np.rint(asked * laws).astype(np.int64)
    return Observed(counts, (0, 1, 1), (0, -1, 1), seen, seen * KEEP, fake, fake * KEEP * fake_mean)


@pytest.mark.parametrize("fake_mean", [Fraction(0), Fraction(1, 2)], ids=["fair", "up"])
@pytest.mark.parametrize("share", [1.0, 0.25], ids=["everybody", "a quarter"])
def test_one_round_has_the_errors_of_its_response(share: float, fake_mean: Fraction) -> None:
    asked = int(PEOPLE * share)
    solution, respondents = combined([observed(asked, float(fake_mean))], PEOPLE, population=False)
    response = three_state(SEEN, FAKE, TRUTH, fake_mean=fake_mean)
    expected = response.spread(SHARES, MEANS, np.full(3, float(asked)), share)

    assert np.abs(respondents - asked).max() <= 1
    assert solution.frequency == pytest.approx(SHARES, rel=1e-6)
    assert solution.product == pytest.approx(SHARES * MEANS, rel=1e-6)
    for found, known in zip(solution.spread, expected, strict=True):
        assert found == pytest.approx(known, rel=1e-5)


def test_people_who_are_a_sample_add_how_they_differ() -> None:
    """Of holding a key f(1 - f), and of holding it together with its value f·m(1 - f), each over n."""
    rounds = [observed(PEOPLE // 4, 0.5)]
    fixed, sampled = (combined(rounds, PEOPLE, population)[0].spread for population in (False, True))
    assert (sampled.frequency - fixed.frequency) * PEOPLE == pytest.approx(SHARES * (1 - SHARES), rel=1e-5)
    assert (sampled.covariance - fixed.covariance) * PEOPLE == pytest.approx(SHARES * MEANS * (1 - SHARES), rel=1e-5)
    assert (sampled.product - fixed.product) * PEOPLE == pytest.approx(SHARES - (SHARES * MEANS) ** 2, rel=1e-5)


def test_rounds_that_say_the_same_add_up() -> None:
    one, _ = combined([observed(PEOPLE // 10, 0.5)], PEOPLE, population=True)
    three, respondents = combined([observed(PEOPLE // 10, 0.5)] * 3, PEOPLE, population=False)
    alone, _ = combined([observed(PEOPLE // 10, 0.5)], PEOPLE, population=False)
    assert respondents == pytest.approx(3 * PEOPLE // 10, rel=1e-6)
    assert three.frequency == pytest.approx(one.frequency)
    for together, single in zip(three.spread, alone.spread, strict=True):
        assert together == pytest.approx(single / 3)


def test_rounds_of_few_reports_are_not_biased() -> None:
    """Two rounds, 20 reports a key each, 4000 absent keys: weights by a key's own counts bias f by 0.2 errors.

    The mean score has a standard deviation of 0.016; the bound is five of them.
    """
    rng, keys, speaking = np.random.default_rng(6), 4000, np.array([[0.3, 0.4]]).T

    def drawn(fake: float) -> Observed:
        laws = np.array([1 - fake, fake / 2, fake / 2])
        counts = rng.multinomial(20, laws, size=keys).T
        return Observed(counts, (0, 1, 1), (0, -1, 1), 1 - fake, (1 - fake) * KEEP, fake, 0.0)

    solution, _ = combined([drawn(float(fake)) for (fake,) in speaking], 10**5, population=False)
    scores = solution.frequency / np.sqrt(solution.spread.frequency)
    assert abs(float(scores.mean())) < 0.08
    assert 0.93 < float((np.abs(scores) < 1.96).mean()) < 0.98
