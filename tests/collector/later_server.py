"""``keyveil serve`` on a machine whose days pass when a file says so: it holds how many have passed."""

from __future__ import annotations

import functools
import os
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from unittest import mock

from keyveil.cli.app import run
from keyveil.collector.service import Service
from keyveil.core.clock import system_clock

DAYS = "DAYS_THAT_HAVE_PASSED"  # the variable that names the file


def passed() -> timedelta:
    text = Path(os.environ[DAYS]).read_text(encoding="ascii")
    return timedelta(days=int(text or 0))


def clock() -> datetime:
    return system_clock() + passed()


def steady() -> float:
    """The steady clock of the machine goes with the other one: nothing has jumped."""
    return time.monotonic() + passed().total_seconds()


if __name__ == "__main__":
    with mock.patch("keyveil.collector.serving.Service", functools.partial(Service, clock=clock, steady=steady)):
        sys.exit(run(["serve", *sys.argv[1:]]))
