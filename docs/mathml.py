"""Formulas as MathML, which browsers draw by themselves: no script, no font and no service of others is needed.

Docutils, which Sphinx brings, translates TeX. It takes ``12`` in ``\\frac12`` for one number, where TeX takes two
arguments, and does not know ``\\big`` and ``\\dots``; ``plain`` writes these in the way that both understand.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

_FRACTION = r"\\([dt]?(?:frac|binom))"


def plain(tex: str) -> str:
    """The same formula with braces around arguments of one digit, and without commands that are not translated."""
    tex = re.sub(rf"{_FRACTION}\s*(\d)", r"\\\1{\2}", tex)
    tex = re.sub(rf"{_FRACTION}(\s*[a-zA-Z]|\{{[^{{}}]*\}})\s*(\d)", r"\\\1\2{\3}", tex)
    tex = re.sub(r"([\^_])(\d)(?=\d)", r"\1{\2}", tex)
    tex = re.sub(r"\\([bB]igg?)(?![a-zA-Z])", r"\\\1l", tex)
    return re.sub(r"\\dots(?![a-zA-Z])", r"\\ldots", tex)


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(tex2mathml(plain(node.astext())))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(writer.starttag(node, "div", CLASS="math"))
    writer.body.append(tex2mathml(plain(node.astext()), as_block=True))
    writer.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer that ``html_math_renderer = "mathml"`` names."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
