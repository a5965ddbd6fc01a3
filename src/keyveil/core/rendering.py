"""A table from names such as ``estimates.plot`` to functions of rooms above this one, which show or read results.

``keyveil/__init__.py`` fills the table when the package is imported. Nothing is loaded before it is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, cast

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WHERE: dict[str, str] = {}


def offer(looks: Mapping[str, str]) -> None:
    """Add to the table: names such as ``estimates.plot`` with ``module:function``."""
    _WHERE.update(looks)


def look(name: str) -> Any:
    """The function behind a name; its module is loaded now."""
    module, function = _WHERE[name].split(":")
    return getattr(import_module(module), function)


class Shown:
    """A result that notebooks show: ``_repr_html_`` and ``plot`` come from the table, under the names of ``shown_as``.

    The HTML has no scripts, loads nothing, and holds every text of other people escaped.
    """

    shown_as: ClassVar[str]

    def _repr_html_(self) -> str:
        return str(look(f"{self.shown_as}.html")(self))

    def plot(self, **options: Any) -> Figure:
        """A picture of the result; ``display.results`` says of each kind what it shows."""
        return cast("Figure", look(f"{self.shown_as}.plot")(self, **options))
