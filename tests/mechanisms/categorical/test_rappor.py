"""RAPPOR: two stages of noise, Bloom filters with meeting bits, and both decoders."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from keyveil.core.epsilon import RESOLUTION, log_ceiling
from keyveil.core.errors import MechanismError
from keyveil.core.schema import Schema
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.categorical.bloom import Bloom
from keyveil.mechanisms.categorical.rappor import RAPPOR
from keyveil.privacy.enumerate import law
from tests.mechanisms.categorical.cases import holding


def test_one_shot_use_is_symmetric_noise_of_epsilon_over_twice_the_hashes() -> None:
    mechanism = RAPPOR(Schema(keys=100), Fraction(1))
    assert float(mechanism.factor.probability(1, 1)) == pytest.approx(math.exp(0.25) / (math.exp(0.25) + 1), abs=1e-9)
    assert mechanism.factor.probability(0, 1) == 1 - mechanism.factor.probability(1, 1)
    assert mechanism.longitudinal_ratio == math.inf  # nothing is kept, so nothing is bounded


def test_two_stages_are_the_effective_probabilities_of_the_paper() -> None:
    mechanism = RAPPOR(Schema(keys=100), Fraction(1), permanent=Fraction(1, 2))
    phi, (_, instant) = Fraction(1, 2), mechanism.stages
    p, q = instant.probability(0, 1), instant.probability(1, 1)

    assert mechanism.factor.probability(1, 1) == phi * (p + q) / 2 + (1 - phi) * q
    assert mechanism.factor.probability(0, 1) == phi * (p + q) / 2 + (1 - phi) * p
    assert float(log_ceiling(mechanism.longitudinal_ratio)) == pytest.approx(4 * math.log(1.5 / 0.5))
    assert 1 - 1e-6 < float(log_ceiling(mechanism.ratio)) <= 1


def test_a_permanent_share_that_forbids_the_requested_epsilon_is_refused() -> None:
    with pytest.raises(MechanismError, match=r"no more than 4\.394") as refusal:
        RAPPOR(Schema(keys=100), Fraction(5), permanent=Fraction(1, 2))
    assert refusal.value.code == "mechanism/option"


def test_devices_and_arrays_set_the_same_bits() -> None:
    bloom = Bloom(keys=50, bits=70, hashes=3, cohorts=5)
    for cohort in range(5):
        for key in range(50):
            hot = bloom.of(cohort, key)
            assert set(np.flatnonzero(bloom.indicator[cohort, :, key])) == hot
            words = bloom.packed[cohort, key]
            assert {bit for bit in range(70) if int(words[bit // 64]) >> bit % 64 & 1} == hot


def test_a_key_whose_bits_meet_spends_less_than_the_closed_form() -> None:
    mechanism = RAPPOR(Schema(keys=40), Fraction(2), bits=4, cohorts=1)
    single = next(key for key in range(40) if len(mechanism.bloom.of(0, key)) == 1)
    other = next(key for key in range(40) if not mechanism.bloom.of(0, key) & mechanism.bloom.of(0, single))

    laws = [law(partial(mechanism.respond, [(key, 0)], 0)) for key in (single, other)]

    spent = max(laws[0][report] / laws[1][report] for report in laws[0])
    truth = Fraction(mechanism.factor.weights[1][1], mechanism.factor.weights[0][1])
    assert spent == truth ** (1 + len(mechanism.bloom.of(0, other))) <= mechanism.ratio == truth**4


def test_a_large_dictionary_is_decoded_without_pretending_to_know_errors() -> None:
    mechanism = RAPPOR(Schema(keys=300), Fraction(5), bits=16, cohorts=8)
    assert not mechanism.unbiased  # 128 counts cannot tell 300 keys apart
    keys = np.repeat([7, 100], [30_000, 10_000])
    reports = mechanism.perturb_many(holding(keys, 300), SeededCoins(30))

    estimates = mechanism.estimate(mechanism.tally(reports))

    assert estimates.frequency["7"].value == pytest.approx(0.75, abs=0.05)
    assert estimates.frequency.values.min() >= 0
    row = estimates.rows()[7]
    assert [row[name] for name in ("frequency_se", "frequency_low", "frequency_high")] == [None, 0, 1]
    assert set(estimates.flag) == {"insufficient"}


def test_keys_that_the_filter_hardly_tells_apart_are_flagged() -> None:
    """120 keys from 128 counts: least squares exists, with errors beyond the whole range of a frequency."""
    mechanism = RAPPOR(Schema(keys=120), Fraction(1), bits=16, cohorts=8)
    assert mechanism.unbiased
    reports = mechanism.perturb_many(holding(np.arange(600) % 120, 120), SeededCoins(33))
    estimates = mechanism.estimate(mechanism.tally(reports))
    assert np.abs(estimates.frequency.values).max() > 1
    assert set(estimates.flag) == {"wide"}


def test_nonnegative_frequencies_have_no_closed_form_of_their_errors() -> None:
    mechanism = RAPPOR(Schema(keys=300), Fraction(5), bits=16, cohorts=8)
    assert np.isnan(mechanism.variance(np.zeros(300), 10)).all()


def test_decoders_can_be_forced() -> None:
    mechanism = RAPPOR(Schema(keys=6), Fraction(3))
    tally = mechanism.tally(mechanism.perturb_many(holding(np.arange(600) % 6, 6), SeededCoins(31)))
    forced = replace(mechanism, decoder="nnls")
    assert set(mechanism.estimate(tally).flag) == {"ok"}
    assert set(forced.estimate(forced.tally([])).flag) == {"insufficient"}
    assert not forced.unbiased

    hopeless = RAPPOR(Schema(keys=300), Fraction(3), bits=16, cohorts=8, decoder="least-squares")
    with pytest.raises(MechanismError) as refusal:
        hopeless.variance(np.zeros(300), 10)
    assert refusal.value.code == "estimate/singular"


def test_no_reports_know_nothing() -> None:
    mechanism = RAPPOR(Schema(keys=6), Fraction(3))
    interval = mechanism.estimate(mechanism.tally([])).frequency["0"]
    assert (interval.low, interval.high, interval.flag) == (0, 1, "insufficient")
    assert math.isnan(interval.value)


def test_noise_never_falls_below_what_was_asked_for() -> None:
    for permanent in (Fraction(0), Fraction(1, 10), Fraction(1, 3)):
        mechanism = RAPPOR(Schema(keys=6), Fraction(2), permanent=permanent)
        needed = 1 / (math.exp(0.5) + 1)
        assert 0 <= float(mechanism.factor.probability(0, 1)) - needed < 2 / RESOLUTION
