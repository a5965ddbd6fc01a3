from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from keyveil.core.epsilon import RESOLUTION, keeps, lie_threshold
from keyveil.core.errors import ProtocolError
from keyveil.core.schema import GRID, Schema
from keyveil.core.tally import Tally
from keyveil.lab import datasets
from keyveil.lab.coins import SeededCoins
from keyveil.lab.rounds import ask
from keyveil.lab.simulate import simulate
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.keyvalue.privkv import PrivKV
from keyveil.mechanisms.rounds.privkvm import PrivKVRound, broadcast
from keyveil.privacy.certify import certify, enumerate_worst
from keyveil.protocols.base import Finished, Protocol, most_spent
from keyveil.protocols.privkvm import PrivKVM
from tests.protocols.hostile import epsilon, records, worst_loss

HALF = Fraction(1, 2)
FREQUENCIES, MEANS = np.array([0.05, 0.3, 0.8]), np.array([0.9, -0.4, 0.6])


def privkvm(rounds: int, total: int = 1, d: int = 3, **options: Any) -> PrivKVM:
    return PrivKVM(Schema(keys=d), Fraction(total), rounds=rounds, **options)


def rounds_of(protocol: Protocol, seed: int = 1) -> list[PrivKVRound]:
    """The rounds as they come about with some people."""
    people = datasets.independent(500, [0.5] * protocol.schema.d, [0.5] * protocol.schema.d, 1)
    asked = [one.round.mechanism for one in ask(protocol, [people.records(protocol.schema)], seed)]
    assert all(isinstance(one, PrivKVRound) for one in asked)
    return asked  # type: ignore[return-value]


def expected(asked: PrivKVRound, frequencies: Any, means: Any, n: int = 10**12) -> Tally:
    """So many reports that their counts are what is expected."""
    plus = np.stack([(1 + np.asarray(asked.fake or 0) / GRID) / 2 * np.ones(len(means)), (1 + means) / 2])
    liars, holders = (
        (1 - frequencies) * np.stack([1 - plus[0], plus[0]]),
        frequencies * np.stack([1 - plus[1], plus[1]]),
    )
    counts = np.rint(n * (asked.channel.matrix() @ np.concatenate([liars, holders]))).astype(np.int64)
    return Tally(asked.fingerprint, int(counts.sum()), counts)


def in_expectation(protocol: Protocol, frequencies: Any, means: Any) -> list[Finished]:
    """A history in which every count is its expectation."""
    finished: list[Finished] = []
    while (asked := protocol.next_round(finished)) is not None:
        assert isinstance(asked.mechanism, PrivKVRound)
        finished.append(Finished(asked, expected(asked.mechanism, frequencies, means)))
    return finished


# -- the round ------------------------------------------------------------------------------------------------------


def test_without_a_budget_for_keys_presence_is_a_fair_coin() -> None:
    asked = PrivKVRound(Schema(keys=2), HALF)
    assert asked.truths == (HALF, 1 - Fraction(lie_threshold(HALF), RESOLUTION))


