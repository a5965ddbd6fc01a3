"""Budgets of key and value as people set them: what each split really spends, and that nothing else changes."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from keyveil.core.errors import MechanismError
from keyveil.core.schema import Schema
from keyveil.mechanisms.registry import create, create_round
from keyveil.privacy.certify import certify, enumerate_worst

NEEDED: dict[str, dict[str, Any]] = {
    "privkv": {},
    "pckv-ue": {"max_pairs": 1},
    "pckv-grr": {"max_pairs": 2},
    "kv-sw": {"max_pairs": 1, "cells": 3},
}


def sign_truth(epsilon: float) -> float:
    return 1 / (1 + math.exp(-epsilon))


def published(name: str, key: float, value: float) -> float:
    """What budgets that are simply added up really spend (mechanisms with one or, for pckv-grr, two pairs)."""
    if name == "pckv-grr":
        blanket = (math.exp(value) + 1) / 2
        return math.log((math.exp(key + value) + blanket) / (min(math.exp(key), blanket) + blanket))
    return max(value, key + math.log(2 * sign_truth(value)))


@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize("value", ["0.2", "0.7"])
def test_a_tight_split_spends_epsilon_whatever_the_value_gets(name: str, value: str) -> None:
    mechanism = create(name, Schema(keys=2), 1, value_epsilon=value, **NEEDED[name])
    certificate = certify(mechanism)
    assert certificate.certified and float(certificate.exact_epsilon) == pytest.approx(1, abs=1e-8)
    assert float(enumerate_worst(mechanism.reduced()).ratio) == pytest.approx(math.e, rel=1e-8)


@pytest.mark.parametrize("name", ["privkv", "pckv-ue", "pckv-grr"])
@pytest.mark.parametrize("value", ["0.2", "0.5", "0.7"])
def test_what_a_published_split_really_spends(name: str, value: str) -> None:
    """The formulas of docs/theory.md, by enumeration of the sampler."""
    mechanism = create(name, Schema(keys=2), 1, split="paper", value_epsilon=value, **NEEDED[name])
    exact = published(name, 1 - float(value), float(value))
    assert float(certify(mechanism).exact_epsilon) == pytest.approx(exact, abs=1e-8) and exact < 1
    assert math.log(enumerate_worst(mechanism.reduced()).ratio) == pytest.approx(exact, abs=1e-8)


@pytest.mark.parametrize("name", NEEDED)
def test_a_split_that_nobody_asked_for_is_named_nowhere(name: str) -> None:
    usual = create(name, Schema(keys=2), 1, **NEEDED[name])
    assert "value_epsilon" not in usual.options
    half = create(name, Schema(keys=2), 1, split="paper", **NEEDED[name])
    same = create(name, Schema(keys=2), 1, split="paper", value_epsilon="0.5", **NEEDED[name])
    assert half.ratio == same.ratio and half.fingerprint != same.fingerprint


@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize(("split", "value"), [("tight", "1.1"), ("tight", "0"), ("paper", "1"), ("paper", "-1")])
def test_a_split_that_leaves_nothing_is_refused(name: str, split: str, value: str) -> None:
    with pytest.raises(MechanismError) as refused:
        create(name, Schema(keys=2), 1, split=split, value_epsilon=value, **NEEDED[name])
    assert refused.value.code == "mechanism/option"


def test_an_extreme_fake_mean_needs_a_sign_that_leaves_something() -> None:
    with pytest.raises(MechanismError):
        create("privkv", Schema(keys=1), 1, fake_mean=1)
    certificate = certify(create("privkv", Schema(keys=1), 1, fake_mean=1, value_epsilon="0.4"))
    assert certificate.method == "enumeration" and certificate.certified
    assert float(certificate.exact_epsilon) == pytest.approx(1, abs=1e-8)


@pytest.mark.parametrize("variant", ["published", "repaired"])
@pytest.mark.parametrize("ratio", ["1/4", "4"])
def test_the_second_phase_of_adaptive_takes_any_ratio_of_its_budgets(variant: str, ratio: str) -> None:
    asked = create_round("adaptive-value", Schema(keys=3), 1, max_pairs=2, variant=variant, steps=2, key_to_value=ratio)
    certificate = certify(asked)
    assert certificate.certified and certificate.method == "enumeration"
    keys, value = asked.budget  # type: ignore[attr-defined]
    key = math.log(keys.high / keys.low)
    assert key / math.log(value.channel.ratio) == pytest.approx(float(Fraction(ratio)), rel=1e-6)
    if variant == "repaired":  # spends all of it
        assert float(certificate.exact_epsilon) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("ratio", ["0", "1000"])
def test_a_senseless_ratio_is_refused(ratio: str) -> None:
    with pytest.raises(MechanismError) as refused:
        create_round("adaptive-value", Schema(keys=3), 1, max_pairs=2, key_to_value=ratio)
    assert refused.value.code == "mechanism/option"
