"""What a mechanism of others must pass before it stands in a table beside the others: contract, certificate, audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from keyveil.core.epsilon import decimal_text
from keyveil.core.errors import ContractError, KeyveilError, PrivacyError
from keyveil.core.schema import Schema
from keyveil.lab.public_options import made_for
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import is_protocol
from keyveil.privacy.audit import audit
from keyveil.testing.suite import check_mechanism

CODE = "compare/submit"
EPSILON, KEYS = Fraction(1), 3
SECONDS = 5.0  # of the audit
CONFIDENCE = 0.999  # one honest mechanism in a thousand is refused by chance


@dataclass(frozen=True)
class Admission:
    """What was found of a mechanism that is let in."""

    name: str
    exact_epsilon: str
    method: str
    lower_bound: float | None  # of the audit; protocols are not audited here
    checks: int  # of the contract; a protocol has none

    def __str__(self) -> str:
        attacked = "" if self.lower_bound is None else f", attacked: at least {self.lower_bound:.3f}"
        checks = f", {self.checks} checks of the contract" if self.checks else ""
        return f"{self.name}: ε = {self.exact_epsilon} proved ({self.method}){attacked}{checks}"


def admit(name: str, options: Mapping[str, Any]) -> Admission:
    """Hold a registered mechanism or protocol to what it promises; one sentence refuses what does not keep it."""
    made, _ = made_for(name, Schema(keys=KEYS), EPSILON, np.array([1]), options)
    certificate = made.certificate()
    if not certificate.certified:
        found = f"{certificate.exact_epsilon:.6g}"
        raise PrivacyError(CODE, f"{name} is not ranked: at ε = {decimal_text(EPSILON)} its certificate finds {found}.")
    bound, checks = None, 0
    if isinstance(made, Mechanism) and not is_protocol(name):
        try:
            checks = len(check_mechanism(name, **dict(options)).checks)
        except ContractError as reason:
            raise PrivacyError(CODE, f"{name} is not ranked: {reason.sentence} [{reason.code}]") from reason
        attacked = audit(made, confidence=CONFIDENCE, seconds=SECONDS)
        if attacked.violated:
            raise PrivacyError(
                CODE,
                f"{name} is not ranked: an audit finds ε of at least {attacked.lower_bound:.3g} where "
                f"{decimal_text(EPSILON)} is promised.",
            )
        bound = attacked.lower_bound
    return Admission(name, f"{certificate.exact_epsilon:.6g}", certificate.method, bound, checks)


def admit_all(names: Mapping[str, str], options: Mapping[str, Any]) -> list[Admission]:
    """Admit everybody; the first who does not pass ends it."""
    found = []
    for name in names:
        try:
            found.append(admit(name, options))
        except KeyveilError:
            raise
        except Exception as reason:  # other people's code may fail in any way
            told = f"{type(reason).__name__}: {reason}".splitlines()[0].rstrip(".")
            raise PrivacyError(CODE, f"{name} is not ranked: it fails ({told}).") from reason
    return found
