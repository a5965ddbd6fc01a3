"""What a collector serves to browsers: "Try it" with headers that forbid connections, and the client if it is to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from keyveil.collector import client_files
from keyveil.collector.client_files import client_folder
from keyveil.collector.settings import load
from keyveil.core.errors import KeyveilError
from tests.collector.running import Collector, problem, running

PAGE = "https://shop.example"


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    with running(tmp_path) as started:
        yield started


def test_try_it_forbids_every_connection_and_has_no_script_of_its_own(collector: Collector) -> None:
    answer = collector.ask("GET", "/try/")
    policy = answer.headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "connect-src 'none'", "script-src 'self'", "form-action 'none'"} <= set(policy)
    assert "unsafe" not in answer.headers["content-security-policy"]
    text = answer.body.decode()
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=|https?://", text) == []
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_every_file_that_the_page_imports_is_there(collector: Collector) -> None:
    """Followed from module to module; nothing is asked of another place."""
    waiting, seen = ["/try/page.js"], set[str]()
    while waiting:
        path = waiting.pop()
        seen.add(path)
        answer = collector.ask("GET", path)
        assert answer.status == 200 and answer.headers["content-type"] == "text/javascript; charset=utf-8", path
        assert "connect-src 'none'" in answer.headers["content-security-policy"]
        for name in re.findall(r'from "([^"]+)"', answer.body.decode()):
            assert name.startswith("."), f"{path} imports {name}"
            found = Path(path).parent.joinpath(name)
            parts: list[str] = []
            for part in found.parts:
                parts = parts[:-1] if part == ".." else [*parts, part]
            waiting += [one for one in ["/" + "/".join(parts[1:])] if one not in seen]
    assert "/try/client/src/mechanisms/ssr.js" in seen
    assert collector.ask("GET", "/try/page.css").headers["content-type"].startswith("text/css")


def test_without_its_slash_the_page_is_found_too(collector: Collector) -> None:
    answer = collector.ask("GET", "/try")
    assert (answer.status, answer.headers["location"]) == (307, "try/")


@pytest.mark.parametrize(
    "path", ["/try/../settings.py", "/try/%2e%2e/app.py", "/try/nothing.js", "/try/client/.gitignore"]
)
def test_nothing_else_is_served(collector: Collector, path: str) -> None:
    assert problem(collector.ask("GET", path)) == "request/not-found"


def test_the_client_is_served_to_listed_pages_only_if_a_setting_says_so(tmp_path: Path, collector: Collector) -> None:
    assert collector.ask("GET", "/client/index.js").status == 404
    (tmp_path / "other").mkdir()
    with running(tmp_path / "other", serve_client=True, origins=PAGE) as open_one:
        answer = open_one.ask("GET", "/client/index.js", Origin=PAGE)
        folder = client_folder()
        assert folder is not None and answer.body == (folder / "index.js").read_bytes()
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert (
            "access-control-allow-origin" not in open_one.ask("GET", "/client/index.js", Origin="https://else").headers
        )
        assert "access-control-allow-origin" not in open_one.ask("GET", "/try/client/index.js", Origin=PAGE).headers


def test_an_installation_without_the_client_collects_but_cannot_serve_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_files, "client_folder", lambda: None)
    with running(tmp_path) as bare:
        assert bare.ask("GET", "/try/").status == 404 and bare.ask("GET", "/healthz").status == 200
    with pytest.raises(KeyveilError) as refused:
        client_files.add_client_files(FastAPI(), serve_client=True)
    assert refused.value.code == "serve/client"


def test_the_setting_is_off_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load().serve_client is False
    monkeypatch.setenv("KEYVEIL_SERVE_CLIENT", "true")
    assert load().serve_client is True
    monkeypatch.setenv("KEYVEIL_SERVE_CLIENT", "perhaps")
    with pytest.raises(KeyveilError) as refused:
        load()
    assert refused.value.code == "settings/invalid"