@pytest.mark.parametrize("fake", [(), (0, 0), (GRID, -GRID), (GRID // 3, -GRID // 2)])
@pytest.mark.parametrize("key", [Fraction(0), HALF])
def test_the_closed_form_is_that_of_the_sampler(key: Fraction, fake: tuple[int, ...]) -> None:
    asked = PrivKVRound(Schema(keys=2), Fraction(1), key, fake)
    assert enumerate_worst(asked).ratio == asked.ratio <= asked.announced_ratio()
    assert keeps(asked.announced_ratio(), Fraction(1))
    assert certify(asked).certified


def test_large_rounds_are_certified_with_their_most_extreme_broadcasts() -> None:
    asked = PrivKVRound(Schema(keys=9), Fraction(1), HALF, (0, 0, 0, GRID, 0, 0, 0, -5, 0))
    certificate = certify(asked)
    assert (
        certificate.method == "closed-form" and certificate.ratio == asked.announced_ratio() == certificate.worst.ratio
    )


def test_specified_losses_of_one_round() -> None:
    fair = PrivKVRound(Schema(keys=1), Fraction(1), HALF)
    assert math.log(fair.ratio) == pytest.approx(0.7191, abs=5e-5)
    assert math.log(fair.announced_ratio()) == pytest.approx(1, abs=1e-8)


def test_erratum_A10_a_made_up_sign_that_the_collector_knows_costs_most() -> None:  # noqa: N802
    """A10: announce a mean, not a private sign."""
    known, mean = (PrivKVRound(Schema(keys=1), Fraction(1), HALF, (place,)) for place in (GRID, GRID // 5))
    assert math.log(known.ratio) == pytest.approx(1, abs=1e-8)
    assert math.log(mean.ratio) < 0.8


@pytest.mark.parametrize("fake", [(GRID + 1, 0), (0, -GRID - 1), (0,), (0, 0, 0)])
def test_a_broadcast_out_of_range_is_refused(fake: tuple[int, ...]) -> None:
    with pytest.raises(ProtocolError) as refused:
        PrivKVRound(Schema(keys=2), HALF, fake=fake)
    assert refused.value.code == "protocol/broadcast"


def test_what_is_announced_is_always_possible() -> None:
    assert broadcast(np.array([-3.0, np.nan, 0.5, 1.0])) == (-GRID, 0, GRID // 2, GRID)


def test_single_reports_and_blocks_have_one_law() -> None:
    """Counts of 40,000 people against the exact law: χ² with 2 degrees of freedom exceeds 40 with chance 2e-9."""
    asked, n = PrivKVRound(Schema(keys=1), Fraction(2), HALF, (GRID // 2,)), 40_000
    people = datasets.independent(n, [0.4], [-0.3], 2)
    truth = people.truth(asked.schema)
    counts = asked.tally(asked.perturb_many(people.records(asked.schema), SeededCoins(3))).counts[:, 0]
    mean = expected(asked, truth.frequency, truth.mean).counts[:, 0] / 10**12 * n
    assert ((counts - mean) ** 2 / mean).sum() < 40


# -- privacy of all rounds ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "c", "specified"), [(1, 2, 0.8672), (1, 3, 0.9132), (2, 2, 0.8672), (2, 3, 0.9132)])
def test_erratum_A9_a_hostile_collector_learns_no_more_than_asked(d: int, c: int, specified: float) -> None:  # noqa: N802
    """A9: the total is respected, and is exactly ε₁₁ + ln 2P(ε₂₁) + Σ ε₂ᵣ."""
    protocol = privkvm(c, d=d)
    first, *later = rounds_of(protocol)
    forms: list[list[Mechanism]] = [[first], *(list(asked.announced_forms()) for asked in later)]
    exact = worst_loss(forms, records(d))
    assert keeps(exact, protocol.epsilon)
    assert epsilon(exact) == pytest.approx(specified, abs=5e-5)
    paid = most_spent([one.round for one in in_expectation(protocol, FREQUENCIES[:d], MEANS[:d])])
    assert epsilon(exact) <= float(paid) + 1e-12 and float(paid) == pytest.approx(epsilon(exact), abs=1e-12)


def test_erratum_A9_presence_is_protected_by_the_total_only() -> None:  # noqa: N802
    """A9: with ε₁ = 1/2 for keys, somebody who holds the key and somebody who does not differ by 0.913."""
    first, *later = rounds_of(privkvm(3, d=1))
    forms: list[list[Mechanism]] = [[first], *(list(asked.announced_forms()) for asked in later)]
    assert epsilon(worst_loss(forms, [[], [(0, GRID)]])) == pytest.approx(0.9132, abs=5e-5)


@pytest.mark.parametrize("c", [1, 2, 3, 7, 10])
@pytest.mark.parametrize("total", ["0.3", "1", "4"])
def test_the_allocation_is_the_published_one_and_fits(c: int, total: str) -> None:
    protocol = PrivKVM(Schema(keys=3), Fraction(total), rounds=c)
    history = in_expectation(protocol, FREQUENCIES, MEANS)
    assert len(history) == c
    asked = [one.round.mechanism for one in history]
    assert all(isinstance(one, PrivKVRound) for one in asked)
    keys = [float(one.key_epsilon) for one in asked if isinstance(one, PrivKVRound)]
    values = [float(one.value_epsilon) for one in asked if isinstance(one, PrivKVRound)]
    assert keys == [float(total) / 2] + [0] * (c - 1)
    assert values == pytest.approx([float(total) / (2 * c)] * c, abs=1e-11)
    assert most_spent([one.round for one in history]) <= protocol.epsilon


# -- convergence ----------------------------------------------------------------------------------------------------


def contractions(history: list[Finished], frequencies: Any) -> list[Any]:
    """θ of every round: the share of liars among all who claim a key."""
    shares = []
    for one in history:
        assert isinstance(one.round.mechanism, PrivKVRound)
        presence = float(one.round.mechanism.truths[0])
        liars = (1 - frequencies) * (1 - presence)
        shares.append(liars / (frequencies * presence + liars))
    return shares


@pytest.mark.parametrize("c", [1, 2, 6])
def test_erratum_A7_the_bias_is_the_product_of_the_contractions(c: int) -> None:  # noqa: N802
    """A7: and after the first round the contraction is 1 - f. Counts and announcements are rounded to 1e-5."""
    protocol = privkvm(c, estimator="published")
    history = in_expectation(protocol, FREQUENCIES, MEANS)
    thetas = contractions(history, FREQUENCIES)
    for theta in thetas[1:]:
        np.testing.assert_allclose(theta, 1 - FREQUENCIES, rtol=1e-12)
    left = protocol.estimate(history).mean.values - MEANS
    np.testing.assert_allclose(left, -np.prod(thetas, axis=0) * MEANS, atol=1e-4)


def test_rare_keys_hardly_move() -> None:
    history = in_expectation(privkvm(6), FREQUENCIES, MEANS)
    assert np.prod(contractions(history, FREQUENCIES), axis=0)[0] == pytest.approx(0.71, abs=0.005)


def test_the_bias_in_a_crowd_is_the_product_too() -> None:
    """400,000 people; a round has the noise of its signs and θ of the noise before. Six errors: 4e-9 a number."""
    frequencies, means = [0.2, 0.5], [0.8, -0.6]
    people = datasets.independent(400_000, frequencies, means, 6)
    protocol = privkvm(3, total=4, d=2, estimator="published")
    result = simulate(protocol, people, seed=7)
    truth, thetas = result.truth, contractions(list(result.history), result.truth.frequency)
    for done in (1, 2, 3):
        variance = np.zeros(2)
        for theta, one in zip(thetas[:done], result.history, strict=False):
            assert isinstance(one.round.mechanism, PrivKVRound)
            said = one.tally.counts[1:].sum(axis=0)
            keep = float(2 * one.round.mechanism.truths[1] - 1)
            variance = theta**2 * variance + 1 / (keep**2 * said) + 2 / said  # signs, and who happened to be asked
        bias = -np.prod(thetas[:done], axis=0) * truth.mean
        assert (np.abs(result.rounds[done - 1].mean.values - truth.mean - bias) < 6 * np.sqrt(variance)).all()
        assert (np.abs(bias) > 6 * np.sqrt(variance)).any()  # without the contraction the test would fail


def test_erratum_A6_nobody_holds_the_key_so_its_mean_is_what_liars_were_told() -> None:  # noqa: N802
    """A6: with f = 0 the first mean is the fake mean, not 0."""
    for place in (0, GRID // 2, -GRID):
        asked = PrivKVRound(Schema(keys=1), Fraction(2), Fraction(1), (place,))
        tally = expected(asked, np.array([0.0]), np.array([0.0]))
        assert asked.mixed_means(tally)[0] == pytest.approx(place / GRID, abs=1e-6)


def test_erratum_A6_more_rounds_are_more_noise() -> None:  # noqa: N802
    """A6: with ε/(2c) for a sign the variance of a mean grows like c²."""
    keeps = [float(2 * rounds_of(privkvm(c))[-1].truths[1] - 1) for c in (5, 10)]
    assert (keeps[0] / keeps[1]) ** 2 == pytest.approx(4, rel=0.01)


def test_erratum_A6_infinitely_many_virtual_iterations_are_the_closed_form() -> None:  # noqa: N802
    """A6: the limit needs no rounds at all; PrivKV-A has it, and so has the unbiased reading of the first round."""
    virtual = PrivKV(Schema(keys=3), Fraction(1), split="paper", estimator="iterated", iterations=10**6)
    asked = PrivKVRound(Schema(keys=3), Fraction(1), HALF)
    counts = expected(asked, FREQUENCIES, MEANS).counts
    iterated = virtual.estimate(Tally(virtual.fingerprint, int(counts.sum()), counts))
    closed = asked.estimate(Tally(asked.fingerprint, int(counts.sum()), counts))
    np.testing.assert_allclose(iterated.mean.values, closed.mean.values, atol=1e-6)
    np.testing.assert_allclose(closed.mean.values, MEANS, atol=1e-6)
    np.testing.assert_allclose(closed.frequency.values, FREQUENCIES, atol=1e-6)


# -- estimators -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("c", [1, 2, 5])
def test_the_unbiased_estimator_is_exact_on_expected_counts(c: int) -> None:
    protocol = privkvm(c)
    estimates = protocol.estimate(in_expectation(protocol, FREQUENCIES, MEANS))
    np.testing.assert_allclose(estimates.frequency.values, FREQUENCIES, atol=1e-6)
    np.testing.assert_allclose(estimates.mean.values, MEANS, atol=1e-5)


@pytest.mark.parametrize("population", [False, True])
def test_errors_are_as_large_as_promised(population: bool) -> None:
    """Sixty runs with four keys: the mean square of the standard scores lies within six deviations of 1, and so does
    their mean of 0 (chance of a false alarm below 1e-6 in all)."""
    scores, d, shares, means = [], 4, [0.3, 0.4, 0.6, 0.7], [-0.6, 0.2, 0.0, 0.7]
    protocol = privkvm(3, total=6, d=d)
    people = datasets.independent(8_000, shares, means, 1)
    for seed in range(60):
        if population:
            people = datasets.independent(8_000, shares, means, seed)
        history = ask(protocol, [people.records(protocol.schema)], seed)
        estimates, truth = protocol.estimate(history, population=population), people.truth(protocol.schema)
        assert estimates.product is not None and estimates.product_se is not None
        true_shares = np.array(shares) if population else truth.frequency
        products = np.array(shares) * means if population else truth.total / truth.n
        scores.append((estimates.frequency.values - true_shares) / estimates.frequency.se)
        scores.append((estimates.product - products) / estimates.product_se)
    count = np.size(scores)
    assert abs(np.mean(scores)) < 6 / math.sqrt(count)
    assert abs(np.mean(np.square(scores)) - 1) < 6 * math.sqrt(2 / count)


def test_outliers_are_replaced_by_the_mean_on_record() -> None:
    protocol = privkvm(3, estimator="published")
    first, second, _ = in_expectation(protocol, FREQUENCIES, MEANS)
    counts = second.tally.counts.copy()
    counts[1:, 1] = [0, 10**6]  # more plus signs than anybody's noise explains
    counts[1:, 2] = 0  # nobody spoke
    wild = Finished(second.round, Tally(second.tally.fingerprint, int(counts.sum()), counts))
    before, after = protocol.means([first]), protocol.means([first, wild])
    assert (after[1:] == before[1:]).all() and after[0] != before[0]
    flags = protocol.estimate([first, wild]).flag
    assert flags[0] == "shrunk" and flags[1] == "clipped"


def test_the_first_outlier_is_cut() -> None:
    protocol = privkvm(2, estimator="published")
    first = protocol.next_round([])
    assert first is not None
    counts = np.array([[50, 50, 50], [0, 30, 0], [60, 30, 0]])
    history = [Finished(first, Tally(first.mechanism.fingerprint, int(counts.sum()), counts))]
    assert protocol.means(history).tolist() == [1, 0, 0]


def test_how_it_is_read_does_not_change_what_is_asked() -> None:
    history = in_expectation(privkvm(3), FREQUENCIES, MEANS)
    assert privkvm(3, estimator="published").next_round(history) is None


def test_keys_that_nobody_was_asked_about_are_insufficient() -> None:
    protocol = privkvm(2)
    first = protocol.next_round([])
    assert first is not None
    counts = np.array([[9000, 0, 9000], [5000, 0, 4000], [2000, 0, 4000]])
    history = [Finished(first, Tally(first.mechanism.fingerprint, int(counts.sum()), counts))]
    estimates = protocol.estimate(history)
    assert estimates.flag[1] == "insufficient" and estimates.flag[2] == "ok"
    assert np.isnan(estimates.frequency.values[1]) and estimates.respondents[1] == 0


def test_before_the_first_round_there_is_nothing_to_estimate() -> None:
    with pytest.raises(ProtocolError) as refused:
        privkvm(2).estimate([])
    assert refused.value.code == "protocol/empty"


def test_a_later_round_alone_knows_no_frequencies() -> None:
    history = in_expectation(privkvm(2), FREQUENCIES, MEANS)
    estimates = history[1].estimates()
    assert estimates.frequency.absent and set(estimates.flag) == {"shrunk"}
