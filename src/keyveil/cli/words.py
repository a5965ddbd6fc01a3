"""The command line that runs, for the pages that it writes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextvars import ContextVar

_words: ContextVar[tuple[str, ...]] = ContextVar("words of the command line", default=())


def remember(arguments: Sequence[str]) -> None:
    """Note the words after ``keyveil``."""
    _words.set(tuple(arguments))


def command() -> str:
    """The whole line, as it can be typed again."""
    return shlex.join(["keyveil", *_words.get()])
