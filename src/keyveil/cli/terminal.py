"""The terminal that every command writes to: text of other people is shown, and never taken for commands.

Names of keys, campaigns and files come from other people. Rich takes [brackets] in a text for its markup and :names:
for pictures, in cells and titles as well; terminals obey control characters. Here all of them are only text.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from keyveil.core.text import plain


class Terminal(Console):
    """A console for which every string is plain text; style comes from ``Text`` and ``Table`` alone."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(harmless(text), **{**options, "markup": False, "emoji": False})


def harmless(text: str) -> str:
    """Text of several lines without other control characters."""
    return "\n".join(map(plain, text.split("\n")))
