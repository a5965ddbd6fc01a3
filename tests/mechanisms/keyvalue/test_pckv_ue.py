from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import keyveil as kv
from keyveil.core.errors import KeyveilError
from keyveil.core.tally import Tally
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.keyvalue.pckv_ue import COLD, MINUS, PLUS
from keyveil.testing.people import copies
from tests.mechanisms.keyvalue import sampling
from tests.mechanisms.keyvalue.sampling import expected_counts, make, spent

E = math.e


def test_the_constants_of_the_optimum() -> None:
    seen, fake, truth = (float(rate) for rate in make("pckv-ue", 20, 5).rates)
    assert seen == 0.5
    assert fake == pytest.approx(0.3497554091, abs=1e-9)
    assert truth == pytest.approx(0.7310585786, abs=1e-9)


@pytest.mark.parametrize(("d", "pairs"), [(3, 1), (2, 2), (4, 2)])
def test_all_of_epsilon_is_spent_and_no_more(d: int, pairs: int) -> None:
    """Over sets of every size up to d, so also those that exceed the cap."""
    mechanism = make("pckv-ue", d, pairs)
    assert 1 - 1e-6 < spent(mechanism) <= 1
    assert mechanism.certificate().certified


def test_one_key_is_never_below_the_enumeration() -> None:
    mechanism = make("pckv-ue", 1, 1)
    assert spent(mechanism) <= math.log(mechanism.ratio) * (1 + 1e-12) <= 1


@pytest.mark.parametrize(("epsilon", "half"), [("1", 0.5), ("3", 1.5)])
def test_halving_epsilon_leaves_some_of_it(epsilon: str, half: float) -> None:
    mechanism = make("pckv-ue", 3, 1, epsilon, split="paper")
    true = half + math.log(2 / (1 + math.exp(-half)))
    assert spent(mechanism) == pytest.approx(true, abs=1e-6)
    assert math.log(mechanism.ratio) == pytest.approx(true, abs=1e-6)


@pytest.mark.parametrize(
    ("pairs", "epsilon", "frequency", "mean"),
    [(5, "1", 252, 164), (1, "1", 10.1, 6.55), (5, "0.5", 1259, 717), (5, "2", 41.1, 33.2)],
)
def test_leading_variances(pairs: int, epsilon: str, frequency: float, mean: float) -> None:
    rare = make("pckv-ue", 100, pairs, epsilon).response.spread(np.full(1, 1e-9), np.zeros(1), np.ones(1), 1.0)
    assert rare.frequency[0] == pytest.approx(frequency, rel=0.005)
    assert rare.product[0] == pytest.approx(mean, rel=0.005)


@pytest.mark.parametrize("value", [sampling.MINUS, 0, 12_345, sampling.PLUS])
def test_expectations_are_unbiased_exactly(value: int) -> None:
    mechanism = make("pckv-ue", 3, 2)
    response = mechanism.response
    (minus, plus), v = expected_counts(mechanism, [(1, value)]), Fraction(value, sampling.PLUS)
    for key in range(3):
        one = response.holder if key == 1 else response.stranger
        assert minus[key] + plus[key] == one.support
        assert plus[key] - minus[key] == one.signed * v


def test_erratum_D6_sampling_adds_to_the_variance() -> None:  # noqa: N802
    """The printed variance takes the number of people who sample a key as fixed; it misses f(ℓ - 1)/n, exactly."""
    mechanism, f, pairs = make("pckv-ue", 20, 5), Fraction(1, 4), 5
    (seen, fake, _), phi = mechanism.rates, f / pairs
    printed = pairs**2 * (phi * seen * (1 - seen) + (1 - phi) * fake * (1 - fake)) / (seen - fake) ** 2
    holder, stranger = mechanism.response.holder, mechanism.response.stranger
    gain = holder.support - stranger.support
    stated = (f * holder.support * (1 - holder.support) + (1 - f) * stranger.support * (1 - stranger.support)) / gain**2
    assert stated - printed == f * (pairs - 1)
    spread = mechanism.response.spread(np.array([0.25]), np.zeros(1), np.ones(1), 1.0)
    assert spread.frequency[0] == pytest.approx(float(stated))


def test_erratum_D11_larger_sets_are_underestimated() -> None:  # noqa: N802
    """A pair of a set of size 3 is sampled with probability 1/3 instead of 1/2."""
    mechanism = make("pckv-ue", 3, 2)
    minus, plus = expected_counts(mechanism, [(key, sampling.PLUS) for key in range(3)])
    fake, holder = mechanism.response.stranger.support, mechanism.response.holder.support
    for key in range(3):
        assert (minus[key] + plus[key] - fake) / (holder - fake) == Fraction(2, 3)


