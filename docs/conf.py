"""Sphinx: Markdown pages with mathematics; the version is the one in pyproject.toml."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

_here = Path(__file__).parent
sys.path[:0] = [str(_here), str(_here.parent), str(_here.parent / "src")]
_project = tomllib.loads((_here.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "Keyveil"
author = "Keyveil contributors"
copyright = author
release = version = _project["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "mathml", "generated"]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_update_mathjax = False  # formulas are MathML
html_math_renderer = "mathml"
exclude_patterns = ["_build"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True

html_static_path = ["_static"]
html_theme = "furo"
html_title = f"Keyveil {release}"
