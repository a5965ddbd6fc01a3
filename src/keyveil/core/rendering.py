"""How results look is decided in rooms above this one; a result only knows the name of the look that it wants.

``keyveil/__init__.py`` fills the table when the package is imported. Nothing is loaded before it is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

_WHERE: dict[str, str] = {}


def offer(looks: Mapping[str, str]) -> None:
    """Say where looks come from: names such as ``estimates.plot`` with ``module:function``."""
    _WHERE.update(looks)


def look(name: str) -> Any:
    """The function behind a name; its module is loaded now."""
    module, function = _WHERE[name].split(":")
    return getattr(import_module(module), function)
