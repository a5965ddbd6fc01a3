"""Writes pages of the reference that are made from the program, and hands docstrings to Sphinx as they stand."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from tools.reference import write


def _write(app: Any) -> None:
    logging.getLogger("alembic").setLevel(logging.WARNING)
    write(Path(app.srcdir) / "reference")


def _laid_out(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """A heading of one word above indented lines, such as "Examples": these lines are shown as they stand."""
    for at in range(len(lines) - 1, 0, -1):
        above, below = lines[at - 1], lines[at]
        if below.startswith("    ") and above.isalpha():
            lines[at - 1 : at] = [f"{above}::", ""]


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("builder-inited", _write)
    app.connect("autodoc-process-docstring", _laid_out)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
