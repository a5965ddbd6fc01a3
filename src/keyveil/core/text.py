"""Text that other people wrote, and numbers in words."""

from __future__ import annotations


def plain(text: str) -> str:
    """Text from elsewhere, safe for a terminal: without control characters, and so without escape sequences."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def many(count: int, one: str, several: str = "") -> str:
    """A number of things in words: 1 report, 2,000 reports."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"
