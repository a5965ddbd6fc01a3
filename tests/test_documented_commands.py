"""The parser takes every command that README and the documentation show; those of the first pages are run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import typer.main

from keyveil.cli.app import app, run
from keyveil.cli.local_collector import running_collector
from tools.example_data import text

ROOT = Path(__file__).parents[1]
PARSER: Any = typer.main.get_command(app)
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("docs/mechanisms/*.md"))]
RUN = ["README.md", "docs/tutorial.md", "docs/quickstart.md", "docs/choose-epsilon.md", "docs/recurring.md"]
LONG = ("keyveil demo", "keyveil serve")  # they have tests of their own: cli/test_demo.py, collector/test_serving.py
SHORTER = {"audit": ["--seconds", "1"]}  # the command as it stands but for its length, which has tests of its own


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
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as a reader has it: the repository's examples, and nothing of the environment."""
    for name in [name for name in os.environ if name.startswith("KEYVEIL_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))  # where a device keeps its file
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


@pytest.mark.parametrize("name", RUN)
def test_the_commands_of_a_page_work_as_typed(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In their order, in one folder; Python blocks of the page run where they stand. ``serve`` is another process."""
    serves = any("keyveil serve" in line for line in commands(ROOT / name))
    with running_collector(folder / "served.db", folder / "collector.log") if serves else nullcontext() as served:
        if served is not None:
            monkeypatch.setenv("KEYVEIL_SERVER", served[0])
            monkeypatch.setenv("KEYVEIL_TOKEN", served[1])
        names: dict[str, object] = {}
        for kind, block in re.findall(_BLOCKS, (ROOT / name).read_text(), re.DOTALL | re.MULTILINE):
            if kind == "python" and name != "README.md":  # README's runs in tests/test_wheel.py
                exec(block, names)
            for words in _of_block(block) if kind == "console" else ():
                if not " ".join(["keyveil", *words]).startswith(LONG):
                    assert run([*words, *SHORTER.get(words[0], ())]) == 0, (words, capsys.readouterr().err)


_BLOCKS = r"^```(console|python)\n(.*?)^```$"


def _of_block(block: str) -> list[list[str]]:
    lines = block.replace("\\\n", " ").splitlines()
    shown = [re.sub(r"\s+#.*$", "", line.removeprefix("$ ")) for line in lines if line.startswith("$ keyveil")]
    return [shlex.split(part)[1:] for line in shown for part in line.split(" && ")]
