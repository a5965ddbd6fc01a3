"""HTML and SVG from Python, escaped by itself: text is text unless it was made here.

tag("p", "Rated by ", tag("b", name), class_="note")
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

# Elements without an end; those of SVG would hold whatever follows if they were not closed.
_VOID = frozenset(("br", "hr", "img", "input", "link", "meta", "line", "rect", "circle", "path", "col"))


class Html(str):
    """Text that is HTML already; any other text is escaped when it becomes a part of some."""

    __slots__ = ()


Child: TypeAlias = "str | int | Iterable[Child] | None"
Attribute: TypeAlias = "str | int | float | bool | None"


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """An element with its children.

    An attribute that is ``False`` or ``None`` is left out, one that is ``True`` has no value. In names ``_`` stands for
    ``-``, and at the end for nothing (``class_``, ``for_``).
    """
    told = "".join(_attribute(one, value) for one, value in attributes.items())
    return Html(f"<{name}{told}/>" if name in _VOID else f"<{name}{told}>{_written(children)}</{name}>")


def together(*children: Child) -> Html:
    """Elements one after the other."""
    return Html(_written(children))


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    spelled = name.removesuffix("_").replace("_", "-")
    return f" {spelled}" if value is True else f' {spelled}="{escape(str(value))}"'


def _written(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, str | int):
        return child if isinstance(child, Html) else escape(str(child))
    return "".join(_written(one) for one in child)
