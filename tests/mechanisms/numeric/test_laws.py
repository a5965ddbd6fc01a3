"""Exact laws: unbiased at every value, the variance of the formulas, and the same law in bulk."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.schema import GRID
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.families.numeric import Numeric
from keyveil.mechanisms.families.window import window
from keyveil.mechanisms.numeric.hybrid import Hybrid
from keyveil.privacy.enumerate import law
from tests.mechanisms.numeric.crowd import EPSILONS, NAMES, everyone, numeric, stands_for

VALUES = (-GRID, -GRID // 2, -12345, 0, 1, GRID // 4, GRID // 3, GRID)


def law_of(mechanism: Numeric, pairs: Pairs, word: int) -> dict[Payload, Fraction]:
    return law(lambda coins: mechanism.respond(pairs, word, coins))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", NAMES)
def test_unbiased_at_every_value_exactly(name: str, epsilon: str) -> None:
    mechanism = numeric(name, epsilon).reduced()
    for value, word in product(VALUES, mechanism.every_word()):
        distribution = law_of(mechanism, [(0, value)], word)
        mean = sum(share * stands_for(mechanism, payload, word) for payload, share in distribution.items())
        assert mean == Fraction(value, GRID)


@pytest.mark.parametrize("keys", [2, 3, 4])
def test_mean_est_is_unbiased_for_every_key(keys: int) -> None:
    mechanism = numeric("mean-est", "1", keys)
    values = [VALUES[key * 2 + 1] for key in range(keys)]
    distribution = law_of(mechanism, list(enumerate(values)), 0)
    for key, value in enumerate(values):
        mean = sum(share * stands_for(mechanism, payload, 0, key) for payload, share in distribution.items())
        assert mean == Fraction(value, GRID)


@pytest.mark.parametrize("name", NAMES)
def test_the_estimate_of_one_report_is_what_it_stands_for(name: str) -> None:
    mechanism = numeric(name, "1").reduced()
    for seed in range(20):
        report = mechanism.perturb(0.3, SeededCoins(seed))
        word = int(mechanism.words(np.frombuffer(report.public, np.uint8).reshape(1, 16))[0])
        mean = mechanism.estimate(mechanism.tally([report])).mean.values[0]
        assert mean == pytest.approx(float(stands_for(mechanism, report.payload, word)), rel=1e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("inputs", "half"), [(9, 2), (8, 3), (2, 1), (129, 40)])
def test_moments_of_the_window_are_those_of_its_integers(inputs: int, half: int, epsilon: str) -> None:
    channel = window(inputs, half, Fraction(epsilon))
    high, low, total = channel.channel.high, channel.channel.low, channel.channel.total
    middle = Fraction(inputs + 2 * half - 1, 2)
    for input in range(inputs):
        shares = [Fraction(high if input <= y <= input + 2 * half else low, total) for y in range(channel.outputs)]
        centred = input - Fraction(inputs - 1, 2)
        assert sum(shares) == 1
        assert sum(p * (y - middle) for y, p in enumerate(shares)) == channel.gain * centred
        assert sum(p * (y - middle) ** 2 for y, p in enumerate(shares)) == channel.noise + channel.gain * centred**2
        assert np.allclose(channel.matrix()[:, input], [float(share) for share in shares], rtol=1e-12)


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
@pytest.mark.parametrize("name", NAMES)
def test_stated_variance_is_the_variance_of_reports(name: str, epsilon: str) -> None:
    # 400 000 equal people: the empirical variance is off by about 0.3 %, so 3 % is nine standard errors away.
    mechanism, n = numeric(name, epsilon), 400_000
    for value in (0.0, 0.6, -1.0):
        reports = mechanism.perturb_many(everyone(np.full(n, value)), SeededCoins(5))
        rows = reports.payloads.reshape(n).astype(np.int64)
        seen = np.var(_meanings(mechanism, rows, mechanism.words(reports.publics)))
        stated = mechanism.estimate(mechanism.tally(reports)).mean.se[0] ** 2 * n
        assert stated == pytest.approx(seen, rel=0.03)


def _meanings(mechanism: Numeric, rows: NDArray[np.int64], words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """What each report stands for; a report of hybrid means something else in each of its branches."""
    signs = ~mechanism.are_piecewise(words) if isinstance(mechanism, Hybrid) else np.zeros(len(rows), bool)
    meanings = np.empty(len(rows))
    for branch, word in ((signs, 2**32 - 1), (~signs, 0)):
        answers, places = np.unique(rows[branch], return_inverse=True)
        payloads = [bytes([row]) if mechanism.name == "mean-est" else int(row) for row in answers]
        meanings[branch] = np.array([float(stands_for(mechanism, payload, word)) for payload in payloads])[places]
    return meanings


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("keys", [1, 2])
def test_bulk_draws_have_the_enumerated_law(name: str, keys: int) -> None:
    # About 40 chi-square tests in all, each at 1e-8.
    mechanism, draws = numeric(name, "1", keys).reduced(), 60_000
    for number, (value, word) in enumerate(product((-GRID, GRID // 3), mechanism.every_word())):
        pairs = [(key, value if key == 0 else -value) for key in range(keys)]
        expected = law_of(mechanism, pairs, word)
        crowd = everyone(np.tile([held / GRID for _, held in pairs], (draws, 1)))
        rows = mechanism.respond_many(crowd, np.full(draws, word, dtype=np.uint64), SeededCoins(6, number))
        seen = Counter(mechanism.codec.unstack(rows))
        assert set(seen) <= set(expected)
        counts = [seen[payload] for payload in expected]
        assert stats.chisquare(counts, [float(draws * share) for share in expected.values()]).pvalue > 1e-8


def test_a_wrong_bulk_law_is_seen() -> None:
    mechanism, draws = numeric("piecewise", "1").reduced(), 60_000
    expected = law_of(mechanism, [(0, GRID)], 0)
    wrong = numeric("piecewise", "1.1").reduced()
    words = np.zeros(draws, dtype=np.uint64)
    seen = Counter(wrong.codec.unstack(wrong.respond_many(everyone(np.ones(draws)), words, SeededCoins(7))))
    counts = [seen[payload] for payload in expected]
    assert stats.chisquare(counts, [float(draws * share) for share in expected.values()]).pvalue < 1e-8


def test_mean_est_of_a_thousand_keys_is_unbiased_in_bulk_and_alone() -> None:
    """Half of the keys at 1, half at -1: the average estimate of all signs, six standard errors (1e-9) around 1."""
    d, n = 1000, 400
    mechanism: Any = numeric("mean-est", "8", d)
    signs = np.where(np.arange(d) < d // 2, 1, -1)
    values = np.tile(signs.astype(np.int32) * GRID, n)
    records = Records(np.arange(n + 1, dtype=np.int64) * d, np.tile(np.arange(d, dtype=np.int32), n), values, d)
    bulk = mechanism.perturb_many(records, SeededCoins(1))
    alone = [mechanism.perturb_pairs(records.pairs(0), SeededCoins(seed)) for seed in range(3)]
    for reports, count in ((bulk, n), (mechanism.gather(alone), 3)):
        told = 2 * mechanism.tally(reports).counts / count - 1
        agreed = float((told * signs).mean())  # the mean share of agreeing signs, less that of the others
        spread = 1 / math.sqrt(d * count)
        assert abs(agreed - float(mechanism.slope)) < 6 * spread
    assert float(mechanism.slope) > 6 / math.sqrt(d * n)  # blind coins would be noticed
