"""The how-to pages are true: their code runs as it stands, and their commands end well."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from keyveil.cli.app import run
from keyveil.mechanisms import registry
from tests.entry_points import offer

PAGE = Path(__file__).parents[1] / "docs" / "how-to-add-a-mechanism.md"


def blocks(language: str) -> list[str]:
    """The fenced blocks of the page in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path that holds the first block of the page as ``shrug.py``; afterwards nothing is left of it."""
    (tmp_path / "shrug.py").write_text(blocks("python")[0], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    registry.forget_entry_points()
    yield tmp_path
    sys.modules.pop("shrug", None)
    registry.forget_entry_points()


def test_the_code_of_the_page_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    try:
        for block in blocks("python")[1:]:
            exec(compile(block, PAGE.name, "exec"), names)
    finally:
        registry.unregister("shrug")
    told = capsys.readouterr().out
    assert "True" in told  # certified
    assert "\nkvue\n" in told  # the best of the comparison
    assert "shrug keeps the contract" in told
    for inherited in ("support rates", "dependence", "predictions", "tallies"):  # from the family
        assert f"\n  {inherited} " in told


def test_the_mechanism_is_of_some_twenty_lines() -> None:
    written = blocks("python")[0].partition("@dataclass")[2]
    assert len([line for line in written.splitlines() if line.strip()]) <= 20


def test_its_package_makes_the_name_known_to_every_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads(blocks("toml")[0])["project"]
    offer(folder, project["name"], project["entry-points"]["keyveil.mechanisms"])
    importlib.invalidate_caches()
    commands = [line.removeprefix("$ keyveil ") for line in blocks("console")[0].splitlines()]
    assert {command.split()[0] for command in commands} == {"certify", "audit", "simulate", "compare"}
    for command in commands:
        assert run(shlex.split(command)) == 0, capsys.readouterr().err
        assert "shrug" in capsys.readouterr().out
