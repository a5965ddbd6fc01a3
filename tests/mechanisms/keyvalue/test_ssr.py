from __future__ import annotations

import math
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from keyveil.core.codecs.payloads import Payloads
from keyveil.core.coins import Coins
from keyveil.core.errors import MechanismError, ReportError
from keyveil.core.records import Records
from keyveil.core.schema import GRID, Schema
from keyveil.core.tally import Tally
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.label_sums import LabelSums
from keyveil.mechanisms.registry import create
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
    for other in {max(size - 1, 1), size + 1}:
        worse = variances(make("ssr", d, epsilon, max_pairs=pairs, size=other))
        assert math.prod(variances(mechanism)) <= math.prod(worse) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("d", "pairs", "epsilon", "bins", "law", "frequency"),
    [
        (100, 5, "3", None, "5", 0.05),
        (100, 5, "3", None, "3:0.5,9:0.5", 0.04),  # of nine pairs, five count
        (100, 5, "2", None, "5", 0.05),
        (40, 10, "2", 3, "10", 0.25),
        (100, 20, "2", None, "50", 0.2),
    ],
)
def test_the_size_is_the_best_one_at_the_frequencies_that_set_sizes_give(
    d: int, pairs: int, epsilon: str, bins: int | None, law: str, frequency: float
) -> None:
    """The scan of closed forms agrees with the moments of the channel that is then used."""
    chosen = make("ssr", d, epsilon, max_pairs=pairs, sizes=law, bins=bins)
    found = {}
    for size in range(1, 13):
        odds = make("ssr", d, epsilon, max_pairs=pairs, size=size, bins=bins).odds[0][1]
        at = np.full(1, frequency)
        of_key = odds.of_key(2 if bins is None else bins).spread(at, np.zeros(1), np.ones(1), 1.0)
        of_mass = odds.of_symbol.spread(at / (bins or 1), np.zeros(1), np.ones(1), 1.0)
        found[size] = of_key.frequency[0] * (of_key.product[0] if bins is None else of_mass.frequency[0])
    assert chosen.size == min(found, key=lambda size: found[size])
    assert chosen == make("ssr", d, epsilon, max_pairs=pairs, size=chosen.size, bins=bins)  # documents name the size


def test_expected_frequencies_save_a_tenth_of_the_variance() -> None:
    """A hundred keys, five a person, at epsilon 3: one member would be best for rare keys, two are for all."""
    rare, mean = make("ssr", 100, "3", max_pairs=5), make("ssr", 100, "3", max_pairs=5, sizes="5")
    assert (rare.size, mean.size) == (1, 2)
    ratios = np.array(variances(rare, 0.05)) / variances(mean, 0.05)
    assert ratios == pytest.approx([1.12, 1.12], abs=0.01)


# -- points instead of signs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("d", "pairs", "epsilon", "better", "cost"),
    [
        (100, 10, "4", 1.56, 1.30),
        (100, 10, "6", 2.3, 1.05),
        (100, 10, "8", 2.5, 1.01),
        (1000, 5, "8", 2.05, 1.14),
        (12, 9, "2", 1.5, 1.30),
        (12, 9, "4", 2.3, 1.05),
    ],
)
def test_three_points_for_values_inside_the_range(d: int, pairs: int, epsilon: str, better: float, cost: float) -> None:
    """Var f·m under signs over that under three points, for normal values of deviation one half, and what f costs."""
    signs, points = (make("ssr", d, epsilon, max_pairs=pairs, levels=levels) for levels in (None, 3))
    frequency, size = (
        pairs / d,
        math.sqrt(2 / math.pi) / 2,
    )  # the mean size of a value: how often it is not rounded to 0
    masses = frequency * np.array([[size / 2, 1 - size, size / 2]])
    told = LabelSums.told(points.cell_odds()[:1], np.ones(1, dtype=np.int64), 1, False, np.zeros(1, dtype=np.bool_))
    of_points = told.product_spread(masses, replace(points.points, at=points.points.at[:1]))
    of_signs = variances(signs, frequency)
    assert of_signs[1] / of_points.product[0] == pytest.approx(better, rel=0.03)
    assert of_points.frequency[0] / of_signs[0] == pytest.approx(cost, rel=0.02)
    assert points == make("ssr", d, epsilon, max_pairs=pairs, bins=3)  # one option under two names


def test_the_goal_chooses_labels() -> None:
    """Three points for means from e^ε = 2d/l on; the levels of a schema for means and both; signs else."""

    def bins(goal: str, epsilon: str, levels: Any = None) -> Any:
        return create("ssr", Schema(keys=100, levels=levels), epsilon, max_pairs=5, goal=goal).options["bins"]

    five = [-1, "-0.5", 0, "0.5", 1]
    assert [bins(goal, "3.6") for goal in ("both", "frequency", "mean")] == [None, None, None]  # e^3.6 < 40
    assert [bins(goal, "3.7") for goal in ("both", "frequency", "mean")] == [None, None, 3]
    assert [bins(goal, "3.6", five) for goal in ("both", "frequency", "mean")] == [5, 2, 2]
    assert [bins(goal, "3.7", five) for goal in ("both", "frequency", "mean")] == [5, 2, 5]
    assert make("ssr", 100, "3.7", max_pairs=5, goal="mean") == make("ssr", 100, "3.7", max_pairs=5, bins=3)
    assert make("ssr", 100, "3.7", max_pairs=5, goal="mean", bins=2).bins == 2


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
    near_the_entropy(make("ssr", d, epsilon, max_pairs=pairs).codec)


@pytest.mark.parametrize("epsilon", ["0.5", "4", "8"])
@pytest.mark.parametrize(("d", "pairs"), [(12, 9), (100, 5), (1000, 5)])
def test_length_of_three_points_is_near_the_entropy(d: int, pairs: int, epsilon: str) -> None:
    near_the_entropy(make("ssr", d, epsilon, max_pairs=pairs, bins=3).codec)


def near_the_entropy(codec: Any) -> None:
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
