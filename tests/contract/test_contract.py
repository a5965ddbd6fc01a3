"""Every mechanism of the registry under the whole contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from keyveil import testing as checks
from tests.contract.cases import (
    BIASED,
    BIASED_MEANS,
    BULK,
    DRAWS,
    FORMS,
    IDS,
    KEYS,
    NAMES,
    NOT_TIGHT,
    OPTIONS,
    REPEATS,
    SCORES,
    SINGLES,
    VARIANTS,
    estimates_products,
    extreme,
    label,
    large,
    tiny,
    usual,
)
from tests.sweeps import sampled

PRODUCTS = [variant for variant in VARIANTS if estimates_products(*variant) and variant not in BIASED]

every_mechanism = pytest.mark.parametrize(("name", "options"), VARIANTS, ids=IDS)
every_form = pytest.mark.parametrize(("name", "options"), FORMS, ids=IDS[: len(FORMS)])
every_product = pytest.mark.parametrize(("name", "options"), PRODUCTS, ids=[label(*variant) for variant in PRODUCTS])
# Published splits are other numbers in the same channels, and biased means come from the same reports: their draws are
# those of their forms.
either_target = pytest.mark.parametrize("population", [False, True], ids=["fixed people", "sample"])
# Two of five epsilons, and one of both targets: mechanisms take turns, and all of it is in ``make soak``. Errors begin
# with fixed people and joint errors with a sample, so that a form sees both.
some_epsilons = pytest.mark.parametrize(
    ("name", "options", "epsilon"), sampled(VARIANTS, ["0.1", "0.5", "1", "2", "5"], IDS, each=2)
)
form_and_target = pytest.mark.parametrize(
    ("name", "options", "population"), sampled(FORMS, [False, True], IDS[: len(FORMS)])
)
product_and_target = pytest.mark.parametrize(
    ("name", "options", "population"), sampled(PRODUCTS, [False, True], [label(*one) for one in PRODUCTS], first=1)
)


@every_mechanism
def test_members_are_there(name: str, options: dict[str, Any]) -> None:
    checks.members_are_there(usual(name, **options))


@every_mechanism
def test_documents_and_fingerprints_identify(name: str, options: dict[str, Any]) -> None:
    checks.documents_make_the_same_mechanism(usual(name, **options))
    checks.fingerprints_tell_mechanisms_apart(usual(name, **options))


@some_epsilons
def test_privacy_is_exact(name: str, options: dict[str, Any], epsilon: str) -> None:
    mechanism = tiny(name, epsilon, **options)
    checks.privacy_by_enumeration(mechanism, tight=NOT_TIGHT.isdisjoint((name, label(name, options))))


@every_form
def test_single_draws_have_the_law(name: str, options: dict[str, Any]) -> None:
    checks.single_draws_have_the_law(tiny(name, **options), draws=DRAWS)


@every_form
def test_bulk_draws_have_the_law(name: str, options: dict[str, Any]) -> None:
    checks.bulk_draws_have_the_law(tiny(name, **options), draws=BULK)


@every_form
def test_devices_do_at_full_size_what_bulk_does(name: str, options: dict[str, Any]) -> None:
    checks.devices_do_at_full_size_what_bulk_does(usual(name, **options), singles=SINGLES)
    checks.devices_do_at_full_size_what_bulk_does(large(name, **options), singles=SINGLES)


@every_mechanism
def test_reports_are_what_devices_draw(name: str, options: dict[str, Any]) -> None:
    checks.reports_are_what_devices_draw(usual(name, **options))


@every_mechanism
def test_reports_travel(name: str, options: dict[str, Any]) -> None:
    checks.reports_travel(tiny(name, **options))


@every_form
def test_parts_add_up(name: str, options: dict[str, Any]) -> None:
    checks.parts_add_up(usual(name, **options))


@form_and_target
def test_errors_are_as_stated(name: str, options: dict[str, Any], population: bool) -> None:
    biased = name in BIASED_MEANS
    checks.errors_are_as_stated(usual(name, **options), population=population, scores=SCORES, biased_means=biased)


@pytest.mark.soak
@every_form
@either_target
def test_errors_are_as_stated_at_full_size(name: str, options: dict[str, Any], population: bool) -> None:
    """Sees variances that are a tenth off."""
    biased = name in BIASED_MEANS
    checks.errors_are_as_stated(usual(name, **options), population=population, scores=6400, biased_means=biased)


@product_and_target
def test_joint_errors_are_as_stated(name: str, options: dict[str, Any], population: bool) -> None:
    checks.joint_errors_are_as_stated(extreme(name, **options), population=population, repeats=REPEATS)


@pytest.mark.soak
@every_product
@either_target
def test_joint_errors_are_as_stated_at_full_size(name: str, options: dict[str, Any], population: bool) -> None:
    checks.joint_errors_are_as_stated(extreme(name, **options), population=population, repeats=1600)


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_the_public_suite_passes_every_name(name: str, record_property: Callable[[str, object], None]) -> None:
    """The tests above take the checks one by one, at sizes of their own; this is what other people run."""
    given = {option: min(value, 3) for option, value in OPTIONS.get(name, {}).items()}
    report = checks.check_mechanism(name, keys=min(KEYS.get(name, 4), 5), **given)
    record_property("checks", len(report.checks))
