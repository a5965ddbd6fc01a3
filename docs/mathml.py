"""Formulas as MathML, which browsers draw by themselves: no script, no font and no service of others is needed.

Docutils, which Sphinx brings, translates TeX. It takes ``12`` in ``\\frac12`` for one number, where TeX takes two
arguments, and does not know ``\\big`` and ``\\dots``; ``plain`` writes these in the way that both understand.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

_BIG = r"\\[bB]igg?[lr]?\s*\\[{}]"  # braces of a given size
_FRACTION = r"\\([dt]?(?:frac|binom))"


def plain(tex: str) -> str:
    """The same formula with braces around arguments of one digit, and without commands that are not translated."""
    tex = re.sub(rf"{_FRACTION}\s*(\d)", r"\\\1{\2}", tex)
    tex = re.sub(rf"{_FRACTION}(\s*[a-zA-Z]|\{{[^{{}}]*\}})\s*(\d)", r"\\\1\2{\3}", tex)
    tex = re.sub(r"([\^_])(\d)(?=\d)", r"\1{\2}", tex)
    tex = re.sub(r"\\([bB]igg?)(?![a-zA-Z])", r"\\\1l", tex)
    return re.sub(r"\\dots(?![a-zA-Z])", r"\\ldots", tex)


def mathml(tex: str, block: bool = False) -> str:
    """A formula as MathML. Braces grow with what they hold only after ``\\left`` and ``\\right``, as in TeX."""
    tex = plain(tex)
    found = tex2mathml(tex, as_block=block)
    grows = iter([bool(grown) for grown in re.findall(r"(\\left|\\right)?\s*\\[{}]", re.sub(_BIG, "", tex))])
    return re.sub(
        r"<mo>([{}])</mo>", lambda one: one[0] if next(grows, True) else f'<mo stretchy="false">{one[1]}</mo>', found
    )


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(writer.starttag(node, "div", CLASS="math"))
    writer.body.append(mathml(node.astext(), block=True))
    writer.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer that ``html_math_renderer = "mathml"`` names."""
    app.add_css_file("formulas.css")
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
