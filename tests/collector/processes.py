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
TWINS = {"KEYVEIL_KERNELS": "numpy"}  # count the few reports of a test as fast, and spare every start the compiler
COMPILED = {"KEYVEIL_KERNELS": "numba"}  # for collectors that are measured, or take a million reports
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
    """A collector in a folder of its own, on a port that was free.

    Its kernels are the ``TWINS`` unless the environment says otherwise; ``keyveil demo`` and the wheel are tested with
    the compiler.
    """
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
            env={**clean, "PYTHONPATH": paths, **TWINS, **environment},
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
    """What it said until it listens; it may take its time as long as it works."""
    worked, patience = -2.0, 0.0
    while True:
        said = (folder / "stdout").read_text()
        if re.search(r"Listening on \S+\n", said):
            return said
        assert process.poll() is None, (folder / "stderr").read_text()
        if (now := _seconds_of_work(process.pid)) > worked + 1:
            worked, patience = now, time.monotonic() + 180
        assert now < _MOST_WORK and time.monotonic() < patience, "The collector works, or waits, and does not start."
        time.sleep(0.05)


_MOST_WORK = 180.0  # seconds of processor; a start with all kernels to compile takes about a minute


def _seconds_of_work(pid: int) -> float:
    """The seconds of processor that a process has used, where the system tells; nothing otherwise."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
