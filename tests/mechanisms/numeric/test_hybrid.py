"""The hybrid's two ways to answer: public, never mixed up, and both counted."""

from __future__ import annotations

import numpy as np
import pytest

from keyveil.core.errors import ReportError
from keyveil.core.public import public_word
from keyveil.core.report import Report
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.numeric.hybrid import Hybrid
from tests.mechanisms.numeric.crowd import everyone, numeric


def hybrid(epsilon: str, keys: int = 1) -> Hybrid:
    mechanism = numeric("hybrid", epsilon, keys)
    assert isinstance(mechanism, Hybrid)
    return mechanism


def public_bytes(mechanism: Hybrid, piecewise: bool) -> bytes:
    """Public bytes under which a report is piecewise, or a sign."""
    tries = (number.to_bytes(16, "little") for number in range(1000))
    return next(b for b in tries if mechanism.is_piecewise(public_word(b, mechanism.fingerprint[:16])) == piecewise)


def test_a_sign_must_be_a_sign() -> None:
    mechanism = hybrid("1")
    public = public_bytes(mechanism, piecewise=False)
    assert mechanism.decode(b"\x01\x00", public).payload == 1
    with pytest.raises(ReportError) as refusal:
        mechanism.decode(b"\x02\x00", public)
    assert refusal.value.code == "report/malformed"
    with pytest.raises(ReportError):
        mechanism.tally([Report(public, 2)])


def test_a_piecewise_answer_may_be_any_below_the_last() -> None:
    mechanism = hybrid("1")
    public, outputs = public_bytes(mechanism, piecewise=True), mechanism.window.outputs
    assert mechanism.decode((outputs - 1).to_bytes(2, "little"), public).payload == outputs - 1
    with pytest.raises(ReportError):
        mechanism.decode(outputs.to_bytes(2, "little"), public)


def test_all_reports_have_one_length() -> None:
    mechanism = hybrid("1")
    lengths = {len(mechanism.encode(mechanism.perturb(0.2, SeededCoins(seed)))) for seed in range(200)}
    assert lengths == {2}


def test_below_the_threshold_it_is_duchi() -> None:
    mechanism, duchi = hybrid("0.6"), numeric("duchi", "0.6")
    values = everyone(np.linspace(-1, 1, 5000))
    reports = mechanism.perturb_many(values, SeededCoins(9))
    assert mechanism.codec == duchi.codec
    assert np.array_equal(reports.payloads, duchi.perturb_many(values, SeededCoins(9)).payloads)
    ours = mechanism.estimate(mechanism.tally(reports)).mean
    theirs = duchi.estimate(duchi.tally(duchi.perturb_many(values, SeededCoins(9)))).mean
    assert (ours.values[0], ours.se[0]) == pytest.approx((theirs.values[0], theirs.se[0]))


def test_branch_and_key_are_independent() -> None:
    # The share of piecewise answers per key: 100 000 words a key, so 0.393 ± 0.0016; 0.01 is more than six errors.
    mechanism = hybrid("1", keys=4)
    words = SeededCoins(10).words(400_000)
    keys, chosen = mechanism.encoder.keys(words), mechanism.are_piecewise(words)
    shares = np.array([chosen[keys == key].mean() for key in range(4)])
    assert np.abs(shares - mechanism.threshold / 2**32).max() < 0.01


def test_the_tally_keeps_both_branches() -> None:
    mechanism = hybrid("2", keys=3)
    reports = mechanism.perturb_many(everyone(np.zeros((6000, 3))), SeededCoins(11))
    counts = mechanism.tally(reports).counts
    chosen = mechanism.are_piecewise(mechanism.words(reports.publics))
    assert counts[0, 0].sum() == (~chosen).sum()
    assert counts[1, 0].sum() == chosen.sum()
    assert (counts[0, 2] == counts[0, 0]).all()  # the square of a sign is one
