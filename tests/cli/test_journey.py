"""Help in the order of the journey, completion for the shell, and words while something takes long."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from typing import Any, ClassVar

import pytest
import typer.main

from keyveil.cli import data
from keyveil.cli.app import app, run
from keyveil.cli.journey import FromDraftToArchive, FromPlanToAnswer, Journey
from keyveil.cli.terminal import Terminal

Output = pytest.CaptureFixture[str]


def group(*path: str) -> Any:
    found: Any = typer.main.get_command(app)
    for name in path:
        found = found.get_command(None, name)
    return found


@pytest.mark.parametrize(("path", "kind"), [((), FromPlanToAnswer), (("campaign",), FromDraftToArchive)])
def test_every_command_stands_under_one_heading(path: tuple[str, ...], kind: type[Journey]) -> None:
    named = [name for names in kind.headings.values() for name in names]
    assert sorted(named) == sorted(group(*path).list_commands(None))


def test_help_goes_from_the_plan_to_the_answer_and_cuts_no_sentence(capsys: Output) -> None:
    assert run(["--help"]) == 0
    told = capsys.readouterr().out
    order = [told.index(f"\n  {name} ") for name in ("plan", "campaign", "serve", "report", "estimate", "certify")]
    assert order == sorted(order)
    assert "..." not in told.partition("Options:")[2] and "\nOther:" not in told


def test_a_command_without_a_heading_is_not_lost() -> None:
    class Short(Journey):
        headings: ClassVar[dict[str, tuple[str, ...]]] = {"First": ("plan",)}
        places: ClassVar[dict[str, str]] = {"demo": "keyveil.cli.demo:demo", "plan": "keyveil.cli.plan:plan"}

    assert Short(name="short").list_commands(None) == ["plan", "demo"]


def test_the_shell_completes_commands_and_mechanisms() -> None:
    asked = {"_KEYVEIL_COMPLETE": "complete_bash", "COMP_WORDS": "keyveil certify --mechanism pckv", "COMP_CWORD": "3"}
    done = subprocess.run(
        [sys.executable, "-m", "keyveil"], env={**os.environ, **asked}, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split() == ["pckv-ue", "pckv-grr"], done.stderr


def test_what_takes_long_is_said_on_a_terminal_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    page = io.StringIO()
    monkeypatch.setattr(data, "Terminal", lambda **_: Terminal(file=page, force_terminal=True, width=80))
    with data.working("Quick work"):
        pass
    assert "Quick work" not in page.getvalue()
    monkeypatch.setattr(data, "LONG", 0.01)
    with data.working("Slow work"):
        time.sleep(0.3)
    assert "Slow work" in page.getvalue()


def test_nothing_is_said_where_nobody_looks(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.setattr(data, "LONG", 0.0)
    with data.working("Slow work"):
        time.sleep(0.05)
    assert capsys.readouterr() == ("", "")
