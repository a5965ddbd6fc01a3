"""Pages and docstrings name files that are there, and prose is wrapped so that a diff of it can be read."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import keyveil.device
from keyveil.cli.app import run
from keyveil.cli.connection import reach

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/mechanisms/*.md")])
SOURCES = sorted(ROOT.glob("src/**/*.py"))
FILES = [
    path.relative_to(ROOT).as_posix() for room in ("src", "tests", "tools") for path in (ROOT / room).rglob("*.py")
]
ELSEWHERE = {"shrug.py", "mine.py", "docs/mutants.md", "docs/honesty.md"}  # the reader's own modules; pages of runs
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


RUN_HERE = {
    *("quickstart", "consistency", "queries", "simulate", "conditionals", "distributions", "plan", "theory"),
    *("mechanisms/split", "mechanisms/views", "what-epsilon-promises", "reading-intervals", "unknown-keys"),
    "write-a-client",
}
ELSEWHERE_RUN = {  # page: where its Python runs
    "../README": "tests/test_wheel.py",
    "audit": "below, with a module of the reader's",
    "campaigns": "below, with a collector",
    "device": "below, with a collector",
    "engines": "tests/engines/test_others.py",
    "how-to-add-a-mechanism": "tests/test_how_to.py",
    "protocols": "tests/protocols",
    "record": "tests/cli/test_record.py",
    "telemetry": "tests/browser/test_tutorial.py",
    **dict.fromkeys(("tutorial", "choose-epsilon", "recurring"), "tests/test_documented_commands.py"),
}


def examples(page: str) -> list[str]:
    """The Python blocks of a page."""
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def test_python_of_every_page_is_run_somewhere() -> None:
    pages = [path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in ROOT.glob("docs/**/*.md")]
    assert {page for page in [*pages, "../README"] if examples(page)} == RUN_HERE | set(ELSEWHERE_RUN)


@pytest.mark.parametrize("page", sorted(RUN_HERE))
def test_the_examples_of_a_page_run_one_after_the_other(
    page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    for example in examples(page):
        exec(example, names)


def test_the_examples_about_audits_find_the_leak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, found = examples("audit")
    (tmp_path / "survey.py").write_text(module, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, Any] = {}
    exec(found.replace("seconds=5", "draws=2000"), names)  # silence tells who has no fries, whatever the draws
    sys.modules.pop("survey")
    assert names["found"].violated


@pytest.mark.parametrize("page", ["device", "campaigns"])
def test_the_examples_about_devices_report(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transport leads to a collector in this process; three people of each kind instead of five hundred."""
    monkeypatch.chdir(tmp_path)
    where = ["--database", str(tmp_path / "keyveil.db")]
    words = ["--purpose", "Which snacks people buy.", "--keys", "burger,fries,pepsi", "--low", "1", "--high", "5"]
    words += ["--mechanism", "ssr", "--epsilon", "1.5", "--max-pairs", "2"]
    assert run(["campaign", "create", "--name", "snack-survey", *words, *where]) == 0
    assert run(["campaign", "open", "snack-survey", *where]) == 0
    with reach(None, where[1], None) as collector:
        monkeypatch.setattr(keyveil.device, "HttpTransport", lambda address: collector.transport)
        names: dict[str, Any] = {}
        for example in examples(page):
            exec(example.replace("* 500", "* 3"), names)
        assert names["outcome"].state == "sent"
        assert collector.ask("GET", "/v1/campaigns/snack-survey/status")["reports"] == (1 if page == "device" else 12)


@pytest.mark.parametrize("path", [one for one in PAGES if one.name not in GENERATED], ids=lambda path: path.name)
def test_prose_is_wrapped(path: Path) -> None:
    """Tables, formulas that stand alone and what programs print are as wide as they are."""
    prose = re.sub(r"^```.*?^```|^\$\$.*?\$\$|^\|.*?$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert [line for line in prose.splitlines() if len(line) > WIDTH] == []
