"""Signed keys in buckets: each sign everywhere equally often, both in one bucket as often as was asked for."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from keyveil.kernels import sign_hash
from keyveil.kernels.sign_hash import SignHash

ALARM = 1e-8
KEYS = 7
HASHES = [SignHash.of(3, Fraction(1, 5)), SignHash.of(4, Fraction(1, 10)), SignHash.of(8, Fraction(0))]
COUNTED = [
    *HASHES,
    SignHash.of(2, Fraction(0)),
    SignHash.of(5, Fraction(0)),  # nothing is shared
    SignHash.of(9, Fraction(1, 2)),  # steps are a power of two
    SignHash.of(24, Fraction(1, 2)),
    SignHash.of(300, Fraction(0)),
]


def random_seeds(count: int, number: int = 1) -> NDArray[np.uint64]:
    return np.random.default_rng(number).integers(0, 1 << 64, count, dtype=np.uint64)


def whole(seed: int, scheme: SignHash) -> NDArray[np.int64]:
    return scheme.bucket_many(np.full(2 * KEYS, seed, dtype=np.uint64), np.arange(2 * KEYS))


@given(buckets=st.integers(3, 500), tenths=st.integers(0, 9))
def test_the_share_is_exact_and_never_below_what_was_asked(buckets: int, tenths: int) -> None:
    scheme, asked = SignHash.of(buckets, Fraction(tenths, 10)), Fraction(tenths, 10)
    assert scheme.kappa + (buckets - 1) * Fraction(scheme.step, 1 << 32) == 1
    assert 0 <= scheme.kappa - asked < Fraction(buckets, 1 << 32)


@given(seed=st.integers(0, 2**64 - 1), symbol=st.integers(0, 40_001), buckets=st.integers(3, 30))
def test_devices_and_collectors_agree(seed: int, symbol: int, buckets: int) -> None:
    scheme = SignHash.of(buckets, Fraction(1, 3))
    bulk = scheme.bucket_many(np.array([seed], dtype=np.uint64), np.array([symbol]))
    assert bulk.tolist() == [scheme.bucket(seed, symbol)]


def test_what_a_seed_does_never_changes() -> None:
    """Devices in the field and collectors must agree for years."""
    found = [SignHash.of(4, Fraction(1, 10)).bucket(2**63 + 5, symbol) for symbol in range(12)]
    assert found == [2, 3, 0, 1, 1, 3, 0, 1, 1, 0, 1, 3]


@pytest.mark.parametrize("scheme", HASHES, ids=str)
@pytest.mark.parametrize("consecutive", [False, True])
def test_the_two_signs_of_a_key_have_the_law_that_was_asked_for(scheme: SignHash, consecutive: bool) -> None:
    """All pairs of buckets over 400,000 seeds, for four keys."""
    seeds = np.arange(400_000, dtype=np.uint64) if consecutive else random_seeds(400_000)
    t, kappa = scheme.buckets, float(scheme.kappa)
    law = np.full((t, t), (1 - kappa) / (t * (t - 1)))
    np.fill_diagonal(law, kappa / t)
    for key in (0, 1, 1000, 19_999):
        low, high = (scheme.bucket_many(seeds, np.full(len(seeds), 2 * key + sign)) for sign in (0, 1))
        seen = np.bincount(low * t + high, minlength=t * t)
        some = law.reshape(-1) * len(seeds) > 1  # where signs never share, they never do
        assert seen[~some].sum() <= 1
        assert stats.chisquare(seen[some], law.reshape(-1)[some] * seen[some].sum()).pvalue > ALARM


@pytest.mark.parametrize("scheme", HASHES, ids=str)
def test_different_keys_are_independent(scheme: SignHash) -> None:
    seeds, t = random_seeds(400_000, 2), scheme.buckets
    for first, second in [(0, 2), (0, 3), (1, 2), (1, 3), (5, 12), (1, 2049), (1000, 40_001)]:
        mine, theirs = (scheme.bucket_many(seeds, np.full(len(seeds), symbol)) for symbol in (first, second))
        assert stats.chisquare(np.bincount(mine * t + theirs, minlength=t * t)).pvalue > ALARM


@pytest.fixture(params=["compiled", "twin"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both the machine code and the NumPy twins of what counts."""
    for name in ("_add_tables", "_add_answers"):
        loop: Any = getattr(sign_hash, name)
        monkeypatch.setattr(sign_hash, name, getattr(loop, request.param))


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("scheme", COUNTED, ids=str)
def test_counting_supports(scheme: SignHash) -> None:
    rng, seeds = np.random.default_rng(1), random_seeds(9)
    counts = rng.integers(0, 5, (9, scheme.buckets))
    counts[4] = 0
    expected = sum(table[whole(int(seed), scheme)] for table, seed in zip(counts, seeds, strict=True))
    assert (scheme.count_tables(seeds, counts, 2 * KEYS) == expected).all()


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("scheme", COUNTED, ids=str)
def test_counting_answers_with_seeds_of_their_own(scheme: SignHash) -> None:
    """More reports than are tabled at once, and an odd number of them."""
    rng, seeds = np.random.default_rng(2), random_seeds(6001)
    answers = rng.integers(0, scheme.buckets, len(seeds))
    placed = np.array([scheme.bucket_many(seeds, np.full(len(seeds), symbol)) for symbol in range(2 * KEYS)])
    assert (scheme.count_answers(seeds, answers, 2 * KEYS) == (placed == answers).sum(axis=1)).all()
