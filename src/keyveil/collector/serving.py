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
    os.umask(0o077)  # the database is nobody else's
    sys.setswitchinterval(_TURN)
    prepare()  # the first fold would stop all requests for as long
    with _listening(settings) as door, _open(settings) as service, _signals() as asked_to_stop:
        for role, token in first_tokens(service, settings).items():
            say(f"The {role} token, shown only this once: {token}")
        server = _Server(
            _uvicorn(settings, service, pages(service)), asked_to_stop, lambda: say(f"Listening on {_address(door)}")
        )
        server.run(sockets=[door])
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

    def __init__(self, config: uvicorn.Config, asked_to_stop: threading.Event, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._asked_to_stop, self._say_started = asked_to_stop, started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.should_exit = self.should_exit or self._asked_to_stop.is_set()
        self._say_started()


def _uvicorn(settings: Settings, service: Service, pages: Mounts) -> uvicorn.Config:
    return uvicorn.Config(
        make_app(service, settings, pages),
        log_config=None,
        log_level="warning",  # below it there are lines with addresses
        access_log=False,
        server_header=False,
        proxy_headers=False,  # whoever the proxy says it was, we do not want to know
        ws="none",
        backlog=settings.backlog,
        limit_concurrency=settings.connections,
        timeout_graceful_shutdown=int(settings.shutdown_seconds) or 1,
    )


@contextmanager
def _open(settings: Settings) -> Iterator[Service]:
    service = Service(settings.database_url, limits=ServiceLimits(settings.queue_reports, settings.group_reports))
    try:
        yield service
    finally:
        service.close()


@contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    """The socket, taken before anything else: a second collector on the port must not touch the database."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        door = socket.create_server((settings.host, settings.port), family=family, backlog=settings.backlog)
    except (OSError, UnicodeError) as reason:
        why = getattr(reason, "strerror", None) or "there is no such address"
        raise KeyveilError(
            "serve/address", f"Cannot listen on {settings.host} port {settings.port}: {why.lower()}."
        ) from None
    with door:
        yield door


def _address(door: socket.socket) -> str:
    host, port = door.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """Whether somebody asked us to stop before the server listened to signals; afterwards they do no harm.

    The server repeats a signal that ended it, and its usual effect would be to kill us before the service is closed.
    """
    asked_to_stop = threading.Event()
    kinds = (signal.SIGTERM, signal.SIGINT)
    before = {kind: signal.signal(kind, lambda *_: asked_to_stop.set()) for kind in kinds}
    try:
        yield asked_to_stop
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
