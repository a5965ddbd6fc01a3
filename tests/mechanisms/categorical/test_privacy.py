"""Every categorical mechanism spends what was asked, and nothing above it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import pytest

from keyveil.core.channels import Product, Table, binary
from keyveil.core.epsilon import RESOLUTION, exp_floor, keeps, log_ceiling
from keyveil.core.schema import Schema
from keyveil.mechanisms.categorical.unary import OUE
from keyveil.privacy.certify import certify
from tests.mechanisms.categorical.cases import FORMS, categorical, title

EPSILONS = ("0.1", "0.5", "1", "2", "5")


@pytest.mark.parametrize("form", FORMS, ids=title)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_exact_epsilon_is_the_requested_one_up_to_a_millionth(form: tuple[str, dict[str, str]], epsilon: str) -> None:
    certificate = certify(categorical(form, 1024, epsilon))

    assert certificate.certified
    for ratio in (certificate.ratio, certificate.worst.ratio):  # closed form at 1024 keys, enumeration at a few
        assert keeps(ratio, Fraction(epsilon))
        assert Fraction(log_ceiling(ratio)) > Fraction(epsilon) - Fraction(1, 10**6)


@pytest.mark.parametrize("epsilon", ["0.001", "20", "32"])
@pytest.mark.parametrize("form", [form for form in FORMS if "permanent" not in form[1]], ids=title)
def test_extreme_epsilons_are_kept(form: tuple[str, dict[str, str]], epsilon: str) -> None:
    assert certify(categorical(form, 50, epsilon)).certified


def printed_oue(epsilon: Fraction) -> Table:
    """The optimised unary encoding with the printed text: zeros are flipped with probability 1/e^epsilon."""
    return binary(RESOLUTION // 2, round(RESOLUTION / exp_floor(epsilon)))


def test_erratum_C2_oue_as_printed_spends_too_much() -> None:  # noqa: N802
    spent = log_ceiling(Product(printed_oue(Fraction("0.2")), 8).ratio)
    assert float(spent) == pytest.approx(1.5078, abs=1e-4)
    for epsilon, kept in (("0.1", False), ("0.48", False), ("0.482", True), ("1", True)):
        assert keeps(Product(printed_oue(Fraction(epsilon)), 8).ratio, Fraction(epsilon)) is kept


def test_erratum_C2_the_certificate_rejects_the_printed_form() -> None:  # noqa: N802
    @dataclass(frozen=True)
    class Printed(OUE):
        @cached_property
        def factor(self) -> Table:
            return printed_oue(self.epsilon)

    assert not certify(Printed(Schema(keys=8), Fraction("0.2"))).certified
    assert certify(OUE(Schema(keys=8), Fraction("0.2"))).certified
