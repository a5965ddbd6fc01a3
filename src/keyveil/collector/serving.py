"""A collector as a process: socket, service, app and server, from the first token to the last commit."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from prometheus_client.multiprocess import mark_process_dead
from sqlalchemy.engine import make_url

from keyveil.collector import logs
from keyveil.collector.app import NO_PAGES, Mounts, make_app
from keyveil.collector.metrics import SHARED
from keyveil.collector.protocol import guarded
from keyveil.collector.service import Service, ServiceLimits
from keyveil.collector.settings import Settings, refuse_plain
from keyveil.collector.tokens import ROLES
from keyveil.collector.workers import Workers
from keyveil.core.errors import KeyveilError
from keyveil.core.report import PUBLIC_BYTES
from keyveil.kernels.backend import prepare
from keyveil.kernels.siphash import siphash_many

Say = Callable[[str], None]
Pages = Callable[[Service, Settings], Mounts]  # of a collector, once its service is open; a function of a module


def no_pages(_: Service, __: Settings) -> Mounts:
    return NO_PAGES


_LAST_COMMIT = 10.0  # seconds beyond those for requests, to store what waits
_TURN = 0.0005  # seconds: the writer must not wait five milliseconds for its turn while requests come in

_SEARCHES = (
    20_000,
    10,
    50,
)  # new objects before a search for garbage among them, and how often older ones are looked at

log = logs.logger()


def serve(settings: Settings, say: Say, pages: Pages = no_pages) -> None:
    """Run a collector until it is told to stop; requests under way are answered, and what waits is stored."""
    refuse_plain(settings)
    settings.kept_tokens()  # a wrong token file is told before anything is opened
    logs.configure(settings.log_level, settings.json_logs)
    os.umask(0o077)  # files of the database are readable by their owner alone
    with _listening(settings) as listener:

        def listening() -> None:
            say(f"Listening on {_address(listener)}")
            say("Ctrl-C stops it; what has arrived is stored first.")

        say(f"Opening {_shown(settings.database_url)}; then the compiled parts, which take seconds the first time.")
        if settings.workers == 1:
            _work(settings, listener, pages, say, listening)
        else:
            with _open(settings) as service:  # once, before several would
                _say_first_tokens(service, settings, say)
            with _shared_numbers() as ended:
                _settle_memory()
                workers = Workers(settings.workers, _work_beside, settings.model_dump(), listener, pages, ended=ended)
                workers.run(listening, settings.shutdown_seconds + _LAST_COMMIT)
    log.info("Stopped.")


@contextmanager
def _shared_numbers() -> Iterator[Callable[[int], None]]:
    """A folder for the numbers of all workers, which they hear of by their environment; and what to do when one ends.

    What a worker has counted stays when it ends; what it was doing at the moment does not.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix="keyveil-metrics-", ignore_cleanup_errors=True)
    except OSError as reason:
        raise KeyveilError("serve/metrics", f"Workers need a folder for temporary files: {reason.strerror}.") from None
    with folder as path:
        os.environ[SHARED] = path
        try:
            yield lambda pid: mark_process_dead(pid, path)  # type: ignore[no-untyped-call]
        finally:
            del os.environ[SHARED]


def _work_beside(options: dict[str, Any], listener: socket.socket, pages: Pages, ready: Event) -> None:
    """What one of several workers does; another process holds the port and the first tokens have been made."""
    settings = Settings(**options)
    logs.configure(settings.log_level, settings.json_logs)
    os.umask(0o077)
    _work(settings, listener, pages, lambda _: None, ready.set)


def _work(settings: Settings, listener: socket.socket, pages: Pages, say: Say, started: Callable[[], None]) -> None:
    """Answer requests on a port until told to stop; ``started`` is called once requests are taken."""
    sys.setswitchinterval(_TURN)
    prepare()  # otherwise the first fold would hold up all requests while kernels compile;
    siphash_many(bytes(16), np.zeros((1, PUBLIC_BYTES), dtype=np.uint8))  # most of the compiler loads when it is used
    with _open(settings) as service, _signals(settings) as stop_requested:
        _say_first_tokens(service, settings, say)
        server = _Server(_uvicorn(settings, service, pages(service, settings)), stop_requested, started)
        server.run(sockets=[listener])


