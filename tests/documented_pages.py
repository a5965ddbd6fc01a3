"""Pages of the documentation as somebody follows them: their commands in order, in one folder, against a collector.

Dates that a page names lie in its reader's future: they are moved by the days that have passed since it was written.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

import pytest

from keyveil.cli.app import run
from keyveil.cli.connection import Collector
from keyveil.cli.local_collector import running_collector
from keyveil.device import HttpTransport
from tests.collector import later_server
from tests.collector.processes import TWINS

ROOT = Path(__file__).parents[1]
WRITTEN = date(2026, 11, 18)
SHORTER = {"audit": ["--seconds", "1"]}  # the command as it stands but for its length, which has tests of its own
ADDRESS = re.compile(r"https://collector\.example(\.org)?\b|http://127\.0\.0\.1:8337\b")
SERVE = re.compile(r"^((?:[A-Z_]+=\S+ )*)keyveil serve\b")


def moved(text: str, today: date | None = None) -> str:
    """The text with its dates as far in the future as they were when it was written."""
    passed = (today or date.today()) - WRITTEN

    def later(found: re.Match[str]) -> str:
        return (date.fromisoformat(found[0]) + max(passed, timedelta())).isoformat()

    return re.sub(r"\b20\d\d-\d\d-\d\d\b", later, text)


def lines_of(block: str) -> list[str]:
    """The commands of a console block, with the remarks beside them."""
    return [line.removeprefix("$ ") for line in block.replace("\\\n", " ").splitlines() if line.startswith("$ ")]


def blocks_of(page: Path) -> list[tuple[str, str]]:
    """The console and Python blocks of a page, in order."""
    return re.findall(r"^```(console|python)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


class _Agreeing(io.StringIO):
    """A terminal at which somebody says yes."""

    def isatty(self) -> bool:
        return True


@dataclass
class Reader:
    """Somebody who follows a page: a folder, an environment, and a collector from where the page starts one."""

    folder: Path
    output: pytest.CaptureFixture[str]
    environment: pytest.MonkeyPatch
    skipped: Mapping[str, str] = field(default_factory=dict)  # beginnings of commands that are not run here, and why
    refused: tuple[str, ...] = ()  # beginnings of commands that end with status 2, as the page says
    after: Mapping[str, Callable[[Reader], None]] = field(default_factory=dict)  # what others do meanwhile
    smaller: Mapping[str, str] = field(default_factory=dict)  # numbers of people in Python blocks
    called: dict[str, str] = field(default_factory=dict)  # words that a page leaves to its reader, such as a hash
    _running: ExitStack = field(default_factory=ExitStack)
    _head: str = ""
    address: str = ""
    token: str = ""

    def serve(self) -> None:
        """A collector whose tokens this reader has, in the files in which pages keep them."""
        if self.address:
            return
        database, days = self.folder / "keyveil.db", self.folder / "days"
        days.touch()
        path = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
        environment = {**TWINS, later_server.DAYS: str(days), "PYTHONPATH": path}
        self.address, self.token = self._running.enter_context(
            running_collector(database, self.folder / "log", ("-m", later_server.__name__), **environment)
        )
        for file in ("secrets/admin", "keyveil-admin.token"):
            if (self.folder / file).parent.is_dir():
                (self.folder / file).write_text(self.token + "\n")
        self.environment.setenv("KEYVEIL_SERVER", self.address)
        self.environment.setenv("KEYVEIL_TOKEN", self.token)
        self.environment.setenv("KEYVEIL_DATABASE_URL", f"sqlite:///{database}")

    def wait(self, days: int) -> None:
        """Let days pass at the collector."""
        file = self.folder / "days"
        file.write_text(str(int(file.read_text() or 0) + days))

    def stop(self) -> None:
        self._running.close()
        self.address = ""

    def collector(self) -> Collector:
        return Collector(HttpTransport(self.address), self.token)

    def follow(self, page: Path, python: bool = True) -> int:
        """Run the page; gives how many of its commands were run."""
        names: dict[str, object] = {}
        done = 0
        with self._running:
            for kind, block in blocks_of(page):
                if kind == "python" and python:
                    exec(self._smaller(ADDRESS.sub(lambda _: self.address, block)), names)
                for line in lines_of(block) if kind == "console" else ():
                    done += self._do(line)
        return done

    def _smaller(self, block: str) -> str:
        for large, small in self.smaller.items():
            block = block.replace(large, small)
        return block

    def _do(self, line: str) -> bool:
        if any(line.startswith(one) for one in self.skipped):
            return False
        line = re.sub(r"\s+#.*$|\s*&$", "", line).strip()  # without remarks, and not in the background
        text = ADDRESS.sub(lambda _: self.address, moved(line)).replace(" /backups/", f" {self.folder}/")
        text = re.sub(r"[0-9a-f]{4}…", self._head, text)
        for word, meant in self.called.items():
            text = text.replace(word, meant)
        if SERVE.match(line):
            self.serve()
        elif line.startswith("export "):
            assert "KEYVEIL_SERVER=" in line, line  # the address of the collector, which has another port here
        elif re.match(r"((?:[A-Z_]+=\S+ )*)keyveil ", line):
            for part in text.split(" && "):
                self._keyveil(line, shlex.split(part))
        else:
            ran = subprocess.run(["bash", "-ec", text], cwd=self.folder, capture_output=True, text=True, timeout=60)
            assert ran.returncode == 0, (line, ran.stderr)
        for beginning, work in self.after.items():
            if line.startswith(beginning):
                work(self)
        return True

    def _keyveil(self, line: str, words: list[str]) -> None:
        if "--replace" in words:
            self.stop()  # as the page says
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            self.environment.setenv(name, value)
        self.environment.setattr("sys.stdin", _Agreeing("y\n"))  # who is asked for consent agrees
        status = run([*words[1:], *SHORTER.get(words[1], ())])
        told = self.output.readouterr()
        assert status == (2 if any(line.startswith(one) for one in self.refused) else 0), (line, told.err)
        found = re.search(r"the last hash is ([0-9a-f]+)", told.out + told.err)
        self._head = found[1] if found else self._head


def fresh_folder(folder: Path, environment: pytest.MonkeyPatch) -> Path:
    """A folder as a reader has it: the repository's examples, and nothing of the environment."""
    for name in [name for name in os.environ if name.startswith("KEYVEIL_")]:
        environment.delenv(name)
    environment.chdir(folder)
    environment.setenv("HOME", str(folder))  # where a device keeps its file
    shutil.copytree(ROOT / "examples", folder / "examples")
    return folder
