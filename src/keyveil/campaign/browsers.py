"""What devices in browsers can answer: the mechanisms of clients/javascript, which tests hold to this list."""

from __future__ import annotations

MECHANISMS = ("apart", "block", "kvue", "pckv-grr", "pckv-ue", "ssr", "topsel", "wheel", "wsr")
COMBINING = ("pilot", "split")  # these of others


def answered_in_browsers(name: str) -> bool:
    """Whether the client for browsers has a program of this name."""
    return name in MECHANISMS or name in COMBINING
