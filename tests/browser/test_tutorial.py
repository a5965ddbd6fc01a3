"""docs/telemetry.md, executed: its commands make the campaign, and its page, service and application answer it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser.chromium import Chromium
from tests.browser.conftest import administer
from tests.browser.gate import Pages
from tests.clients.blackbox import CLIENT
from tests.collector.processes import ROOT, Served

TEXT = (ROOT / "docs" / "telemetry.md").read_text(encoding="utf-8")
COLLECTOR = "https://collector.example"
MOST_LINES = 10


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, flags=re.DOTALL | re.MULTILINE)


def commands() -> list[list[str]]:
    """The words of every command, without the one that starts the collector."""
    lines = "\n".join(blocks("console")).replace("\\\n", " ").splitlines()
    assert lines[0] == "$ KEYVEIL_ORIGINS=https://app.example keyveil serve"
    return [shlex.split(line.removeprefix("$ ")) for line in lines[1:] if line]


@pytest.fixture(scope="session")
def environment(server: Served) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "KEYVEIL_SERVER": f"http://127.0.0.1:{server.port}"}


def run(words: list[str], folder: Path, environment: dict[str, str], status: int = 0) -> str:
    ran = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == status, ran.stderr
    return ran.stdout


def keyveil(words: list[str], server: Served, environment: dict[str, str]) -> str:
    assert words[0] == "keyveil"
    return run([sys.executable, "-m", *words], server.folder, environment)


@pytest.fixture(scope="session")
def _campaign(server: Served, environment: dict[str, str]) -> None:
    create, opening, *_ = commands()
    assert "hash" in keyveil(create, server, environment)
    assert "features is open" in keyveil(opening, server, environment)


def reports(server: Served) -> int:
    count: int = administer(server, "GET", "/v1/campaigns/features/status")["reports"]
    return count


def told(language: str, server: Served) -> str:
    """The code of a language with the address of the real collector."""
    (code,) = blocks(language)
    assert code.count(COLLECTOR) == 1
    return code.replace(COLLECTOR, f"http://127.0.0.1:{server.port}")


@pytest.mark.usefixtures("_campaign")
def test_the_web_page(server: Served, browser: Chromium, site: Pages) -> None:
    before, complaints = reports(server), list[str]()
    site.own["/telemetry.html"] = told("html", server)
    window = browser.private()
    for _ in range(2):  # the second time nothing new is sent
        page = window.new_page()
        page.on("console", lambda said: complaints.append(said.text))
        page.goto(f"{site.origin}/telemetry.html")
        page.wait_for_function("document.querySelector('#what').textContent.includes('Which features are used')")
        page.click("#agree")
        page.wait_for_function("document.querySelector('#what').textContent === 'sent'")
    window.close()
    assert reports(server) == before + 1
    assert complaints == []


@pytest.mark.usefixtures("_campaign")
@pytest.mark.parametrize("language", ["js", "python"])
def test_the_service_and_the_application(
    language: str, server: Served, environment: dict[str, str], tmp_path: Path
) -> None:
    before = reports(server)
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "keyveil").symlink_to(CLIENT, target_is_directory=True)
    name, program = ("telemetry.mjs", "node") if language == "js" else ("telemetry.py", sys.executable)
    (tmp_path / name).write_text(told(language, server))
    assert "Which features are used" in run([program, name], tmp_path, environment, status=1)
    assert reports(server) == before
    for more in ("--agree", "--later"):
        assert run([program, name, more], tmp_path, environment).splitlines()[-1] == "sent"
        assert reports(server) == before + 1


@pytest.mark.usefixtures("_campaign")
def test_what_comes_out_is_not_shown_before_there_are_enough(server: Served, environment: dict[str, str]) -> None:
    _, _, status, estimates = commands()
    assert "features is open" in keyveil(status, server, environment)
    ran = subprocess.run(
        [sys.executable, "-m", *estimates], cwd=server.folder, env=environment, capture_output=True, text=True
    )
    assert ran.returncode in (0, 2) and "Traceback" not in ran.stderr
    assert "500" in ran.stdout + ran.stderr


@pytest.mark.parametrize("language", ["html", "js", "python"])
def test_ten_lines_are_enough(language: str) -> None:
    code = blocks(language)[0]
    if language == "html":
        code = code.split('<script type="module">\n')[1].split("</script>")[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= MOST_LINES
