from __future__ import annotations

import math

import pytest

from keyveil.core.errors import PrivacyError
from keyveil.core.schema import Schema
from keyveil.mechanisms.registry import create
from keyveil.privacy import composition


def test_the_published_numbers() -> None:
    """ε₁ of KV-SW at a total of 1 and ε₂ = ½ and 1; PrivKV at ½ + ½."""
    assert composition.square_wave_key_budget(1, 0.5) == pytest.approx(0.7396049490, abs=1e-9)
    assert composition.square_wave_key_budget(1, 1) == pytest.approx(0.4586751454, abs=1e-9)
    assert composition.sign_total(0.5, 0.5) == pytest.approx(0.71907, abs=1e-5)


@pytest.mark.parametrize("value", ["0.2", "0.5", "0.8"])
def test_calculators_agree_with_certificates(value: str) -> None:
    key = 1 - float(value)
    for name, options, total in (
        ("privkv", {}, composition.sign_total(key, float(value))),
        ("pckv-ue", {"max_pairs": 2}, composition.sign_total(key, float(value))),
        ("pckv-grr", {"max_pairs": 3}, composition.sampled_symbol_total(key, float(value), 3)),
    ):
        mechanism = create(name, Schema(keys=8), 1, split="paper", value_epsilon=value, **options)
        assert math.log(mechanism.ratio) == pytest.approx(total, abs=1e-8)


def test_the_square_wave_total_is_the_limit_of_many_cells() -> None:
    """The key channel of kv-sw at a total of 1, with 4,096 cells: the same ε₁ within the rounding to cells."""
    mechanism = create("kv-sw", Schema(keys=4), 1, max_pairs=2, cells=4096, value_epsilon="0.5")
    fake = float(mechanism.fake)  # type: ignore[attr-defined]
    assert math.log((1 - fake) / fake) == pytest.approx(composition.square_wave_key_budget(1, 0.5), abs=1e-3)
    assert composition.square_wave_total(composition.square_wave_key_budget(2, 1.5), 1.5) == pytest.approx(2)


def test_senseless_budgets_are_refused() -> None:
    for wrong in (
        lambda: composition.sign_total(-1, 1),
        lambda: composition.square_wave_key_budget(1, 2),
        lambda: composition.sampled_symbol_total(1, 1, 0),
    ):
        with pytest.raises(PrivacyError) as refused:
            wrong()
        assert refused.value.code == "privacy/budget"
