"""A collector as a process of its own on this machine, for as long as it is needed: what the demo and tests run."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from keyveil.core.errors import KeyveilError

_STARTS = 60.0  # seconds: the first start also makes the database
_STOPS = 20.0


@contextmanager
def running_collector(
    database: Path, log: Path, program: Sequence[str] = ("-m", "keyveil", "serve"), **environment: str
) -> Iterator[tuple[str, str]]:
    """``keyveil serve`` on a free port of the loopback; gives its address and an admin token, and ends it afterwards.

    What the process writes to standard error goes to ``log``. Only this very process is ever stopped.
    ``environment`` is what it finds there besides, such as other settings; ``program`` is what Python runs.
    """
    with tempfile.TemporaryDirectory() as folder, log.open("wb") as errors:
        token, files = secrets.token_urlsafe(24), {}
        for role, word in (("admin", token), ("analyst", secrets.token_urlsafe(24))):
            files[f"KEYVEIL_{role.upper()}_TOKEN_FILE"] = str(Path(folder) / role)
            (Path(folder) / role).touch(0o600)
            (Path(folder) / role).write_text(word, encoding="ascii")
        usual = {name: value for name, value in os.environ.items() if not name.startswith("KEYVEIL_")}
        command = [sys.executable, *program, "--host", "127.0.0.1", "--port", "0"]
        process = subprocess.Popen(
            [*command, "--database", f"sqlite:///{database.absolute()}", "--json-logs"],
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**usual, **files, **environment},
            text=True,
            start_new_session=True,  # Ctrl-C is handled here: the process must not receive it as well
        )
        try:
            with _terminated_like_interrupted():
                yield _address(process, log), token
        finally:
            _end(process)


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Turn a signal to end into an interrupt, so that the collector's process is ended, too."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _address(process: subprocess.Popen[str], log: Path) -> str:
    """Where the process listens, once it says so; what it says later is read and dropped."""
    heard: list[str] = []
    ready = threading.Event()

    def listen() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("Listening on ") and not heard:
                heard.append(line.removeprefix("Listening on ").strip())
                ready.set()
        ready.set()

    threading.Thread(target=listen, daemon=True).start()
    ready.wait(_STARTS)
    if not heard:
        raise KeyveilError("demo/collector", f"The collector did not start; {log} says why.")
    return heard[0]


def _end(process: subprocess.Popen[str]) -> None:
    """Ask the process to stop, and kill it if it does not."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_STOPS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
