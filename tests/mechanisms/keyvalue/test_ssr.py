from __future__ import annotations

import math
import resource
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from keyveil.core.codecs.payloads import Payloads
from keyveil.core.coins import Coins
from keyveil.core.errors import MechanismError, ReportError
from keyveil.core.records import Records
from keyveil.core.schema import GRID
from keyveil.core.tally import Tally
from keyveil.lab.coins import SeededCoins
from keyveil.privacy.enumerate import law
from tests.mechanisms.keyvalue.sets import PLANNER, make, same_size, scores, support_shares, variances


@pytest.mark.parametrize(
    ("size", "own", "other"),
    [(1, 0.0507223429, 0.0186597071), (2, 0.0885408136, 0.0389323983), (3, 0.1190738590, 0.0601157676)],
)
def test_supports_of_twenty_keys(size: int, own: float, other: float) -> None:
    odds = make("ssr", 20, max_pairs=5, size=size).odds[0][1]
    assert (float(odds.own), float(odds.other)) == pytest.approx((own, other), abs=1e-9)


@pytest.mark.parametrize("row", PLANNER)
def test_the_size_is_the_best_one(row: Any) -> None:
    d, pairs, epsilon, frequency, mean, size, *_ = row
    mechanism = make("ssr", d, epsilon, max_pairs=pairs)
    assert mechanism.size == size
    assert variances(mechanism) == pytest.approx((frequency, mean), rel=0.005)
    goals = {goal: make("ssr", d, epsilon, max_pairs=pairs, goal=goal) for goal in ("frequency", "mean")}
    for place, goal in enumerate(goals):
        best = variances(goals[goal])[place]
        for other in (goals[goal].size - 1, goals[goal].size + 1):
            if other:
                worse = variances(make("ssr", d, epsilon, max_pairs=pairs, size=other))[place]
                assert best <= worse * (1 + 1e-9)


def test_the_margin_over_sampling_one_pair() -> None:
    ours = variances(make("ssr", 100, max_pairs=5))
    rival = variances(make("pckv-ue", 100, max_pairs=5))
    assert ours[0] <= rival[0] / 5 and ours[1] <= rival[1] / 3


@pytest.mark.parametrize(("d", "pairs", "size"), [(3, 1, 2), (2, 2, 1), (2, 2, 2), (3, 2, 3)])
@pytest.mark.parametrize("epsilon", ["0.5", "1", "4"])
def test_epsilon_is_exact_for_records_of_all_sizes(d: int, pairs: int, size: int, epsilon: str) -> None:
    certificate = make("ssr", d, epsilon, max_pairs=pairs, size=size).certificate()
    assert certificate.certified and certificate.exact_epsilon > Fraction(epsilon) - Fraction(1, 10**6)


