"""How the command line reaches a collector: over HTTP, or the same app in this process on a database."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, urlencode

import msgspec
import typer

from keyveil.campaign.documents import NAME, Campaign
from keyveil.campaign.transport import NO_HEADERS, HttpAnswer, Transport
from keyveil.cli.data import working
from keyveil.core.errors import AccessError, CampaignError, KeyveilError, MissingExtra, TransportError
from keyveil.device.transport import HttpTransport

if TYPE_CHECKING:
    from keyveil.collector.service import Service

JSON = "application/json"

_TIMEOUT = 120.0  # seconds: a fold of everything that waits may come first
_AWAY = timedelta(days=31)  # for which nobody may have opened a file before its clock is asked about

Name = Annotated[str, typer.Argument(metavar="NAME", help="The campaign's name, or six or more digits of its hash.")]
Server = Annotated[
    str | None, typer.Option("--server", envvar="KEYVEIL_SERVER", metavar="URL", help="A collector that runs.")
]
Database = Annotated[
    str | None, typer.Option("--database", metavar="FILE", help="A database of this machine, without a collector.")
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help="Holds your token; otherwise KEYVEIL_TOKEN does.")
]


class NamedTransport(HttpTransport):
    """HTTP whose errors name the address, and the option that would help if there is one."""

    def __init__(self, server: str, timeout: float = 30.0, plain: bool | None = None) -> None:
        self._server = server
        try:
            super().__init__(server, timeout, plain or False)
        except TransportError as refused:
            if refused.code != "transport/plain":
                raise
            otherwise = "" if plain is None else ", or say --plain"
            raise TransportError(refused.code, f"{server} is another machine: use https{otherwise}.") from None

    def request(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS) -> HttpAnswer:
        try:
            return super().request(method, path, body, headers)
        except TransportError as lost:
            raise TransportError(lost.code, f"{self._server}: {lost.sentence}") from lost


@dataclass(frozen=True)
class Collector:
    """A collector to send requests to; what it refuses is raised as the error that its problem document describes."""

    transport: Transport
    token: str | None
    server: str | None = None  # its address,
    service: Service | None = None  # or its service where it is in this process
    waiting: Callable[[], AbstractContextManager[None]] = nullcontext  # entered while an answer is awaited

    def ask(self, method: str, path: str, document: Any = None, **query: object) -> Any:
        """One request whose answer is JSON."""
        body = b"" if document is None else msgspec.json.encode(document)
        answer = self.fetch(method, path, body, JSON, **query)
        try:
            return msgspec.json.decode(answer)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise KeyveilError("transport/answer", "This is no Keyveil collector: it answers without JSON.") from None

    def fetch(self, method: str, path: str, body: bytes = b"", accept: str = "*/*", **query: object) -> bytes:
        """One request whose answer is bytes."""
        wanted = urlencode({name: value for name, value in query.items() if value is not None})
        headers = {"Accept": accept, **({"Content-Type": JSON} if body else {}), **self.authorization}
        with self.waiting():
            answer = self.transport.request(method, f"{path}?{wanted}" if wanted else path, body, headers)
        if answer.status >= 400:
            raise _refusal(answer.status, answer.body)
        return answer.body

    @property
    def authorization(self) -> Mapping[str, str]:
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}

    def campaign(self, name: str) -> tuple[Campaign, dict[str, Any]]:
        """A campaign by its name, and what everybody may see of it."""
        view = self.ask("GET", address(name))
        return Campaign.from_document(view["campaign"], self.dictionary), view

    def dictionary(self, name: str) -> bytes:
        return self.fetch("GET", f"/v1/dictionaries/{name}")


def address(name: str, *parts: str) -> str:
    """The path of a campaign, or of something that belongs to it."""
    if not NAME.fullmatch(name):
        raise CampaignError("campaign/name", f"A campaign's name has up to 64 of a-z, 0-9 and '-', not {name!r}.")
    return "/".join(("/v1/campaigns", quote(name, safe=""), *parts))


@contextmanager
def reach(
    server: str | None, database: str | None, token_file: Path | None, create: bool = False, silent: bool = False
) -> Iterator[Collector]:
    """The collector that was named; a database is made only if ``create`` says so.

    Unless ``silent``, a person at a terminal is told when an answer takes long.
    """
    if database is not None and server == os.environ.get("KEYVEIL_SERVER"):
        server = None  # what is said on the command line goes before the environment
    if (server is None) == (database is None):
        both = "" if server is None else ", not both"
        raise KeyveilError("campaign/where", f"Say where the campaign lives: --server URL or --database FILE{both}.")
    if server is not None:
        transport = NamedTransport(server, _TIMEOUT)
        try:
            waiting = nullcontext if silent else partial(working, f"Waiting for {server}")
            yield Collector(transport, read_token(token_file), server, waiting=waiting)
        finally:
            transport.close()
    else:
        with _in_this_process(str(database), create, nullcontext if silent else _busy) as collector:
            yield collector


@contextmanager
def _in_this_process(
    database: str, create: bool, waiting: Callable[[], AbstractContextManager[None]]
) -> Iterator[Collector]:
    """The app on a database, with a token that is known to this process alone and written nowhere."""
    url = database_url(database, create)
    try:
        from keyveil.collector.access import AccessControl
        from keyveil.collector.app import make_app
        from keyveil.collector.inprocess import AppTransport
        from keyveil.collector.service import Service
        from keyveil.collector.settings import load
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("keyveil"):
            raise
        raise MissingExtra(
            "install/server", f"A database needs {missing.name}: pip install 'keyveil[server]'."
        ) from None
    import secrets

    before = os.umask(0o077)  # the file is readable by its owner alone
    try:
        with waiting():
            token, service = secrets.token_urlsafe(24), Service(url, away=_AWAY)
    finally:
        os.umask(before)
    try:
        app = make_app(service, load(database_url=url, tick_seconds=0))
        app.state.access = AccessControl(service, lambda: {"admin": (token,)})
        with waiting():
            service.settle()  # perhaps no collector runs that would have folded
        with AppTransport(app) as transport:
            yield Collector(transport, token, service=service, waiting=waiting)
        with waiting():
            service.settle()
    finally:
        service.close()


def _busy() -> AbstractContextManager[None]:
    return working("Working on the database")


def database_url(database: str, create: bool) -> str:
    """A file as the address that SQLAlchemy wants; addresses stay what they are."""
    if "://" in database:
        return database
    path = Path(database)
    if not create and not path.is_file():
        raise KeyveilError("campaign/database", f"There is no database {database}.")
    if not path.parent.is_dir():
        raise KeyveilError("campaign/database", f"There is no folder {path.parent} for the database.")
    return f"sqlite:///{path.absolute()}"


def read_token(token_file: Path | None) -> str | None:
    """The token from a file or from the environment; never from the command line, which others can see."""
    if token_file is None:
        return os.environ.get("KEYVEIL_TOKEN", "").strip() or None
    try:
        token = token_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise AccessError("access/file", f"The token file {token_file} cannot be read.") from None
    if not token.isascii() or not token.isprintable() or not token:
        raise AccessError("access/file", f"The token file {token_file} holds no token.")
    return token


def download(collector: Collector, path: str, target: Path) -> None:
    """A long answer straight to a file, under another name until it is complete."""
    from urllib.error import HTTPError, URLError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class Stay(HTTPRedirectHandler):
        """Tokens go to the address that was named, and nowhere else."""

        def redirect_request(self, *_: Any, **__: Any) -> None:
            return None

    server = collector.server or ""
    NamedTransport(server)  # refuses addresses that tokens must not be sent to
    request = Request(server.rstrip("/") + path, headers={"User-Agent": "", **collector.authorization})
    with written(target) as part:
        try:
            with build_opener(Stay).open(request, timeout=_TIMEOUT) as answer:
                while piece := answer.read(1 << 20):
                    part.write(piece)
        except HTTPError as refused:
            raise _refusal(refused.code, refused.read(1 << 20)) from None
        except (URLError, OSError) as reason:
            raise TransportError("transport/unreachable", f"{server} did not answer ({reason}).") from None


@contextmanager
def written(target: Path) -> Iterator[Any]:
    """A file that gets its name only when it is complete, readable by its owner alone."""
    if target.is_dir():
        raise KeyveilError("output/file", f"{target} is a folder: name a file in it.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = tempfile.NamedTemporaryFile("wb", dir=target.parent, prefix=f".{target.name}.", delete=False)  # noqa: SIM115
    except OSError as reason:
        raise KeyveilError("output/file", f"{target} cannot be written: {reason}.") from reason
    try:
        with part:
            yield part
        os.replace(part.name, target)
    except BaseException as reason:
        Path(part.name).unlink(missing_ok=True)
        if isinstance(reason, OSError):
            raise KeyveilError("output/file", f"{target} cannot be written: {reason}.") from reason
        raise


def _refusal(status: int, body: bytes) -> KeyveilError:
    """A problem document as the error that it describes."""
    try:
        problem = msgspec.json.decode(body)
        code, sentence = str(problem["code"]), str(problem["detail"])
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
        return KeyveilError("transport/answer", f"This is no Keyveil collector: it answered with status {status}.")
    if code == "access/needed":  # the collector's sentence is about HTTP headers
        sentence = "This needs a token: say which file holds it with --token-file, or set KEYVEIL_TOKEN."
    return KeyveilError(code, sentence)
