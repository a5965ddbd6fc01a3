"""Every mechanism and protocol in one form, so that studies compare like with like."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import KeyveilError
from keyveil.core.schema import Schema
from keyveil.lab.public_options import collected_for
from keyveil.mechanisms.base import Mechanism
from keyveil.protocols.base import Protocol


def with_cap(name: str, schema: Schema, epsilon: str, sizes: NDArray[np.int64], cap: int) -> Mechanism | Protocol:
    """A mechanism or protocol with this cap where it takes one, and without an overflow group."""
    tried: tuple[dict[str, Any], ...] = ({"max_pairs": cap, "overflow": "off"}, {"max_pairs": cap}, {})
    for options in tried:
        try:
            return collected_for(name, schema, epsilon, sizes, options)[0]
        except KeyveilError as reason:
            last = reason
    raise last