def test_single_symbols_are_wsr() -> None:
    pairs = [(0, GRID), (2, -GRID // 2)]
    sets = law(partial(make("ssr", 3, max_pairs=2, size=1).respond, pairs, 0))
    symbols = law(partial(make("wsr", 3, max_pairs=2).respond, pairs, 0))
    assert {(members or (6,))[0]: share for members, share in sets.items()} == symbols


@pytest.mark.parametrize("value", [-GRID, 0, 12_345, GRID])
def test_expectations_are_unbiased_exactly(value: int) -> None:
    mechanism = make("ssr", 3, max_pairs=2, size=2)
    (minus, plus), response = support_shares(mechanism, [(1, value)]), mechanism.response
    for key in range(3):
        one = response.holder if key == 1 else response.stranger
        assert minus[key] + plus[key] == one.support
        assert plus[key] - minus[key] == one.signed * Fraction(value, GRID)


def test_variance_is_the_closed_form() -> None:
    """Five of a hundred keys each: 100 keys × 80 repeats, so 10 % of the variance is over six standard errors."""
    of_f, of_u = scores(make("ssr", 100, max_pairs=5), same_size(20_000, 100, 5, seed=1), repeats=80, seed=2)
    assert (of_f**2).mean() == pytest.approx(1, abs=0.1)
    assert (of_u**2).mean() == pytest.approx(1, abs=0.1)
    stated = variances(make("ssr", 100, max_pairs=5), 0.05, 0.5)
    assert stated == pytest.approx((38.8, 39.2), rel=0.1)  # not far from rare keys


def test_larger_records_count_a_uniform_choice_of_their_pairs() -> None:
    mechanism = make("ssr", 4, max_pairs=2, size=2)
    shares = support_shares(mechanism, [(key, GRID) for key in range(4)])
    odds = mechanism.odds[0][1]
    assert (shares[1] == (odds.own + odds.other) / 2).all()


@pytest.mark.parametrize("record", [{}, {"0": 1}, {str(key): 1 for key in range(10)}, {"0": float("nan")}])
def test_every_record_gets_a_report_of_the_same_form(record: Any) -> None:
    mechanism = make("ssr", 10, max_pairs=3, size=4)
    for seed in range(20):
        report = mechanism.perturb(record, SeededCoins(seed))
        assert isinstance(report.payload, tuple)
        assert 1 <= len(report.payload) <= 4
        assert mechanism.decode(mechanism.encode(report), report.public) == report


# -- on the wire ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sent() -> tuple[Any, Any, list[bytes]]:
    mechanism = make("ssr", 100, max_pairs=5)
    rows = mechanism.perturb_many(same_size(3000, 100, 4, seed=4), SeededCoins(5)).payloads
    return mechanism, rows, [mechanism.codec.encode(payload) for payload in mechanism.codec.unstack(rows)]


def test_counting_from_the_wire(sent: tuple[Any, Any, list[bytes]]) -> None:
    mechanism, rows, parts = sent
    counts, flaws = mechanism.count_encoded(Payloads.of(parts), None)
    assert (counts == mechanism.fold(rows, None)).all() and not flaws.any()


def test_a_malformed_payload_is_named_and_not_counted(sent: tuple[Any, Any, list[bytes]]) -> None:
    mechanism, rows, parts = sent
    broken = [*parts[:7], b"\xff" * len(parts[7]), *parts[8:]]
    counts, flaws = mechanism.count_encoded(Payloads.of(broken), None)
    assert np.flatnonzero(flaws).tolist() == [7]
    assert (counts == mechanism.fold(np.delete(rows, 7, axis=0), None)).all()
    with pytest.raises(ReportError):
        mechanism.tally_encoded([bytes(16)] * len(broken), broken)


def test_the_length_is_as_stated(sent: tuple[Any, Any, list[bytes]]) -> None:
    mechanism, _, parts = sent
    bits = 8 * sum(map(len, parts)) / len(parts)
    assert mechanism.bits_per_report < bits < mechanism.bits_per_report + 8


@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "0.5", "1", "2", "4"])
@pytest.mark.parametrize(
    ("d", "pairs"), [(5, 1), (5, 5), (20, 2), (100, 1), (100, 5), (100, 20), (1000, 1), (1000, 20)]
)
def test_length_is_near_the_entropy(d: int, pairs: int, epsilon: str) -> None:
    """Within 5 % or one byte of the entropy of the members of a uniform subset."""
    codec = make("ssr", d, epsilon, max_pairs=pairs).codec
    everything, entropy = math.comb(codec.symbols + codec.dummies, codec.size), 0.0
    for absent in range(min(codec.dummies, codec.size) + 1):
        sets = math.comb(codec.symbols, codec.size - absent)
        chance = Fraction(math.comb(codec.dummies, absent) * sets, everything)
        if chance:
            entropy += float(chance) * (math.log2(sets) + math.log2(chance.denominator) - math.log2(chance.numerator))
    assert entropy - 1e-9 <= codec.bits <= max(1.05 * entropy, entropy + 8)


@pytest.mark.parametrize("options", [{"size": 0}, {"size": 200}, {"goal": "speed"}, {"bins": 300}])
def test_options_are_refused(options: Any) -> None:
    with pytest.raises(MechanismError):
        make("ssr", 100, max_pairs=5, **options)


@pytest.mark.parametrize("bins", [2, 5])
def test_cells_instead_of_signs(bins: int) -> None:
    mechanism = make("ssr", 3, "2", max_pairs=2, bins=bins)
    values = np.array([-GRID, GRID - 1], dtype=np.int32)
    n = 100_000
    people = Records(np.arange(n + 1) * 2, np.tile([0, 2], n).astype(np.int32), np.tile(values, n), 3)
    histogram = mechanism.histogram(mechanism.tally(mechanism.perturb_many(people, SeededCoins(6))))
    expected = np.zeros((3, bins))
    expected[0, 0] = expected[2, -1] = 1
    assert np.abs((histogram.mass - expected) / histogram.se).max() < 6  # 15 cells: false alarm below 1e-7


@pytest.mark.soak
def test_a_million_people_over_a_thousand_keys(record_property: Callable[[str, object], None]) -> None:
    mechanism, n = make("ssr", 1000, max_pairs=5), 1_000_000
    rng = np.random.default_rng(7)
    keys = (rng.integers(0, 200, (n, 5)) + 200 * np.arange(5)).astype(np.int32)
    people = Records(np.arange(n + 1, dtype=np.int64) * 5, keys.reshape(-1), np.full(5 * n, GRID, np.int32), 1000)
    mechanism.tally(mechanism.perturb_many(people.slice(0, 10), Coins()))
    begin, tally = time.perf_counter(), Tally.empty(mechanism.fingerprint, mechanism.tally_shape)
    for block in mechanism.reports(people, Coins()):
        tally = tally + mechanism.tally(block)
    record_property("seconds", round(time.perf_counter() - begin, 2))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    record_property("GB", round(memory, 2))
    assert memory < 2
    errors = mechanism.estimate(tally).frequency.values - np.bincount(people.keys, minlength=1000) / n
    assert np.sqrt((errors**2).mean()) == pytest.approx(math.sqrt(41.2 / n), rel=0.2)
