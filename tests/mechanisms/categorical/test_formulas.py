"""Probabilities, variances and sizes of docs/mechanisms/categorical.md, and the errata C of docs/errata.md."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from keyveil.core.channels import Subset
from keyveil.core.epsilon import exp_floor, lie_threshold
from keyveil.core.schema import Schema
from keyveil.mechanisms.categorical.hr import HR
from keyveil.mechanisms.categorical.olh import OLH
from keyveil.mechanisms.categorical.ss import SS
from keyveil.mechanisms.categorical.unary import OUE, SUE
from tests.mechanisms.categorical.cases import ORACLES, oracle, title

E = math.e
ONE = Fraction(1)


def test_vectors_of_the_specification() -> None:
    oue, ss = OUE(Schema(keys=9), ONE), SS(Schema(keys=16), ONE)

    assert lie_threshold(ONE) == 1155094610
    assert oue.factor.weights[0][1] == 1155094610
    assert oue.response.holder.support == Fraction(1, 2)
    assert float(oue.response.stranger.support) == pytest.approx(0.2689414214, abs=1e-9)
    assert ss.omega == 4
    assert float(ss.response.holder.support) == pytest.approx(0.4753668864, abs=1e-9)


def test_probabilities_of_the_table() -> None:
    sue, hr = SUE(Schema(keys=9), ONE), HR(Schema(keys=9), ONE)
    truth = math.exp(0.5) / (math.exp(0.5) + 1)

    assert float(sue.response.holder.support) == pytest.approx(truth, abs=1e-9)
    assert sue.response.stranger.support == 1 - sue.response.holder.support
    for form in (hr, HR(Schema(keys=9), ONE, form="bit")):
        assert float(form.response.holder.support) == pytest.approx(0.7310585786, abs=1e-9)
        assert form.response.stranger.support == Fraction(1, 2)


def test_erratum_C1_olh_tells_the_true_bucket_with_e_over_e_plus_g_minus_one() -> None:  # noqa: N802
    olh = OLH(Schema(keys=64), ONE)
    p, q = float(olh.response.holder.support), float(olh.response.stranger.support)
    assert olh.g == 4
    assert p == pytest.approx(E / (E + 3), abs=1e-9)

    printed = (E - 1) / (E + 3)
    assert (p - q) / (printed - q) == pytest.approx(4.5, abs=0.05)  # what the printed p makes of every frequency


def test_erratum_C7_subset_selection_holds_the_truth_half_the_time_for_one_exact_size_only() -> None:  # noqa: N802
    assert Subset(symbols=16, size=4, held=1, high=3, low=1).own == Fraction(1, 2)  # 4 = 16/(3 + 1)
    for size in (1, 4, 7, 15):
        channel = SS(Schema(keys=16), ONE, size=size).channel
        weight = Fraction(channel.high, channel.low)
        p = weight * size / (weight * size + 16 - size)
        assert channel.own == p != Fraction(1, 2)
        assert channel.other == (p * (size - 1) + (1 - p) * size) / 15


@pytest.mark.parametrize("form", ORACLES, ids=title)
def test_variance_is_the_formula_of_the_specification(form: tuple[str, dict[str, str]]) -> None:
    mechanism, n = oracle(form, 40), 1000
    p, q = float(mechanism.response.holder.support), float(mechanism.response.stranger.support)
    f = np.linspace(0, 1, 40)

    fixed = q * (1 - q) / (n * (p - q) ** 2) + f * (1 - p - q) / (n * (p - q))

    assert mechanism.variance(f, n) == pytest.approx(fixed)
    assert mechanism.variance(f, n, population=True) == pytest.approx(fixed + f * (1 - f) / n)


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("grr", (E + 1024 - 2) / (E - 1) ** 2),
        ("sue", math.exp(0.5) / (math.exp(0.5) - 1) ** 2),
        ("oue", 4 * E / (E - 1) ** 2),
        ("hr", (E + 1) ** 2 / (E - 1) ** 2),
        ("shist", (E + 1) ** 2 / (E - 1) ** 2),
    ],
)
def test_variance_of_rare_keys(name: str, limit: float) -> None:
    rare = np.zeros(1024)
    assert oracle((name, {}), 1024).variance(rare, 1)[0] == pytest.approx(limit, rel=1e-6)


def test_subset_selection_and_local_hashing_come_close_to_oue() -> None:
    ss, olh, oue = (oracle((name, {}), 1024).variance(np.zeros(1024), 1)[0] for name in ("ss", "olh", "oue"))
    assert 0.99 * oue < ss < oue
    assert olh == pytest.approx(oue, rel=0.02)


def test_olh_takes_about_e_to_the_epsilon_plus_one_buckets() -> None:
    buckets = [OLH(Schema(keys=9), Fraction(epsilon)).g for epsilon in ("0.1", "1", "5", "30")]
    assert buckets == [2, 4, 149, 1 << 16]
    assert round(exp_floor(Fraction(5))) == 148


@pytest.mark.parametrize(
    ("form", "bits"),
    [
        (("grr", {}), 10),
        (("olh", {}), 2),
        (("hr", {}), 10),
        (("hr", {"form": "bit"}), 1),
        (("shist", {}), 1),
    ],
    ids=str,
)
def test_bits_per_report(form: tuple[str, dict[str, str]], bits: int) -> None:
    assert oracle(form, 1000).bits_per_report == bits


def test_a_subset_costs_little_more_than_its_entropy() -> None:
    for epsilon in ("0.5", "1", "1.5", "3"):
        ss = SS(Schema(keys=1000), Fraction(epsilon))
        entropy = math.log2(math.comb(1000, ss.omega))
        assert entropy < ss.bits_per_report < 1.05 * entropy


def test_noisy_bits_cost_little_more_than_their_entropy() -> None:
    for epsilon, shortest in (("0.1", 1000), ("0.5", 957), ("1", 840), ("2", 527), ("4", 131)):
        oue = OUE(Schema(keys=1000), Fraction(epsilon))
        assert 0.999 * shortest < oue.bits_per_report < 1.05 * shortest
