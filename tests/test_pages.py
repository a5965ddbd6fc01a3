"""Pages and docstrings name files that are there, and prose is wrapped so that a diff of it can be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/mechanisms/*.md")])
SOURCES = sorted(ROOT.glob("src/**/*.py"))
FILES = [
    path.relative_to(ROOT).as_posix() for room in ("src", "tests", "tools") for path in (ROOT / room).rglob("*.py")
]
ELSEWHERE = {"shrug.py", "docs/mutants.md", "docs/honesty.md"}  # the reader's own module, and pages that runs write
GENERATED = {
    "comparison.md",
    "equal-decoders.md",
    "fairness.md",
    "gains.md",
    "what-can-be-asked.md",
    "soak.md",
    "mutants.md",
    "lines.md",
}
WIDTH = 120


def missing(text: str) -> list[str]:
    """The files that a text names and that are not there: modules by the end of their path, pages by their path."""
    modules = re.findall(r"`([\w./-]+\.py)`", text)
    lost = [name for name in modules if not any(file == name or file.endswith(f"/{name}") for file in FILES)]
    pages = re.findall(r"\bdocs/[\w/-]+\.md", text)
    return sorted({*lost, *(page for page in pages if not (ROOT / page).is_file())} - ELSEWHERE)


@pytest.mark.parametrize("path", [*PAGES, *SOURCES], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_file_that_is_named_is_there(path: Path) -> None:
    assert missing(path.read_text()) == []


def test_a_file_that_is_not_there_is_found() -> None:
    assert missing("`core/estimates.py`, `core/codes.py`, docs/theory.md, docs/nothing.md") == [
        "core/codes.py",
        "docs/nothing.md",
    ]


@pytest.mark.parametrize(
    "page", ["quickstart", "consistency", "queries", "simulate", "conditionals", "distributions", "plan"]
)
def test_the_examples_of_a_page_run_one_after_the_other(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    """README's example runs in tests/test_wheel.py, those of protocols in tests/protocols, the how-to's in its own."""
    text, names = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8"), dict[str, object]()
    examples = re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    assert examples
    for example in examples:
        exec(example, names)


@pytest.mark.parametrize("path", [one for one in PAGES if one.name not in GENERATED], ids=lambda path: path.name)
def test_prose_is_wrapped(path: Path) -> None:
    """Tables, formulas that stand alone and what programs print are as wide as they are."""
    prose = re.sub(r"^```.*?^```|^\$\$.*?\$\$|^\|.*?$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert [line for line in prose.splitlines() if len(line) > WIDTH] == []
