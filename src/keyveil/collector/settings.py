"""How a collector is set up: flags before environment (``KEYVEIL_…``) before a TOML file before the defaults."""

from __future__ import annotations

import ipaddress
import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from keyveil.campaign.wire import LARGEST
from keyveil.collector import logs
from keyveil.core.errors import KeyveilError

_SHORTEST_TOKEN = 20

log = logs.logger()

Seconds = Annotated[float, Field(ge=0, le=86400)]
Count = Annotated[int, Field(ge=1, le=1 << 31)]


class Settings(BaseSettings):
    """Everything that an operator may choose; each is also a variable such as ``KEYVEIL_PORT``."""

    model_config = SettingsConfigDict(env_prefix="KEYVEIL_", frozen=True, extra="forbid")

    database_url: str = Field(default="sqlite:///keyveil.db", repr=False)  # may hold a password
    host: str = "127.0.0.1"
    port: int = Field(default=8337, ge=0, le=65535)
    behind_tls: bool = False  # a proxy in front speaks TLS, so plain HTTP may leave the loopback
    admin_token_file: Path | None = None
    analyst_token_file: Path | None = None
    token_folder: Path | None = None  # where the first tokens are written; beside the SQLite file unless given
    workers: int = Field(default=1, ge=1, le=64)  # processes that share the port
    id_days: int | None = Field(default=None, ge=1, le=36500)  # after a round has closed, its ids are kept; always
    sketches: bool = False  # keep a sketch beside each tally, by which crafted reports can be told
    queue_reports: Count = 50_000  # that may wait for the disk before uploads get a 429
    group_reports: Count = 20_000  # that go to the disk in one commit at most
    body_bytes: int = Field(default=LARGEST, ge=1024, le=LARGEST)
    dictionary_bytes: Count = 64 << 20
    memory_bytes: int = Field(default=256 << 20, ge=LARGEST)  # of all bodies under way; beyond it clients get a 429
    body_seconds: float = Field(default=30.0, gt=0, le=3600)  # that a client may take to send its body
    head_bytes: int = Field(default=16 << 10, ge=1024, le=1 << 20)  # of a request's line and headers
    head_seconds: float = Field(default=10.0, gt=0, le=3600)  # that a client may take to send them
    upload_bytes_per_second: Count | None = None  # of each campaign; beyond it devices get a 429
    free_bytes: int = Field(default=64 << 20, ge=0)  # on the disk of SQLite; with less, the collector is not ready
    connections: Count = 2000  # at the same time; more get a 503
    connections_per_address: Count | None = None  # only without a proxy: behind one, all have its address
    backlog: Count = 2048
    tick_seconds: Seconds = 1.0  # between two looks at rounds, folds and scrubs; 0 for never
    shutdown_seconds: Seconds = 30.0  # for requests under way
    session_minutes: int = Field(default=30, ge=1, le=1440)  # without a request; then people are signed out
    session_hours: int = Field(default=12, ge=1, le=168)  # after which people have to sign in again
    origins: str = ""  # of pages that may send reports, with commas between them; * for all of them, nothing for none
    serve_client: bool = False  # the client's modules below /client/, for development only
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    json_logs: bool | None = None  # JSON unless a terminal reads it

    @property
    def reachable(self) -> bool:
        """Whether other machines could connect."""
        try:
            return not ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host != "localhost"

    @property
    def first_token_folder(self) -> Path:
        """Where the first tokens are written."""
        scheme, _, file = self.database_url.partition(":///")
        beside = Path(file).parent if scheme.startswith("sqlite") and file else Path()
        return self.token_folder or beside

    def kept_tokens(self) -> dict[str, tuple[str, ...]]:
        """The tokens that the operator put into files, by role; one in each line."""
        return {role: _tokens(path) for role, path in self._token_files()}

    def present_tokens(self) -> dict[str, tuple[str, ...]]:
        """The same as the files are now; a file that has become wrong holds none."""
        found = {}
        for role, path in self._token_files():
            try:
                found[role] = _tokens(path)
            except KeyveilError as wrong:
                log.error("A token file cannot be used as it is now.", code=wrong.code, role=role)
        return found

    def _token_files(self) -> list[tuple[str, Path]]:
        files = {"admin": self.admin_token_file, "analyst": self.analyst_token_file}
        return [(role, path) for role, path in files.items() if path is not None]


def load(config: Path | None = None, **flags: Any) -> Settings:
    """The settings of this process; flags that are ``None`` were not given."""
    named = os.environ.get("KEYVEIL_CONFIG")
    path = config or (Path(named) if named else None)

    class Filed(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            sources: tuple[PydanticBaseSettingsSource, ...] = (init_settings, env_settings)
            return (*sources, TomlConfigSettingsSource(settings_cls, path)) if path else sources

    if path is not None and not path.is_file():
        raise KeyveilError("settings/file", f"There is no settings file {path}.")
    try:
        return Filed(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as wrong:
        first = wrong.errors()[0]
        name = ".".join(str(part) for part in first["loc"]) or "settings"
        raise KeyveilError("settings/invalid", f"The setting {name} is wrong: {first['msg'].rstrip('.')}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as reason:
        raise KeyveilError("settings/file", f"The settings file {path} cannot be read: {reason}.") from None


def refuse_plain(settings: Settings) -> None:
    """Plain HTTP stays on this machine unless somebody else takes care of TLS."""
    if settings.reachable and not settings.behind_tls:
        raise KeyveilError(
            "settings/plain",
            f"{settings.host} can be reached from other machines, and this is plain HTTP: put a proxy with TLS in "
            "front and say --behind-tls, or listen on 127.0.0.1.",
        )


def _tokens(path: Path) -> tuple[str, ...]:
    try:
        others_may_read = os.name == "posix" and path.stat().st_mode & 0o007
        words = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        raise KeyveilError("settings/token", f"The token file {path} cannot be read.") from None
    if others_may_read:
        raise KeyveilError("settings/token", f"Everybody on this machine may read {path}: chmod 600 it.")
    tokens = tuple(word.strip() for word in words if word.strip())
    if not tokens or any(not _is_token(token) for token in tokens):
        raise KeyveilError(
            "settings/token",
            f"Each line of {path} must be one word of at least {_SHORTEST_TOKEN} ASCII characters, and one is needed.",
        )
    return tokens


def _is_token(word: str) -> bool:
    return len(word) >= _SHORTEST_TOKEN and word.isascii() and not any(part.isspace() for part in word)
