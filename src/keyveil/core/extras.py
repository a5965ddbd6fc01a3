"""What to say where a part of Keyveil is used that is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from keyveil.core.errors import MissingExtra


@contextmanager
def extra(name: str, what: str) -> Iterator[None]:
    """Around imports: if a package is missing, one sentence says what needs it and which extra brings it.

    ``what`` is the subject of the sentence, in the plural: "Plots", "Frames".
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package in ("", "keyveil"):  # a mistake of our own, which no installation mends
            raise
        raise MissingExtra(f"install/{name}", f"{what} need {package}: pip install 'keyveil[{name}]'.") from missing
