"""Text that other people wrote."""

from __future__ import annotations


def plain(text: str) -> str:
    """Text from elsewhere, safe for a terminal: without control characters, and so without escape sequences."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
