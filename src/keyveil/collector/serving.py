"""A collector as a process: socket, service, app and server, from the first token to the last commit."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from keyveil.collector import logs
from keyveil.collector.app import NO_PAGES, Mounts, make_app
from keyveil.collector.protocol import guarded
from keyveil.collector.service import Service, ServiceLimits
from keyveil.collector.settings import Settings, refuse_plain
from keyveil.collector.tokens import ROLES
from keyveil.core.errors import KeyveilError
from keyveil.kernels.backend import prepare

Say = Callable[[str], None]
Pages = Callable[[Service], Mounts]  # the pages of a collector, once its service is open

_TURN = 0.0005  # seconds: the writer must not wait five milliseconds for its turn while requests come in

log = logs.logger()


def serve(settings: Settings, say: Say, pages: Pages = lambda _: NO_PAGES) -> None:
    """Run a collector until it is told to stop; requests under way are answered, and what waits is stored."""
    refuse_plain(settings)
    settings.kept_tokens()  # a wrong token file is told before anything is opened
    logs.configure(settings.log_level, settings.json_logs)
    os.umask(0o077)  # files of the database are readable by their owner alone
    sys.setswitchinterval(_TURN)
    prepare()  # otherwise the first fold would hold up all requests while kernels compile
    with _listening(settings) as listener, _open(settings) as service, _signals() as stop_requested:
        for role, token in first_tokens(service, settings).items():
            say(f"The {role} token, shown only this once: {token}")
        server = _Server(
            _uvicorn(settings, service, pages(service)),
            stop_requested,
            lambda: say(f"Listening on {_address(listener)}"),
        )
        server.run(sockets=[listener])
    log.info("Stopped.")


def first_tokens(service: Service, settings: Settings) -> dict[str, str]:
    """New tokens for the roles that nobody has: usually on the first start, unless files hold them.

    A token in a file takes the place of those that were ever printed for its role.
    """
    kept = settings.kept_tokens()
    for role in kept:
        service.roles.revoke(role)
    return {role: service.roles.grant(role) for role in ROLES if role not in kept and not service.roles.granted(role)}


class _Server(uvicorn.Server):
    """Says when it takes requests."""

    def __init__(self, config: uvicorn.Config, stop_requested: threading.Event, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._stop_requested, self._say_started = stop_requested, started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.should_exit = self.should_exit or self._stop_requested.is_set()
        self._say_started()


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
        settings.queue_reports, settings.group_reports, settings.upload_bytes_per_second, settings.free_bytes
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


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """An event that is set by a signal to stop, until the server handles signals itself.

    When the server has stopped it raises the signal again, which must not end the process before the service is closed.
    """
    stop_requested = threading.Event()
    kinds = (signal.SIGTERM, signal.SIGINT)
    before = {kind: signal.signal(kind, lambda *_: stop_requested.set()) for kind in kinds}
    try:
        yield stop_requested
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
