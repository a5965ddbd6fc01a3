"""The mechanism behind estimates: given by hand, or made again from what the estimates say of themselves."""

from __future__ import annotations

from keyveil.core.canonical import canonical
from keyveil.core.errors import KeyveilError, MechanismError
from keyveil.core.estimates import Estimates
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import from_header


def source(estimates: Estimates, mechanism: Mechanism | None = None) -> Mechanism | None:
    """The mechanism that made these estimates.

    ``mechanism`` is needed only for somebody else's, which the registry does not know; one that the estimates do not
    come from is refused. None for estimates of protocols, and where the header lacks the options.
    """
    if mechanism is not None:
        _refuse_other(estimates, mechanism)
        return mechanism
    try:
        return from_header(estimates.header)
    except KeyveilError:
        return None


def _refuse_other(estimates: Estimates, mechanism: Mechanism) -> None:
    """Estimates without options, as written by hand, are taken as those of any options."""
    header = estimates.header
    same = (mechanism.name, mechanism.schema, mechanism.epsilon) == (header.mechanism, header.schema, header.epsilon)
    if header.options:
        mine, others = (
            canonical({name: value for name, value in options.items() if name not in mechanism.readings})
            for options in (header.options, mechanism.options)
        )
        same = same and mine == others
    if not same:
        raise MechanismError(
            "postprocess/mechanism",
            f"The estimates come from another mechanism, schema, ε or options than this {mechanism.name}.",
        )
