"""What is installed is what the lock says: the image's steps, the bill of materials, and the audit."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tools import audit, sbom

ROOT = Path(__file__).parents[1]
LOCK, RUNS = ((ROOT / name).read_text() for name in ("requirements.lock", "requirements-run.lock"))
STEPS = re.findall(r"^RUN (.*?)(?<!\\)$", (ROOT / "Dockerfile").read_text(), re.M | re.S)


def test_every_locked_package_has_hashes_and_no_address() -> None:
    for lock, least in ((LOCK, 100), (RUNS, 50)):
        blocks = re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.M)[1:]
        assert len(blocks) > least and all("--hash=sha256:" in block for block in blocks)
        assert "://" not in lock
        assert "hatchling" in audit.pinned(lock)  # the build backend, too


def test_what_runs_is_a_part_of_what_is_installed_and_no_tool_of_developers() -> None:
    everything, runs = audit.pinned(LOCK), audit.pinned(RUNS)
    assert runs.items() <= everything.items()
    assert not {"pytest", "mypy", "ruff", "pyspark", "sphinx"} & set(runs)


def test_the_image_installs_only_what_was_checked() -> None:
    """One step fetches, with hashes; every other one installs without an index."""
    fetching = [step for step in STEPS if "pip download" in step]
    installing = [part for step in STEPS for part in step.split("&&") if "pip install" in part]
    assert len(fetching) == 1 and "--require-hashes" in fetching[0] and "--only-binary :all:" in fetching[0]
    assert len(installing) == 2 and all("--no-index --find-links /wheels" in part for part in installing)
    bases = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.M)
    assert set(bases) == {"${BASE}"}
    assert re.search(r"^ARG BASE=python:\d+\.\d+\.\d+-slim$", (ROOT / "Dockerfile").read_text(), re.M)


@pytest.mark.soak
def test_the_steps_of_the_image_run_without_an_engine(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """The build stage, with its folders below one of our own; then the installed command answers."""
    for name in ("pyproject.toml", "README.md", "LICENSE", "requirements-run.lock", "src", "clients", "tools"):
        (tmp_path / name).symlink_to(ROOT / name)
    for step in [step for step in STEPS if "groupadd" not in step]:
        here = (
            step.replace("\\\n", " ").replace("/wheels", str(tmp_path / "wheels")).replace("/opt/", f"{tmp_path}/opt/")
        )
        here = re.sub(r"(^|&& )python -m", rf"\1{shlex.quote(sys.executable)} -m", here)
        ran = subprocess.run(["/bin/sh", "-ec", here], cwd=tmp_path, capture_output=True, text=True, env=_bare())
        assert ran.returncode == 0, ran.stderr[-2000:]
    keyveil = tmp_path / "opt" / "keyveil" / "bin" / "keyveil"
    assert subprocess.run([keyveil, "--version"], capture_output=True, text=True, check=True).stdout.startswith(
        "keyveil"
    )
    bill = json.loads((tmp_path / "opt" / "keyveil" / "sbom.json").read_text())
    names = {one["name"] for one in bill["components"]}
    record_property("packages in the image", len(names))
    assert {"fastapi", "numba", "psycopg"} <= names and not names & {"pytest", "mypy", "ruff", "hatchling"}


def _bare() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}


def test_the_bill_of_materials_is_what_is_installed() -> None:
    bill, pinned = sbom.bill(), audit.pinned(LOCK)
    assert bill == sbom.bill() and bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "keyveil"
    for one in bill["components"]:
        assert one["purl"] == f"pkg:pypi/{one['name']}@{one['version']}"
        if one["name"] in pinned:
            assert one["version"] == pinned[one["name"]]
    known = {one["bom-ref"] for one in bill["components"]}
    assert all(set(one["dependsOn"]) <= known for one in bill["dependencies"])
    json.dumps(bill)


@contextmanager
def advisories(answer: Callable[[Any], Any]) -> Iterator[str]:
    """A source of advisories on the loopback."""

    class Source(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer(asked)).encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Source)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def lookup(monkeypatch: pytest.MonkeyPatch, source: str) -> int:
    monkeypatch.setenv("OSV_SOURCE", source)
    return audit.main([str(ROOT / "requirements.lock")])


def test_an_audit_says_what_it_found_and_when_it_could_not_look(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def one_is_vulnerable(asked: Any) -> Any:
        bad = [query["package"]["name"] == "starlette" for query in asked["queries"]]
        return {"results": [{"vulns": [{"id": "OSV-1"}]} if one else {} for one in bad]}

    with advisories(one_is_vulnerable) as source:
        assert lookup(monkeypatch, source) == audit.FOUND
    assert "starlette" in capsys.readouterr().out
    with advisories(lambda asked: {"results": [{} for _ in asked["queries"]]}) as source:
        assert lookup(monkeypatch, source) == 0
    assert "none with known" in capsys.readouterr().out
    assert lookup(monkeypatch, source) == audit.NOT_DONE  # it is gone now
    assert capsys.readouterr().out.startswith("NOT AUDITED")
    with advisories(lambda asked: {"strange": True}) as source:
        assert lookup(monkeypatch, source) == audit.NOT_DONE
