"""Every command of README and documentation is run, or has a reason why not; the parser takes all of them."""

from __future__ import annotations

import importlib.util
import re
import shlex
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import typer.main

from keyveil.cli.app import app
from tests.documented_pages import Reader, blocks_of, fresh_folder, lines_of, moved
from tests.followed_pages import ELSEWHERE, FOLLOWED, Follow
from tools.example_data import text

ROOT = Path(__file__).parents[1]
PARSER: Any = typer.main.get_command(app)
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("docs/mechanisms/*.md"))]


def commands(page: Path) -> list[str]:
    """The commands of a page's console blocks, without what follows a # or is put into the background."""
    blocks = re.findall(r"^```console\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    shown = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [part.strip() for line in shown for part in re.split(r" && ", re.sub(r"\s+#.*$|\s*&$", "", line))]


def of_keyveil(page: Path) -> list[list[str]]:
    """The words after keyveil of each of them, without variables before it."""
    found = [shlex.split(re.sub(r"^(?:[A-Z_]+=\S+ )+", "", line)) for line in commands(page) if "…" not in line]
    return [words[1:] for words in found if words and words[0] == "keyveil"]


EVERY = [(page, words) for page in PAGES for words in of_keyveil(page)]


def parsed(words: list[str]) -> None:
    """Hold a command against the parser without running it: its name and its options must be there."""
    command = PARSER
    while hasattr(command, "commands"):
        found = command.get_command(None, words[0]) if words else None
        assert found is not None, words
        command, words = found, words[1:]
    named = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    given = {word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)}
    assert given <= named | {"--help"}, given - named


def test_there_are_commands_to_look_at() -> None:
    assert len(EVERY) > 60 and {page.name for page, _ in EVERY} >= {"README.md", "campaigns.md", "tutorial.md"}


def _called(one: Any) -> str:
    return one.name if isinstance(one, Path) else "-".join(one[:2])


@pytest.mark.parametrize(("page", "words"), EVERY, ids=_called)
def test_the_parser_takes_every_command(page: Path, words: list[str]) -> None:
    parsed(words)


def test_a_wrong_option_is_found() -> None:
    with pytest.raises(AssertionError):
        parsed(["plan", "--people", "9", "--wishes", "3"])
    with pytest.raises(AssertionError):
        parsed(["campaign", "watched"])


def test_the_example_file_is_what_its_tool_writes() -> None:
    assert (ROOT / "examples" / "ratings.csv").read_text() == text()


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Reader:
    return Reader(fresh_folder(tmp_path, monkeypatch), capsys, monkeypatch)


def test_every_command_is_run_or_its_reason_is_given() -> None:
    """And no reason is given for a command that is no longer there."""
    for page in PAGES:
        name = str(page.relative_to(ROOT))
        shown = [line for kind, block in blocks_of(page) if kind == "console" for line in lines_of(block)]
        if name in ELSEWHERE:
            assert shown, name
            continue
        assert not shown or name in FOLLOWED, f"{name} has commands, and nobody follows it."
        for beginning in FOLLOWED.get(name, Follow()).skipped:
            assert any(line.startswith(beginning) for line in shown), (name, beginning)
    assert set(ELSEWHERE) | set(FOLLOWED) <= {str(page.relative_to(ROOT)) for page in PAGES}


def test_what_the_quickstart_leaves_to_readme_is_there() -> None:
    readme, left = of_keyveil(ROOT / "README.md"), of_keyveil(ROOT / "docs/quickstart.md")
    plain = [
        shlex.split(shlex.join(words).replace(" --seconds 5", "")) for words in left
    ]  # an audit runs a minute there
    assert len(plain) == 6 and [words for words in plain if words not in readme] == []


def test_modules_that_commands_name_are_there() -> None:
    """Of the commands that take hours, at least this; those of keyveil are held against the parser above."""
    named = [found for page in PAGES for line in commands(page) for found in re.findall(r"python -m (\S+)", line)]
    assert len(named) > 8 and all(importlib.util.find_spec(one) for one in named if one != "venv")


def test_dates_move_with_the_calendar() -> None:
    assert moved("--closes 2026-12-31", date(2026, 11, 18)) == "--closes 2026-12-31"
    assert moved("--closes 2026-12-31", date(2027, 11, 18)) == "--closes 2027-12-31"
    assert moved("--closes 2026-12-31", date(2025, 1, 1)) == "--closes 2026-12-31"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.soak if one.soak else ()) for name, one in FOLLOWED.items()]
)
def test_a_page_can_be_followed(name: str, reader: Reader) -> None:
    """Its commands in their order, in one folder; its Python blocks where they stand."""
    follow, page = FOLLOWED[name], ROOT / name
    reader.skipped, reader.refused, reader.after = follow.skipped, follow.refused, follow.after
    reader.smaller = follow.smaller
    if follow.served:
        reader.serve()
    follow.before(reader)
    shown = [line for kind, block in blocks_of(page) if kind == "console" for line in lines_of(block)]
    left = [line for line in shown if any(line.startswith(one) for one in follow.skipped)]
    assert reader.follow(page, follow.python) == len(shown) - len(left)