def test_published_estimates_are_cut_and_say_so() -> None:
    mechanism = make("pckv-ue", 3, 2, estimator="published")
    fake, n = float(mechanism.rates.fake), 1_000_000
    excess = np.array([[-0.02, -0.003, 0], [0, 0.01, 0.2]])  # of minus and plus, for three keys
    counts = (n * (fake / 2 + excess)).astype(np.int64)
    tally = Tally(mechanism.fingerprint, n, counts)
    plain = make("pckv-ue", 3, 2)
    unbiased = plain.estimate(Tally(plain.fingerprint, n, counts))
    estimates = mechanism.estimate(tally)
    assert unbiased.frequency.values[0] < 0 < estimates.frequency.values[0] == 1 / n
    assert unbiased.frequency.values[2] > 1 == estimates.frequency.values[2]
    assert estimates.frequency.flag.tolist() == [2, 0, 2]
    assert unbiased.mean.values[1] > 1 == estimates.mean.values[1]
    assert (np.abs(estimates.mean.values) <= 1).all()
    assert set(estimates.flag) <= {"clipped", "insufficient"}


def test_published_estimates_change_nothing_that_is_possible() -> None:
    published, unbiased = (make("pckv-ue", 4, 2, estimator=estimator) for estimator in ("published", "unbiased"))
    records = copies([(0, 30_000), (2, -50_000)], 50_000, 4)
    counts = unbiased.tally(unbiased.perturb_many(records, SeededCoins(3))).counts
    cut = published.estimate(Tally(published.fingerprint, records.n, counts))
    free = unbiased.estimate(Tally(unbiased.fingerprint, records.n, counts))
    inside = (np.abs(free.mean.values) < 1) & (free.frequency.values > 0) & (free.frequency.values < 1)
    assert np.allclose(cut.frequency.values[inside], free.frequency.values[inside])
    assert free.product is not None
    assert np.allclose(cut.mean.values[inside], free.product[inside] / free.frequency.values[inside])
    assert set(np.array(cut.flag)[inside]) <= {"ok", "insufficient"}


def test_every_key_goes_through_the_factor() -> None:
    """What an aggregate simulation needs: people in each row, and the rows that ``respond`` really has."""
    mechanism = make("pckv-ue", 3, 2)
    counts = mechanism.hot_counts(copies([(0, sampling.PLUS), (2, sampling.MINUS)], 1000, 3), SeededCoins(4))
    assert counts.sum(axis=0).tolist() == [1000] * 3
    assert counts[COLD, 1] == 1000
    assert counts[PLUS, 0] + counts[MINUS, 2] == 1000 and counts[MINUS, 0] == counts[PLUS, 2] == 0
    # Of 1000 fair draws: more than 170 away from 500 happens with probability below 1e-25.
    assert abs(counts[PLUS, 0] - 500) < 170
    minus, plus = expected_counts(mechanism, [(0, sampling.PLUS), (1, sampling.PLUS)])
    for said, row in ((minus, MINUS), (plus, PLUS)):
        mixed = (mechanism.factor.probability(PLUS, row) + mechanism.factor.probability(COLD, row)) / 2
        assert said == [mixed, mixed, mechanism.factor.probability(COLD, row)]


def test_absence_excess_and_nonsense_get_reports_of_the_same_form() -> None:
    mechanism = kv.mechanism("pckv-ue", kv.Schema(keys=["a", "b", "c"], low=0, high=5), 1.0, max_pairs=1)
    for record in ({}, {"a": 1, "b": 2, "c": 3}, {"stranger": 1}, {"a": float("nan")}):
        report = mechanism.perturb(record, kv.Coins())
        assert mechanism.decode(mechanism.encode(report), report.public) == report


def test_the_length_is_close_to_the_entropy() -> None:
    mechanism = make("pckv-ue", 1000, 5)
    fake = float(mechanism.rates.fake)
    entropy = 1000 * (fake - fake * math.log2(fake) - (1 - fake) * math.log2(1 - fake))
    assert entropy < mechanism.bits_per_report < 1.05 * entropy


@pytest.mark.parametrize(
    "options",
    [{"max_pairs": 0}, {"max_pairs": 5}, {"max_pairs": 1, "split": "half"}, {"max_pairs": 1, "estimator": "x"}],
)
def test_senseless_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(KeyveilError) as refused:
        kv.mechanism("pckv-ue", kv.Schema(keys=4), 1, **options)
    assert refused.value.code == "mechanism/option"
