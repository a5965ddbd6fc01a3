"""The command line that runs, for the pages that it writes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from contextvars import ContextVar

_SECRETS = re.compile(r"(?<=://).*@|(?<=\?).*", re.DOTALL)  # of an address: who asks with which password, and options

_words: ContextVar[tuple[str, ...]] = ContextVar("words of the command line", default=())


def remember(arguments: Sequence[str]) -> None:
    """Note the words after ``keyveil``."""
    _words.set(tuple(arguments))


def command() -> str:
    """The whole line, as it can be typed again, for a page that anybody may be sent."""
    return shlex.join(["keyveil", *map(shareable, _words.get())])


def shareable(word: str) -> str:
    """A word without the password of an address."""
    return _SECRETS.sub("…", word) if "://" in word else word
