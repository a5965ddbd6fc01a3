"""What the documentation is built with: formulas as MathML, docstrings as they stand, and figures that are computed."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import keyveil
from keyveil.planning import alternatives
from keyveil.planning.alternatives import central, local_epsilon, two_servers
from tools import pictures

FORMULA = r"\$\$(.*?)\$\$|(?<![\\$\d])\$([^$\s](?:[^$\n]|\n(?!\n))*?)\$"
DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def extensions() -> tuple[Any, Any]:
    """The two modules that Sphinx loads from the folder of the pages."""
    sys.path.insert(0, str(DOCS))
    try:
        import generated  # type: ignore[import-not-found]
        import mathml  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(DOCS))
    return mathml, generated


def without_spaces(text: str) -> str:
    return re.sub(r"\s+|<math[^>]*>|</math>", "", text)


@pytest.mark.parametrize(
    ("tex", "shown"),
    [
        (r"\frac12x", "<mfrac><mn>1</mn><mn>2</mn></mfrac><mi>x</mi>"),
        (r"\tfrac a2", '<mfracdisplaystyle="false"scriptlevel="0"><mi>a</mi><mn>2</mn></mfrac>'),
        (r"x^12", "<msup><mi>x</mi><mn>1</mn></msup><mn>2</mn>"),
        (r"\{u\}", '<mostretchy="false">{</mo><mi>u</mi><mostretchy="false">}</mo>'),
        (r"\left\{u\right\}", "<mrow><mo>{</mo><mi>u</mi><mo>}</mo></mrow>"),
        (r"1\dots d", "<mn>1</mn><mi>…</mi><mi>d</mi>"),
    ],
)
def test_formulas_mean_what_tex_means(extensions: tuple[Any, Any], tex: str, shown: str) -> None:
    assert without_spaces(extensions[0].mathml(tex)) == shown


def test_every_formula_of_every_page_is_translated(extensions: tuple[Any, Any]) -> None:
    found = 0
    for page in DOCS.glob("**/*.md"):
        text = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for block, inline in re.findall(FORMULA, text, re.DOTALL):
            assert "<math" in extensions[0].mathml(block or inline, block=bool(block))
            found += 1
    assert found > 1000


def test_parts_of_docstrings_are_shown_as_they_stand(extensions: tuple[Any, Any]) -> None:
    lines = ["What it does.", "", "Parameters", "    users   how many", "            report", "", "Returns a plan."]
    extensions[1]._laid_out(None, "function", "plan", None, None, lines)
    assert lines[2:4] == ["Parameters::", ""] and lines[4] == "    users   how many"
    assert lines[-1] == "Returns a plan."


def test_other_ways_err_as_their_formulas_say() -> None:
    assert central(10_000) == pytest.approx(2**0.5 * 20 / 10_000)  # Laplace noise of scale 4 · 5 / 1
    assert two_servers(10_000) == pytest.approx(2 * 20 / 10_000)
    assert 1 < local_epsilon(1000) < local_epsilon(100_000)  # a larger crowd hides more


def test_the_page_on_other_ways_has_the_figures_that_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two columns of five, and to a tenth: a planner that becomes better changes its row a little."""
    written = (DOCS / "when-not-to-use.md").read_text().split(alternatives.BEGIN)[1].split(alternatives.END)[0]
    rows = {cells[1].strip(): cells[2:] for line in written.splitlines() if (cells := line.split("|"))[1:]}
    for name, way in alternatives.WAYS.items():
        for at in (1, 2):
            shown = rows[name][at].strip()
            assert float(shown) == pytest.approx(way(alternatives.PEOPLE[at]), rel=0.1)
    monkeypatch.setattr(alternatives, "WAYS", {"one": central})
    page = alternatives.written(f"a {alternatives.BEGIN}x{alternatives.END} b")
    assert page.startswith(f"a {alternatives.BEGIN}\n\n| who") and page.endswith(f"\n\n{alternatives.END} b")


def test_the_citation_is_what_version_1_2_of_its_format_asks_for() -> None:
    cited = yaml.safe_load((DOCS.parent / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["cff-version"] == "1.2.0" and cited["type"] == "software"
    assert all(cited[needed] for needed in ("message", "title", "authors"))
    assert cited["version"] == keyveil.__version__ and cited["license"] == "MIT"
    people = [*cited["authors"], *(one for work in cited["references"] for one in work["authors"])]
    assert all(set(one) == {"name"} or set(one) == {"family-names", "given-names"} for one in people)
    assert all(work["type"] in ("article", "conference-paper") and work["title"] for work in cited["references"])
    assert {work["year"] for work in cited["references"]} >= {2019, 2020, 2022, 2023}  # of the five papers


def test_every_picture_that_a_command_draws_is_there_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    known = {*pictures.COMMANDS, *pictures.PHOTOGRAPHS}
    text = "".join(page.read_text() for page in DOCS.glob("**/*.md"))
    assert known - set(re.findall(r"\]\(pictures/([\w-]+)\.png\)", text)) == set()
    assert known - {path.stem for path in (DOCS / "pictures").glob("*.png")} == set()
    assert pictures.main(["of-nothing"]) == 2
    assert pictures.main([]) == 0
    assert {line.partition(":")[0] for line in capsys.readouterr().out.splitlines()} == known
