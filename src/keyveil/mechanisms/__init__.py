"""One round each: mechanisms, what they declare, and the registry of their names.

``kv.mechanisms()`` lists every name with what it tells. Python gives a subpackage and a function of the same name only
one place, so the package itself can be called.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, cast

from keyveil.core.rendering import look

if TYPE_CHECKING:
    from keyveil.protocols.catalogue import Description


class _Listed(ModuleType):
    """A package that can be called."""

    def __call__(self, *names: str) -> list[Description]:
        """Every mechanism and protocol, or those with these names, described."""
        return cast("list[Description]", look("mechanisms.catalogue")(*names))


sys.modules[__name__].__class__ = _Listed
