"""A real PostgreSQL server for tests and benchmarks: its own folder, its own socket, nobody else's data."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from uuid import uuid4

import psycopg

_DEBIAN = Path("/usr/lib/postgresql")
_ACCOUNT = "postgres"  # the server refuses to run as root


class PostgreSQL:
    """A server that listens on a socket in its own folder.

    Tests kill the server, never the machine, so it need not wait for the disk; benchmarks ask for ``durable``.
    """

    def __init__(self, durable: bool = False) -> None:
        self._sync = "on" if durable else "off"
        self._folder = Path(tempfile.mkdtemp(prefix="keyveil-pg-"))
        self._as_other = os.geteuid() == 0
        if self._as_other:
            shutil.chown(self._folder, _ACCOUNT)
        self._call("initdb", "-D", self._data, "-A", "trust", "-U", "keyveil", "-E", "UTF8", "--no-sync")
        self.start()

    @property
    def _data(self) -> str:
        return str(self._folder / "data")

    def start(self) -> None:
        options = (
            f"-c listen_addresses='' -c unix_socket_directories='{self._folder}' -c max_connections=60 "
            f"-c fsync={self._sync} -c full_page_writes={self._sync}"
        )
        self._call("pg_ctl", "-D", self._data, "-w", "-l", str(self._folder / "log"), "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop the server: "fast" ends connections, "immediate" is like a power cut."""
        self._call("pg_ctl", "-D", self._data, "-w", "-m", mode, "stop")

    def remove(self) -> None:
        self.stop("immediate")
        shutil.rmtree(self._folder, ignore_errors=True)

    def database(self) -> str:
        """The address of a new, empty database."""
        name = f"k{uuid4().hex[:12]}"
        with psycopg.connect(self._address("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self._address(name)

    def _address(self, name: str) -> str:
        return f"postgresql://keyveil@/{name}?host={self._folder}"

    def _call(self, program: str, *arguments: str) -> None:
        command = [found(program), *arguments]
        if self._as_other:
            command = ["runuser", "-u", _ACCOUNT, "--", *command]
        ran = subprocess.run(command, cwd=self._folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if ran.returncode:
            raise RuntimeError(f"{program} failed: {ran.stderr.strip()}")


def found(program: str) -> str:
    """A program of PostgreSQL, on the path or where Debian puts it."""
    places = sorted(_DEBIAN.glob(f"*/bin/{program}"), reverse=True)
    where = shutil.which(program) or (str(places[0]) if places else None)
    if where is None:
        raise RuntimeError(f"PostgreSQL's {program} is needed; `make test` installs it where there is apt.")
    return where
