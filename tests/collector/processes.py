"""Collectors as processes of their own: started, asked over the loopback, and stopped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HONEST = ("-m", "keyveil", "serve")
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Served:
    """A collector that listens: its port, the first tokens it made, and its folder with database and logs."""

    process: subprocess.Popen[str]
    folder: Path
    port: int
    tokens: dict[str, str]

    @property
    def said(self) -> str:
        return (self.folder / "stdout").read_text() + (self.folder / "stderr").read_text()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(30)


@contextmanager
def served(folder: Path, *flags: str, program: Sequence[str] = HONEST, **environment: str) -> Iterator[Served]:
    """A collector in a folder of its own, on a port that was free."""
    folder.mkdir(exist_ok=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KEYVEIL_")}
    paths = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    with (folder / "stdout").open("w") as out, (folder / "stderr").open("w") as err:
        process = subprocess.Popen(
            [sys.executable, *program, "--port", "0", *flags],
            cwd=folder,
            stdout=out,
            stderr=err,
            text=True,
            env={**clean, "PYTHONPATH": paths, **environment},
        )
    try:
        said = _until_listening(process, folder)
        port = re.search(r"Listening on http://\S+:(\d+)", said)
        assert port is not None
        files = re.findall(r"The first (\w+) token is in (\S+)", said)
        tokens = {role: (folder / file).read_text().strip() for role, file in files}
        yield Served(process, folder, int(port[1]), tokens)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(30)


def _until_listening(process: subprocess.Popen[str], folder: Path) -> str:
    patience = time.monotonic() + 180
    while time.monotonic() < patience:
        said = (folder / "stdout").read_text()
        if re.search(r"Listening on \S+\n", said):
            return said
        assert process.poll() is None, (folder / "stderr").read_text()
        time.sleep(0.05)
    raise AssertionError("The collector did not start within three minutes.")
