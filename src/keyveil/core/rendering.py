"""A table from names such as ``estimates.plot`` to functions of rooms above this one, which show or read results.

``keyveil/__init__.py`` fills the table when the package is imported. Nothing is loaded before it is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

_WHERE: dict[str, str] = {}


def offer(looks: Mapping[str, str]) -> None:
    """Add to the table: names such as ``estimates.plot`` with ``module:function``."""
    _WHERE.update(looks)


def look(name: str) -> Any:
    """The function behind a name; its module is loaded now."""
    module, function = _WHERE[name].split(":")
    return getattr(import_module(module), function)
