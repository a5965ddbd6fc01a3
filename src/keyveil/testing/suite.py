"""The whole contract for one mechanism, at the sizes that each check needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import partial
from typing import Any

from keyveil.core.epsilon import Number, parse_epsilon
from keyveil.core.errors import ContractError, KeyveilError
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.mechanisms import registry
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import can
from keyveil.mechanisms.construction import check_members, construct
from keyveil.mechanisms.options import fitted
from keyveil.testing.accuracy import errors_are_as_stated, joint_errors_are_as_stated
from keyveil.testing.capabilities import CAPABILITY_CHECKS
from keyveil.testing.identity import documents_make_the_same_mechanism, fingerprints_tell_mechanisms_apart
from keyveil.testing.laws import (
    bulk_draws_have_the_law,
    devices_do_at_full_size_what_bulk_does,
    privacy_by_enumeration,
    single_draws_have_the_law,
    variation_is_not_understated,
)
from keyveil.testing.members import members_are_there
from keyveil.testing.people import EXTREME, cap
from keyveil.testing.reports import parts_add_up, reports_are_what_devices_draw, reports_travel
from keyveil.testing.verdict import about

KEYS, PEOPLE = 4, 6000  # a schema and a crowd so small that the errors of every key are seen in seconds
EPSILONS = ("0.1", "0.5", "1", "2", "5")
LITTLE_NOISE = Fraction(4)  # an epsilon at which who holds what is seen in the errors

Make = Callable[[Schema, Fraction], Mechanism]
Check = Callable[[Mechanism], None]


@dataclass(frozen=True)
class CheckRun:
    """One check that was passed, what it found kept, and how long that took."""

    name: str
    promise: str
    seconds: float


@dataclass(frozen=True)
class CheckedContract:
    """All checks that a mechanism has passed."""

    mechanism: str
    options: dict[str, Any]
    checks: tuple[CheckRun, ...]

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "mechanism": self.mechanism,
            "options": self.options,
            "seconds": self.seconds,
            "checks": [vars(one) for one in self.checks],
        }

    def __str__(self) -> str:
        width = max(len(one.name) for one in self.checks)
        rows = [f"  {one.name:<{width}}  {one.seconds:6.2f} s  {one.promise}" for one in self.checks]
        return "\n".join([f"{self.mechanism} keeps the contract: {len(rows)} checks, {self.seconds:.1f} s", *rows])


def check_mechanism(
    mechanism: str | Mechanism | Make, *, keys: int = KEYS, epsilons: Sequence[Number] = EPSILONS, **options: Any
) -> CheckedContract:
    """Hold a mechanism to everything that Keyveil promises of its own.

    ``mechanism`` is a class, an object, a name of the registry, or a function of schema and epsilon; ``options`` go
    to whichever makes one. An object is checked with its own options, but with ``keys`` keys and other epsilons. Raises
    ``ContractError`` at the first promise that is broken: the sentence and the code (``contract/respond``, …) name the
    member. Takes some seconds to a minute.
    """
    make = _maker(mechanism, options)
    usual = make(Schema(keys=keys), parse_epsilon(1))
    small = partial(_reduced, make, keys)
    runs: list[CheckRun] = []

    def run(check: Check, *subjects: Mechanism, member: str) -> None:
        begin = time.perf_counter()
        for subject in subjects:
            with about(subject, member):
                check(subject)
        runs.append(CheckRun(*_described(check), time.perf_counter() - begin))

    run(members_are_there, usual, member="class")
    run(documents_make_the_same_mechanism, usual, member="document")
    run(fingerprints_tell_mechanisms_apart, usual, member="fingerprint")
    run(privacy_by_enumeration, *(small(parse_epsilon(epsilon)) for epsilon in epsilons), member="respond")
    run(variation_is_not_understated, small(usual.epsilon), member="variation")
    run(single_draws_have_the_law, small(usual.epsilon), member="respond")
    run(bulk_draws_have_the_law, small(usual.epsilon), member="respond_many")
    run(devices_do_at_full_size_what_bulk_does, usual, member="respond_many")
    run(reports_are_what_devices_draw, usual, member="perturb")
    run(reports_travel, small(usual.epsilon), member="codec")
    run(parts_add_up, usual, member="fold")
    for population in (False, True):
        run(partial(errors_are_as_stated, population=population, n=PEOPLE), usual, member="estimate")
    quiet = make(Schema(keys=len(EXTREME[0])), LITTLE_NOISE)
    if _gives_products(quiet):
        for population in (False, True):
            run(partial(joint_errors_are_as_stated, population=population), quiet, member="estimate")
    for capability, check in CAPABILITY_CHECKS.items():
        claimed = [form for form in _forms(usual) if can(form, capability) is not None]
        if claimed:
            run(check, *claimed, member=_first_method(capability))
    return CheckedContract(usual.name, usual.options, tuple(runs))


def _described(check: Check) -> tuple[str, str]:
    """The name of a check and the promise that it is about, for people."""
    function, given = (check.func, check.keywords) if isinstance(check, partial) else (check, {})
    name = function.__name__.replace("_", " ") + (" of a sample" if given.get("population") else "")
    return name, (function.__doc__ or "").partition("\n")[0].rstrip(".")


def _maker(given: str | Mechanism | Make, options: dict[str, Any]) -> Make:
    """A function of schema and epsilon, whatever was given."""
    if isinstance(given, Mechanism):
        return partial(_resized, replace(given, **options))
    if isinstance(given, str):
        return lambda schema, epsilon: registry.create(given, schema, epsilon, **options)
    if isinstance(given, type):
        check_members(given)
        kind: Any = given
        options = fitted(kind.name, kind, options)
    return lambda schema, epsilon: _made(given, schema, epsilon, options)


def _made(make: Callable[..., Any], schema: Schema, epsilon: Fraction, options: dict[str, Any]) -> Mechanism:
    title = getattr(make, "__name__", repr(make))
    try:
        made = make(schema, epsilon, **options)
    except KeyveilError:
        raise
    except Exception as reason:  # other people's code may fail in any way
        raise ContractError(
            "contract/__init__", f"{title} cannot be made ({type(reason).__name__}: {reason})."
        ) from reason
    if not isinstance(made, Mechanism):
        raise ContractError("contract/class", f"{title} makes a {type(made).__name__}, which is no Mechanism.")
    return made


def _resized(mechanism: Mechanism, schema: Schema, epsilon: Fraction) -> Mechanism:
    """The same mechanism for another schema; a cap on pairs never exceeds the keys."""
    capped = (
        {"max_pairs": min(cap(mechanism), schema.d)} if "max_pairs" in {one.name for one in fields(mechanism)} else {}
    )
    return replace(mechanism, schema=schema, epsilon=epsilon, **capped)


def _reduced(make: Make, keys: int, epsilon: Fraction) -> Mechanism:
    return make(Schema(keys=keys), epsilon).reduced()


def _forms(usual: Mechanism) -> list[Mechanism]:
    """The mechanism, and in the forms that tell different things, as far as the schema allows them."""
    kind, found = type(usual), [usual]
    for example in usual.examples:
        with suppress(KeyveilError):
            found.append(construct(usual.name, kind, usual.schema, usual.epsilon, example))
    return list(dict.fromkeys(found))


def _first_method(capability: type) -> str:
    return next(name for name in vars(capability) if not name.startswith("_"))


def _gives_products(mechanism: Mechanism) -> bool:
    """Whether estimates of f·m come with a covariance, for people of whom nobody is cut by the cap."""
    nothing = Tally.empty(mechanism.fingerprint, mechanism.tally_shape)
    return cap(mechanism) > 1 and mechanism.estimate(nothing).covariance is not None
