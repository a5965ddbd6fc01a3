"""What a mechanism says that its reports can tell, tried out: a check for each capability."""

from __future__ import annotations

from collections.abc import Callable

from keyveil.mechanisms.base import Mechanism

CAPABILITY_CHECKS: list[Callable[[Mechanism], None]] = []
"""Each takes a mechanism, does nothing if that does not claim the capability, and raises ContractError if it fails."""
