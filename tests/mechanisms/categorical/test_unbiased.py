"""Expected supports from the enumerated sampler are exactly those of the response, so estimates are unbiased."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.kernels.hashing import collision, hash_one
from keyveil.mechanisms.categorical.olh import LocalHash
from keyveil.mechanisms.categorical.rappor import RAPPOR
from keyveil.mechanisms.categorical.shist import SHist
from keyveil.mechanisms.families.categorical import FrequencyOracle
from keyveil.privacy.enumerate import law
from tests.mechanisms.categorical.cases import ORACLES, oracle, title

SHARES = [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6), Fraction(0), Fraction(0)]
INDEPENDENT_OF_HASH = [form for form in ORACLES if form[0] not in ("olh", "shist")]


def expected_supports(mechanism: FrequencyOracle, key: int, word: int) -> list[Fraction]:
    """How often, on average, one report of a person with this key supports each key."""
    mean = [Fraction(0)] * mechanism.schema.d
    for payload, share in law(partial(mechanism.respond, [(key, 0)], word)).items():
        counts = mechanism.fold(mechanism.codec.stack([payload]), np.array([word], dtype=np.uint64))
        for v, support in enumerate(mechanism.supports(counts, 1)):
            mean[v] += share * int(support)
    return mean


@pytest.mark.parametrize("form", INDEPENDENT_OF_HASH, ids=title)
@pytest.mark.parametrize("epsilon", ["0.5", "3"])
def test_expected_supports_give_back_the_frequencies(form: tuple[str, dict[str, str]], epsilon: str) -> None:
    mechanism = oracle(form, len(SHARES), epsilon)
    p, q = mechanism.response.holder.support, mechanism.response.stranger.support
    words = list(mechanism.every_word())

    counts = [Fraction(0)] * len(SHARES)
    for key, held in enumerate(SHARES):
        for word in words:
            for v, mean in enumerate(expected_supports(mechanism, key, word)):
                counts[v] += held * mean / len(words)

    assert [(count - q) / (p - q) for count in counts] == SHARES


@pytest.mark.parametrize("form", [("olh", {}), ("olh", {"buckets": 7}), ("shist", {})], ids=title)
def test_erratum_C4_a_report_supports_the_keys_of_its_bucket(form: tuple[str, dict[str, int]]) -> None:  # noqa: N802
    """A foreign key is supported like the true one if they share a bucket, else like any other bucket."""
    mechanism = oracle(form, 4)
    assert isinstance(mechanism, LocalHash)
    hit, miss, g = mechanism.channel.hit, mechanism.channel.miss, mechanism.g

    for word in range(30):
        buckets = [hash_one(word, key, g) for key in range(4)]
        for key in range(4):
            assert expected_supports(mechanism, key, word) == [hit if b == buckets[key] else miss for b in buckets]

    shared = collision(g)
    assert mechanism.response.holder.support == hit
    assert mechanism.response.stranger.support == shared * hit + (1 - shared) * miss
    assert float(mechanism.response.stranger.support) == pytest.approx(1 / g, rel=1e-8)


def test_every_pattern_of_collisions_is_enumerated() -> None:
    mechanism = oracle(("olh", {}), 1024).reduced()
    assert isinstance(mechanism, LocalHash)
    patterns = set()
    for word in mechanism.every_word():
        buckets = [hash_one(word, key, mechanism.g) for key in range(4)]
        patterns.add(tuple(buckets.index(bucket) for bucket in buckets))
    assert len(patterns) == 15  # all ways to partition four keys


def test_shist_is_the_signed_sum_of_its_paper() -> None:
    mechanism = SHist(Schema(keys=6), Fraction(1))
    words = np.arange(500, dtype=np.uint64) * np.uint64(0x1234567)
    answers = (np.arange(500) * 7 // 3) % 2
    signs = np.array([[1 - 2 * hash_one(int(word), v, 2) for v in range(6)] for word in words])

    frequency = mechanism.estimate(Tally(mechanism.fingerprint, 500, mechanism.fold(answers, words))).frequency

    factor = float(1 / (2 * mechanism.channel.hit - 1))  # (e^ε + 1)/(e^ε - 1)
    assert frequency.values == pytest.approx(factor * np.mean((1 - 2 * answers)[:, None] * signs, axis=0))


def test_rappor_copies_of_bits_are_unbiased() -> None:
    mechanism = RAPPOR(Schema(keys=3), Fraction(2), bits=5, cohorts=4, permanent=Fraction(1, 3))
    lie = mechanism.factor.probability(0, 1)
    expected = np.zeros(mechanism.tally_shape)
    for cohort, word in enumerate(mechanism.every_word()):
        for key, held in enumerate(SHARES[:3]):
            ones = [Fraction(0)] * 5
            for payload, share in law(partial(mechanism.respond, [(key, 0)], word)).items():
                assert isinstance(payload, bytes)
                ones = [one + share * (payload[0] >> bit & 1) for bit, one in enumerate(ones)]
            hot = mechanism.bloom.of(cohort, key)
            assert [(one - lie) / (1 - 2 * lie) for one in ones] == [int(bit in hot) for bit in range(5)]
            expected[cohort] += [float(10**9 * held * part / 4) for part in [*ones, Fraction(1)]]

    frequency = mechanism.estimate(Tally(mechanism.fingerprint, 10**9, expected.round().astype(np.int64))).frequency

    assert frequency.values == pytest.approx([float(share) for share in SHARES[:3]], abs=1e-7)
