"""``python -m benchmarks.bare_route --database URL [--port P] [--workers W]``: what HTTP and the database allow.

One Starlette route on uvicorn decodes an upload with the collector's own decoder, and one thread inserts all reports
that wait with one statement and one commit. Nothing is checked, counted, limited or measured. It is the limit that the
collector is compared with, and nothing to run otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from keyveil.campaign.wire import JSON, PACKED, Batch, from_json, from_packed

_DECODERS = {JSON: from_json, PACKED: from_packed}
_TABLE = "CREATE TABLE IF NOT EXISTS report (id {blob} PRIMARY KEY, payload {blob})"

Insert = Callable[[list[Batch]], None]
Waiting = tuple[Batch, "asyncio.Future[None]"]


def into_sqlite(path: str) -> Insert:
    """Stores batches in a file, as durably as the collector does."""
    connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
    for setting in ("journal_mode=WAL", "synchronous=FULL", "cache_size=-65536", "wal_autocheckpoint=8000"):
        connection.execute(f"PRAGMA {setting}")
    connection.execute(_TABLE.format(blob="BLOB"))

    def insert(batches: list[Batch]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        for batch in batches:
            connection.executemany("INSERT OR IGNORE INTO report VALUES (?, ?)", batch)
        connection.execute("COMMIT")

    return insert


def into_postgresql(url: str) -> Insert:
    import psycopg

    connection = psycopg.connect(url)
    connection.execute(_TABLE.format(blob="bytea").encode())
    connection.commit()

    def insert(batches: list[Batch]) -> None:
        with connection.cursor().copy("COPY report (id, payload) FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(["bytea", "bytea"])
            for batch in batches:
                for row in batch:
                    copy.write_row(row)
        connection.commit()

    return insert


class Writer:
    """One thread; all batches that wait are stored together."""

    def __init__(self, insert: Insert) -> None:
        self._insert, self._waiting, self._changed = insert, list[Waiting](), threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    def put(self, batch: Batch, done: asyncio.Future[None]) -> None:
        with self._changed:
            self._waiting.append((batch, done))
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                group, self._waiting = self._waiting, []
            self._insert([batch for batch, _ in group])
            group[0][1].get_loop().call_soon_threadsafe(_answer, [done for _, done in group])


def _answer(group: list[asyncio.Future[None]]) -> None:
    for done in group:
        done.set_result(None)


def bare(url: str) -> Starlette:
    """The app."""
    writer = Writer(into_sqlite(url.removeprefix("sqlite:///")) if url.startswith("sqlite") else into_postgresql(url))

    async def upload(request: Request) -> Response:
        batch = _DECODERS[request.headers["content-type"]](await request.body())
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        writer.put(batch, done)
        await done
        document = {"accepted": len(batch), "duplicates": 0, "refused": []}
        return Response(msgspec.json.encode(document), media_type=JSON)

    return Starlette(routes=[Route("/v1/campaigns/{name}/reports", upload, methods=["POST"])])


def _end_with(first: int) -> None:
    """A worker ends when the process that forked it is gone."""
    while os.getppid() == first:
        time.sleep(0.5)
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.bare_route")
    parser.add_argument("--database", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    sys.setswitchinterval(0.0005)  # as the collector has it
    listener = socket.create_server(("127.0.0.1", options.port), backlog=2048)
    bare(options.database)  # makes the table
    first = os.getpid()
    for _ in range(options.workers - 1):
        if os.fork() == 0:
            threading.Thread(target=_end_with, args=(first,), daemon=True).start()
            break
    config: dict[str, Any] = {"log_config": None, "access_log": False, "ws": "none", "http": "httptools"}
    server = uvicorn.Server(uvicorn.Config(bare(options.database), **config))
    print(f"Listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    server.run(sockets=[listener])


if __name__ == "__main__":
    main()
