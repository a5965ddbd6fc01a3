"""A whole measurement: the process that measures is started, and its rows are read as they come."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from keyveil.bench.worker import ONE_THREAD
from keyveil.core.errors import KeyveilError


def measure(quick: bool = False, only: str = "") -> Iterator[dict[str, Any]]:
    """Every row of ``keyveil bench``, in the order in which they are measured."""
    command = [sys.executable, "-m", "keyveil.bench.worker", "--only", only, *(["--quick"] if quick else [])]
    yield from read(command)


def read(command: list[str]) -> Iterator[dict[str, Any]]:
    """The rows that a process writes; one sentence if it fails."""
    environment = {**os.environ, **dict.fromkeys(ONE_THREAD, "1")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield msgspec.json.decode(line)
    if process.returncode:
        raise KeyveilError("bench/failed", f"A measurement ended with status {process.returncode}; see what it said.")
