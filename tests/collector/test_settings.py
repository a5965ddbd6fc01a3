"""Settings: flags before environment before file, and one sentence for whatever is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyveil.collector.settings import Settings, load, refuse_plain
from keyveil.core.errors import KeyveilError


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if name.startswith("KEYVEIL_")]:
        monkeypatch.delenv(name)


def test_without_anything_set_it_stays_on_this_machine() -> None:
    settings = load()
    assert (settings.host, settings.port, settings.database_url) == ("127.0.0.1", 8337, "sqlite:///keyveil.db")
    refuse_plain(settings)


def test_flags_go_before_environment_before_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keyveil.toml"
    file.write_text('port = 1\nqueue_reports = 2\nlog_level = "error"\n')
    monkeypatch.setenv("KEYVEIL_CONFIG", str(file))
    monkeypatch.setenv("KEYVEIL_PORT", "3")
    monkeypatch.setenv("KEYVEIL_QUEUE_REPORTS", "4")

    settings = load(port=5, host=None)

    assert (settings.port, settings.queue_reports, settings.log_level) == (5, 4, "error")
    assert settings.host == "127.0.0.1"


@pytest.mark.parametrize(
    ("flags", "file", "code"),
    [
        ({"port": 65536}, "", "settings/invalid"),
        ({"port": "many"}, "", "settings/invalid"),
        ({"log_level": "loud"}, "", "settings/invalid"),
        ({"body_bytes": 9 << 20}, "", "settings/invalid"),
        ({}, "prot = 8337", "settings/invalid"),
        ({}, "port = ", "settings/file"),
        ({}, None, "settings/file"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    tmp_path: Path, flags: dict[str, Any], file: str | None, code: str
) -> None:
    path = tmp_path / "keyveil.toml"
    if file is not None:
        path.write_text(file)
    with pytest.raises(KeyveilError) as refused:
        load(path, **flags)
    assert refused.value.code == code and "\n" not in refused.value.sentence


def test_a_password_in_the_address_of_the_database_is_not_shown() -> None:
    settings = load(database_url="postgresql://keyveil:hunter2@db/keyveil")
    assert "hunter2" not in repr(settings) and "hunter2" not in str(settings)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_plain_http_is_fine_on_the_loopback(host: str) -> None:
    refuse_plain(Settings(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "collector.example", ""])
def test_plain_http_elsewhere_needs_somebody_who_speaks_tls(host: str) -> None:
    with pytest.raises(KeyveilError) as refused:
        refuse_plain(Settings(host=host))
    assert refused.value.code == "settings/plain"
    refuse_plain(Settings(host=host, behind_tls=True))


@pytest.mark.parametrize("content", [None, b"", b"short", b"two words that are long enough", b"\xff" * 40])
def test_a_token_file_holds_long_words(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.touch(0o600)
        path.write_bytes(content)
    with pytest.raises(KeyveilError) as refused:
        Settings(admin_token_file=path).kept_tokens()
    assert refused.value.code == "settings/token"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o400, 0o604, 0o644, 0o602])
def test_a_token_file_is_not_for_everybody(tmp_path: Path, mode: int) -> None:
    """A group may read it, as containers need; everybody may not."""
    path = tmp_path / "token"
    path.write_text("one-token-of-the-operator\nanother-token-beside-it\n")
    path.chmod(mode)
    settings = Settings(admin_token_file=path)
    if mode & 0o007:
        assert refused_code(settings.kept_tokens) == "settings/token"
        assert settings.present_tokens() == {}
    else:
        assert settings.kept_tokens() == {"admin": ("one-token-of-the-operator", "another-token-beside-it")}


def refused_code(call: Callable[[], Any]) -> str:
    with pytest.raises(KeyveilError) as refused:
        call()
    return refused.value.code
