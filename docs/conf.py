"""Sphinx: Markdown pages with mathematics; the version is the one in pyproject.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

_project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "Keyveil"
author = "Keyveil contributors"
copyright = author
release = version = _project["version"]

extensions = ["myst_parser"]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"Keyveil {release}"
