"""What a mechanism's channel says about supports, read off for post-processing and queries."""

from __future__ import annotations

from keyveil.core.errors import MechanismError
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.responses import Response


def support_rates(mechanism: Mechanism) -> tuple[float, float]:
    """How often a report supports a key for its holders and for others: the p and q of a frequency oracle."""
    response = getattr(mechanism, "response", None)
    if not isinstance(response, Response) or any(
        one.square != one.support for one in (response.holder, response.stranger)
    ):
        raise MechanismError(
            "postprocess/constants", f"{mechanism.name} counts more than yes and no for a key; use norm-sub instead."
        )
    return float(response.holder.support), float(response.stranger.support)