def _say_first_tokens(service: Service, settings: Settings, say: Say) -> None:
    for role, path in first_tokens(service, settings).items():
        say(f"The first {role} token is in {path}")


def first_tokens(service: Service, settings: Settings) -> dict[str, Path]:
    """New tokens for the roles that nobody has: usually on the first start, unless files hold them.

    Each is written to a file that only its owner may read, never to a log; returns those files by role. A token in a
    file of the operator takes the place of the first ones of its role.
    """
    kept, made = settings.kept_tokens(), {}
    for role in ROLES:
        if role in kept:
            service.roles.revoke_first(role)
        elif not service.roles.granted(role):
            made[role] = settings.first_token_folder / f"keyveil-{role}.token"
            _write_private(made[role], service.roles.grant(role, f"first-{role}"))
    return made


def _write_private(path: Path, token: str) -> None:
    try:
        path.unlink(missing_ok=True)  # of an earlier database; a new file gets the right mode
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token + "\n")
    except OSError as reason:
        raise KeyveilError("serve/token", f"The first token cannot be written to {path}: {reason.strerror}.") from None


class _Server(uvicorn.Server):
    """Says when it takes requests."""

    def __init__(self, config: uvicorn.Config, stop_requested: threading.Event, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._stop_requested, self._say_started = stop_requested, started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.should_exit = self.should_exit or self._stop_requested.is_set()
        _settle_memory()
        self._say_started()


def _settle_memory() -> None:
    """Leave what is there now out of all later searches for garbage.

    The compiler and the libraries are many objects that stay. Nobody is answered while all of them are searched.
    What requests leave behind is freed without a search, so searches can be rare.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_SEARCHES)
    gc.enable()


def _uvicorn(settings: Settings, service: Service, pages: Mounts) -> uvicorn.Config:
    return uvicorn.Config(
        make_app(service, settings, pages),
        log_config=None,
        log_level="warning",  # lower levels log addresses of clients
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the client's address is not wanted
        ws="none",
        http=guarded(settings.head_bytes, settings.head_seconds, settings.connections_per_address),
        backlog=settings.backlog,
        limit_concurrency=settings.connections,
        timeout_graceful_shutdown=int(settings.shutdown_seconds) or 1,
    )


@contextmanager
def _open(settings: Settings) -> Iterator[Service]:
    limits = ServiceLimits(
        settings.queue_reports,
        settings.group_reports,
        settings.upload_bytes_per_second,
        settings.free_bytes,
        settings.id_days,
        settings.sketches,
    )
    service = Service(settings.database_url, limits=limits)
    try:
        yield service
    finally:
        service.close()


@contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    """The socket, opened first: a second collector on the same port must fail before it touches the database."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=settings.backlog)
    except (OSError, UnicodeError) as reason:
        why = getattr(reason, "strerror", None) or "there is no such address"
        raise KeyveilError(
            "serve/address", f"Cannot listen on {settings.host} port {settings.port}: {why.lower()}."
        ) from None
    with listener:
        yield listener


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _shown(database_url: str) -> str:
    """The address of a database without the password that may be in it."""
    return f"the database {make_url(database_url).render_as_string(hide_password=True)}"


@contextmanager
def _signals(settings: Settings) -> Iterator[threading.Event]:
    """An event that is set by a signal to stop, until the server handles signals itself.

    When the server has stopped it raises the signal again, which must not end the process before the service is closed.
    A hang-up stops nothing: token files are read whenever somebody asks, and now too, so that a wrong one is logged.
    """
    stop_requested = threading.Event()

    def read_tokens(*_: object) -> None:
        log.info("Token files were read.", roles=sorted(settings.present_tokens()))

    kinds = (signal.SIGTERM, signal.SIGINT)
    before = {kind: signal.signal(kind, lambda *_: stop_requested.set()) for kind in kinds}
    before[signal.SIGHUP] = signal.signal(signal.SIGHUP, read_tokens)
    try:
        yield stop_requested
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
