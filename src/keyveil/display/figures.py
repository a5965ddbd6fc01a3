"""Pictures as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_COLOURS = 96  # of a picture on a page


def write_picture(figure: Figure, path: Path) -> None:
    """Write a picture in the format that the name of the file asks for, or nothing; pyplot forgets it then."""
    from matplotlib import pyplot

    beside = path.with_name(f".part.{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(beside, dpi=150, bbox_inches="tight")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
        pyplot.close(figure)


def copy_smaller(picture: Path, path: Path) -> None:
    """A PNG again, in a palette of its own: a third of the bytes, and no difference that one sees."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(picture) as opened:
        opened.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
