"""Which keys are told from absent, and intervals of chosen keys: against the definitions, and over many draws."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control, norm

from keyveil.core.discovery import Decision, told_from_absent, widening
from keyveil.core.estimates import FLAGS, Estimates
from keyveil.core.schema import Schema
from keyveil.lab import datasets
from keyveil.lab.simulate import simulate

SCORES = st.lists(st.floats(-10, 12), min_size=1, max_size=60)


@given(scores=SCORES, decision=st.sampled_from(["bh", "by"]), confidence=st.sampled_from([0.8, 0.95, 0.99]))
def test_it_is_the_rule_of_benjamini_hochberg_and_yekutieli(
    scores: list[float], decision: Literal["bh", "by"], confidence: float
) -> None:
    chances = norm.sf(scores)
    adjusted = false_discovery_control(chances, method=decision)
    clear = np.abs(adjusted - (1 - confidence)) > 1e-12
    told = told_from_absent(np.array(scores), decision, confidence)
    assert (told == (adjusted <= 1 - confidence))[clear].all()


def test_each_key_on_its_own_has_an_interval_above_zero() -> None:
    assert told_from_absent(np.array([1.9, 2.0, math.nan, math.inf]), "per-key", 0.95).tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("decision", ["bh", "by", "per-key"])
def test_unknown_keys_are_not_told_and_do_not_count(decision: Decision) -> None:
    few, nothing = np.array([5.0, 0.1]), np.full(10_000, math.nan)
    assert told_from_absent(np.append(few, nothing), decision, 0.95)[:2].tolist() == [True, False]
    assert not told_from_absent(nothing, decision, 0.95).any()


@pytest.mark.parametrize(("decision", "holds"), [("bh", True), ("by", True), ("per-key", False)])
def test_few_of_the_keys_told_are_absent(decision: Decision, holds: bool) -> None:
    """Expected share at most 0.05; the mean of 200 draws has a standard error below 0.006, so 0.09 errs below 1e-10.

    Each key on its own, the wrong rule for whichever keys look frequent, has most of them wrong.
    """
    rng, d, held = np.random.default_rng(5), 2000, 40
    truth = np.where(np.arange(d) < held, 5.5, 0.0)
    wrong, missed, found = [], [], 0
    for _ in range(200):
        scores = truth + rng.standard_normal(d)
        told = told_from_absent(scores, decision, 0.95)
        reach = 1.959964 * widening(int(told.sum()), d, 0.95)
        wrong.append(told[held:].sum() / max(told.sum(), 1))
        missed.append((np.abs(scores - truth) > reach)[told].sum() / max(told.sum(), 1))
        found += int(told[:held].sum())
    assert (np.mean(wrong) < 0.09) == holds
    assert np.mean(missed) < 0.09 or not holds
    assert found > 0.9 * 200 * held


def test_the_more_keys_are_chosen_the_narrower_their_intervals() -> None:
    assert widening(100, 100, 0.95) == pytest.approx(1)
    assert widening(1, 100, 0.95) == pytest.approx(norm.isf(0.00025) / norm.isf(0.025))
    assert widening(0, 100, 0.95) == widening(1, 100, 0.95)


@pytest.fixture(scope="module")
def long_tail() -> Estimates:
    """Of 1000 keys 980 are absent; a key has forty respondents, so that a normal law of counts would be wrong."""
    frequencies = np.append(np.linspace(0.6, 0.95, 20), np.full(980, 1e-12))
    people = datasets.independent(40_000, frequencies, np.zeros(1000), seed=1)
    return simulate("kvue", people, Schema(keys=1000), 2, seed=2).estimates


def test_a_mean_is_ok_only_for_keys_that_are_told_among_all(long_tail: Estimates) -> None:
    truth = long_tail.truth
    assert truth is not None
    ok, alone = (one.mean.flag < FLAGS.index("insufficient") for one in (long_tail, long_tail.per_key()))
    assert long_tail.header.decision == "bh" and long_tail.per_key().header.decision == "per-key"
    assert ok.sum() >= 18 and not ok[~long_tail.told].any()
    assert (truth.frequency[ok] == 0).sum() <= 4  # one is expected; more than four below 1e-3, and the seed is fixed
    assert (truth.frequency[alone] == 0).sum() > 8  # the mutant: each key on its own
    np.testing.assert_array_equal(long_tail.frequency.low, long_tail.per_key().frequency.low)


def test_decisions_survive_documents(long_tail: Estimates) -> None:
    again = Estimates.from_json(long_tail.to_json())
    assert again.header == long_tail.header and again.rows() == long_tail.rows()
    assert again.per_key().rows() == long_tail.per_key().rows()
    flagged = long_tail.flagged("truncated")
    assert set(flagged.per_key().flag) <= {"truncated", "insufficient"}


def test_older_documents_were_decided_key_by_key(long_tail: Estimates) -> None:
    document = long_tail.per_key().document(schema=True)
    del document["decision"], document["exact"]["mean_alone"], document["exact"]["scores"]
    assert Estimates.from_document(document).flag == long_tail.per_key().flag
