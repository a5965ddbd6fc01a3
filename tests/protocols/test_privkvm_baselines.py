from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from keyveil.core.epsilon import keeps
from keyveil.core.errors import KeyveilError
from keyveil.core.schema import GRID, Schema
from keyveil.core.tally import Tally
from keyveil.lab import datasets
from keyveil.lab.simulate import simulate
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.rounds.privkvm import PrivKVRound
from keyveil.mechanisms.rounds.privkvm_meanest import FilledVector, Presence
from keyveil.privacy.certify import certify
from keyveil.protocols.base import Finished, most_spent
from keyveil.protocols.privkvm import PrivKVM
from keyveil.protocols.privkvm_baselines import PrivKVMHarmony, PrivKVMMeanEst
from tests.protocols.hostile import records, worst_loss
from tests.protocols.test_privkvm import FREQUENCIES, MEANS, in_expectation

SCHEMA = Schema(keys=3)


def test_harmony_divides_by_how_many_ought_to_speak() -> None:
    """At expected counts that is how many do speak; a key that was asked about half as often gets half of its mean."""
    protocol = PrivKVMHarmony(SCHEMA, Fraction(1), rounds=3)
    history = in_expectation(protocol, FREQUENCIES, MEANS)
    last = history[-1]
    assert isinstance(last.round.mechanism, PrivKVRound)
    expected = last.round.mechanism.mixed_means(last.tally)
    np.testing.assert_allclose(protocol.means(history), expected, atol=1e-6)
    counts = last.tally.counts // np.array([1, 1, 2], dtype=np.int64)
    fewer = Finished(last.round, Tally(last.tally.fingerprint, last.tally.reports, counts))
    np.testing.assert_allclose(protocol.means([*history[:-1], fewer]), expected / [1, 1, 2], atol=1e-6)
    estimates = protocol.estimate(history)
    np.testing.assert_allclose(estimates.mean.values, protocol.means(history))
    assert set(estimates.flag) == {"shrunk"}


def test_impossible_means_stay_but_are_not_announced() -> None:
    people = datasets.independent(200, FREQUENCIES, MEANS, 1)
    result = simulate(PrivKVMHarmony(SCHEMA, Fraction(1, 2), rounds=3), people, seed=2)
    assert np.abs(result.estimates.mean.values).max() > 1
    assert all(abs(place) <= GRID for one in result.history for place in one.round.mechanism.options["fake"])


def test_harmony_has_no_unbiased_estimator() -> None:
    with pytest.raises(KeyveilError) as refused:
        PrivKVMHarmony(SCHEMA, Fraction(1), estimator="unbiased")
    assert refused.value.code == "protocol/option"


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("kind", [PrivKVM, PrivKVMHarmony])
def test_virtual_iterations_after_real_rounds_remove_the_bias(kind: type[PrivKVM], rounds: int) -> None:
    """At expected counts: many of them give the truth, and one has the bias of one more round."""
    options = {"estimator": "published"} if kind is PrivKVM else {}
    many = kind(SCHEMA, Fraction(4), rounds=rounds, virtual=5000, **options)
    history = in_expectation(many, FREQUENCIES, MEANS)
    np.testing.assert_allclose(many.estimate(history).mean.values, MEANS, atol=1e-4)
    none, one = (kind(SCHEMA, Fraction(4), rounds=rounds, virtual=count, **options) for count in (None, 1))
    before, after = (made.estimate(history).mean.values - MEANS for made in (none, one))
    last = history[-1].round.mechanism
    presence = float(last.truths[0]) if isinstance(last, PrivKVRound) else 0.5
    lying = (1 - np.array(FREQUENCIES)) * (1 - presence)
    theta = lying / (lying + np.array(FREQUENCIES) * presence)
    np.testing.assert_allclose(after, theta * before, atol=1e-5)


def test_virtual_iterations_remove_the_bias_of_filled_vectors() -> None:
    """A key that 80 % hold, ε = 16, 40,000 people: six errors of a mean of signs that keep half of it are 0.06."""
    people = datasets.independent(40_000, FREQUENCIES, MEANS, 1)
    result = simulate(PrivKVMMeanEst(SCHEMA, Fraction(16), rounds=1, virtual=1000), people, seed=1)
    once = PrivKVMMeanEst(SCHEMA, Fraction(16), rounds=1).estimate(result.history).mean.values[2]
    truth = people.truth(SCHEMA)
    assert abs(once - truth.frequency[2] * truth.mean[2]) < 0.06  # 0.12 below the mean
    assert abs(result.estimates.mean.values[2] - truth.mean[2]) < 0.075


def test_virtual_iterations_of_unbiased_means_are_refused() -> None:
    for options in ({"virtual": 3}, {"virtual": -1, "estimator": "published"}):
        with pytest.raises(KeyveilError) as refused:
            PrivKVM(SCHEMA, Fraction(1), **options)
        assert refused.value.code == "protocol/option"


@pytest.mark.parametrize("fake", [(), (GRID, -GRID, 0), (GRID // 3, 0, 0)])
def test_filled_vectors_spend_what_mean_est_spends(fake: tuple[int, ...]) -> None:
    asked = FilledVector(SCHEMA, Fraction(1), fake)
    certificate = certify(asked)
    assert certificate.certified and certificate.ratio <= asked.ratio
    assert certify(Presence(SCHEMA, Fraction(1))).certified


def test_a_hostile_collector_learns_no_more_than_was_asked_for() -> None:
    schema, total = Schema(keys=2), Fraction(1)
    protocol = PrivKVMMeanEst(schema, total, rounds=2)
    result = simulate(protocol, datasets.independent(300, [0.5, 0.5], [0.2, -0.4], 1), seed=1)
    first, *later = (one.round.mechanism for one in result.history)
    places = (-GRID, 0, GRID)
    forms: list[list[Mechanism]] = [[first]]
    forms += [[FilledVector(schema, one.epsilon, (a, b)) for a in places for b in places] for one in later]
    assert keeps(worst_loss(forms, records(2)), total)
    assert most_spent([one.round for one in result.history]) <= total


def test_vectors_converge_like_everybody_who_lacks_the_key_were_a_liar() -> None:
    """200,000 people, ε = 12: after r vectors (1 - f)^r of the bias is left, within six of the means' errors."""
    frequencies, means = [0.3, 0.5, 0.9], [0.8, -0.6, 0.4]
    result = simulate(
        PrivKVMMeanEst(SCHEMA, Fraction(12), rounds=3), datasets.independent(200_000, frequencies, means, 3), seed=4
    )
    truth = result.truth
    for done in (1, 2, 3):
        vector = result.history[done].round.mechanism
        assert isinstance(vector, FilledVector)
        error = 6 * 2 / float(vector.inner.slope) / np.sqrt(truth.n)  # the noise before adds less than as much again
        left = result.rounds[done].mean.values - truth.mean
        np.testing.assert_allclose(left, -((1 - truth.frequency) ** done) * truth.mean, atol=error)
        assert error < 0.1


def test_only_few_keys_fit_a_vector() -> None:
    with pytest.raises(KeyveilError) as refused:
        PrivKVMMeanEst(Schema(keys=5000), Fraction(1))
    assert refused.value.code == "mechanism/too-many-keys"
