"""Limits after post-processing: proved for monotone methods, which are tested to be so; refused for all others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyveil.core.errors import MechanismError
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.lab.attacks.added import single_counts
from keyveil.lab.attacks.crafting import thought_of
from keyveil.lab.attacks.processed_limits import processed_with_limits
from keyveil.lab.coins import SeededCoins
from keyveil.learn import postprocess
from keyveil.learn.methods import Noise, run
from keyveil.mechanisms.registry import create
from keyveil.mechanisms.totals import Constraint
from keyveil.robustness.influence import influence
from keyveil.robustness.processed import MONOTONE, processed_limits
from keyveil.testing.people import people

VECTORS = st.lists(st.floats(-0.5, 1.5), min_size=2, max_size=7)
CONSTRAINTS = (Constraint(1.0, 1.0), Constraint(1.0, 1.0, 1.0), Constraint(2.0, 2.0, 1.0), Constraint(None, 1.5, 1.0))


@pytest.mark.parametrize("method", MONOTONE)
@settings(max_examples=150, deadline=None)
@given(vector=VECTORS, at=st.integers(0, 6), step=st.floats(0, 1), which=st.sampled_from(CONSTRAINTS))
def test_a_key_rises_with_its_own_estimate_and_falls_with_others(
    method: str, vector: list[float], at: int, step: float, which: Constraint
) -> None:
    if which.total is None and method == "norm":
        which = CONSTRAINTS[0]
    before, at = np.array(vector), at % len(vector)
    after = before.copy()
    after[at] += step
    one, other = (run(method, values.copy(), which, Noise(sigma=0.1)) for values in (before, after))
    assert other[at] >= one[at] - 1e-9
    rest = np.arange(len(vector)) != at
    assert (other[rest] <= one[rest] + 1e-9).all()


def test_norm_cut_and_norm_mul_are_not_monotone() -> None:
    which = Constraint(2.0, 2.0, 1.0)
    kept, lost = (run("norm-cut", np.array([0.0, value]), which, Noise())[1] for value in (1.5, 2.5))
    assert lost < kept, "a larger estimate was cut away"
    before, after = (run("norm-mul", np.array([value, 0.0, 1.0]), which, Noise())[1] for value in (1.0, 2.0))
    assert after > before, "a larger estimate raised another one"


@pytest.mark.parametrize("method", ["norm-sub", "base-pos"])
@pytest.mark.parametrize("name", ["oue", "kvue", "ssr"])
def test_no_attack_goes_beyond_the_limits_after_processing_and_some_come_near(name: str, method: str) -> None:
    mechanism = create(name, Schema(keys=5), 2, **({"max_pairs": 2} if name == "ssr" else {}))
    crowd = people(mechanism, 2000, 3)
    tally = mechanism.tally(mechanism.perturb_many(crowd.records(mechanism.schema), SeededCoins(2)))
    estimates, m = mechanism.estimate(tally), 40
    after = processed_with_limits(estimates, method, mechanism, tally, influence(mechanism, tally, m, estimates))
    limits = after.attacked
    assert limits is not None and limits.frequency_kind == "bound"
    left = np.rint(tally.counts * (1 - m / tally.reports)).astype(np.int64)
    kept, moved = Tally(tally.fingerprint, tally.reports - m, left), []
    pool = thought_of(mechanism, 0, SeededCoins(1), 80)
    for one in {added.kind: added for added in single_counts(mechanism, pool)}.values():
        crafted = mechanism.estimate(kept + one.tally(tally.fingerprint, m))
        moved.append(postprocess.estimates(method, crafted, mechanism=mechanism).frequency.values)
    assert (np.max(moved, axis=0) <= limits.frequency_high + 1e-3).all()
    assert (np.min(moved, axis=0) >= limits.frequency_low - 1e-3).all()
    value = after.frequency.values[0]
    assert np.max(moved, axis=0)[0] - value >= 0.25 * (limits.frequency_high[0] - value)


def test_of_methods_that_are_not_monotone_the_largest_change_is_found_and_named_so() -> None:
    mechanism = create("kvue", Schema(keys=4), 2)
    crowd = people(mechanism, 3000, 3)
    tally = mechanism.tally(mechanism.perturb_many(crowd.records(mechanism.schema), SeededCoins(2)))
    estimates = mechanism.estimate(tally)
    limits = influence(mechanism, tally, 60, estimates)
    shrunk = processed_with_limits(estimates, "bayes", mechanism, tally, limits)
    assert shrunk.attacked is not None and shrunk.attacked.frequency_kind == "largest found"
    assert (shrunk.attacked.frequency_low < shrunk.frequency.values).all()
    assert (shrunk.attacked.frequency_high > shrunk.frequency.values).all()
    with pytest.raises(MechanismError) as refused:
        processed_limits(shrunk, limits)
    assert refused.value.code == "attack/postprocess"
