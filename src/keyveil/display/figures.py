"""Pictures as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_picture(figure: Figure, path: Path) -> None:
    """Write a picture in the format that the name of the file asks for; pyplot forgets it then."""
    from matplotlib import pyplot

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150, bbox_inches="tight")
    finally:
        pyplot.close(figure)
