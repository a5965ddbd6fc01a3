from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keyveil.core.codecs.labelled_keys import SignedKeys
from keyveil.kernels.backend import Kernel
from keyveil.kernels.vectors import _write_labels, count_labels, count_signs, perturb_labels, perturb_signs
from keyveil.lab.coins import SeededCoins

WHOLE = 1 << 32


@given(st.integers(1, 40), st.integers(1, 200), st.integers(2, 300), st.integers(0, 2**32))
def test_labels_are_counted(n: int, d: int, labels: int, seed: int) -> None:
    rows = np.random.default_rng(seed).integers(0, labels + 1, (n, d)).astype(np.uint16)
    expected = [[int((rows[:, key] == label + 1).sum()) for key in range(d)] for label in range(labels)]
    assert isinstance(count_labels, Kernel)
    assert np.array_equal(count_labels(rows, labels), expected)
    assert np.array_equal(count_labels.twin(rows, labels), expected)


@given(st.integers(1, 130), st.integers(0, 2**32))
def test_labels_are_written_in_order(d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    speaks = rng.random((20, d)) < 0.3
    words = SignedKeys(d).stack([tuple((2 * np.flatnonzero(row)).tolist()) for row in speaks])[:, 0]
    labels = rng.integers(0, 255, int(speaks.sum()))
    for write in (_write_labels, _write_labels.twin):
        rows = np.zeros((20, d), dtype=np.uint8)
        write(rows, words, labels)
        assert np.array_equal(rows > 0, speaks)
        assert np.array_equal(rows[speaks] - 1, labels)


@given(st.integers(1, 130), st.integers(0, 2**32))
def test_the_hot_key_says_its_own_and_silent_keys_nothing(d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    hot, own = rng.integers(-1, d, 50), rng.integers(0, 5, 50)
    rows = perturb_labels(hot, own, d, 5, WHOLE, 0, SeededCoins(seed))
    planes = perturb_signs(hot, own % 2 == 1, d, WHOLE, 0, SeededCoins(seed))
    real = hot >= 0
    expected = np.zeros((50, d), dtype=np.int64)
    expected[np.flatnonzero(real), hot[real]] = own[real] + 1
    assert np.array_equal(rows, expected)
    assert np.array_equal(count_labels(rows, 5).sum(axis=0), (expected > 0).sum(axis=0))
    signs = [((expected > 0) & (expected % 2 == odd)).sum(axis=0) for odd in (1, 0)]  # an odd label is a plus
    assert np.array_equal(count_signs(planes, d), signs)


def test_speech_by_chance_has_fair_signs_and_labels() -> None:
    # 3 million draws: six standard errors of a share are below 0.002, so a false alarm is rarer than 1e-8 each.
    n, d, hot = 30_000, 100, np.full(30_000, -1)
    signs = count_signs(perturb_signs(hot, hot > 0, d, WHOLE, WHOLE // 4, SeededCoins(1)), d).sum(axis=1) / (n * d)
    assert np.abs(signs - 1 / 8).max() < 0.002
    labels = count_labels(perturb_labels(hot, hot, d, 5, WHOLE, WHOLE // 4, SeededCoins(2)), 5).sum(axis=1) / (n * d)
    assert np.abs(labels - 1 / 20).max() < 0.002
