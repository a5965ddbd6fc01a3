"""A collector as a service account runs it: not root, nothing writable but its data, no home, no compiler's cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.device.transport import HttpTransport
from keyveil.mechanisms import registry
from tests.collector.campaigns import batch_of, snacks
from tests.collector.crowds import TOKEN, patiently

SOURCE = Path(__file__).parents[2] / "src"
NOBODY = "nobody"
SCHEMA = {"keys": ["burger", "fries", "pepsi"], "low": 1, "high": 5}


# Nobody may read everything, since an interpreter may lie in root's home, but write nothing that is not its own.
AS_NOBODY = (
    *("setpriv", "--reuid", NOBODY, "--regid", "nogroup", "--clear-groups"),
    *("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"),
)


@contextmanager
def service_account() -> Iterator[tuple[Path, tuple[str, ...]]]:
    """A folder with a read-only install and a folder for data, and what starts a process as their account."""
    folder = Path(tempfile.mkdtemp(prefix="keyveil-account-"))
    try:
        shutil.copytree(SOURCE, folder / "install", ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "data").mkdir(mode=0o700)
        (folder / "data" / "token").write_text(TOKEN)
        os.chmod(folder / "data" / "token", 0o600)
        for path in [folder / "install", *(folder / "install").rglob("*")]:
            os.chmod(path, 0o555 if path.is_dir() else 0o444)
        account: tuple[str, ...] = ()
        if os.geteuid() == 0:
            account = AS_NOBODY
            for path in (folder / "data", folder / "data" / "token"):
                shutil.chown(path, NOBODY, "nogroup")
        os.chmod(folder, 0o755)
        yield folder, account
    finally:
        for path in [folder / "install", *(folder / "install").rglob("*")]:
            if path.is_dir():
                os.chmod(path, 0o755)
        shutil.rmtree(folder)


@contextmanager
def collector() -> Iterator[tuple[HttpTransport, Path]]:
    with service_account() as (folder, account):
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(folder / "install"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "KEYVEIL_ADMIN_TOKEN_FILE": str(folder / "data" / "token"),
            "KEYVEIL_TICK_SECONDS": "0.2",
        }
        with open(folder / "said", "w") as said:
            process = subprocess.Popen(
                [*account, sys.executable, "-m", "keyveil", "serve", "--port", "0"],
                cwd=folder / "data",
                env=environment,
                stdout=said,
                stderr=said,
            )
        try:
            yield HttpTransport(f"http://127.0.0.1:{_port(process, folder / 'said')}", timeout=120), folder
        finally:
            process.terminate()
            process.wait(60)


def _port(process: subprocess.Popen[bytes], said: Path) -> int:
    for _ in range(1200):
        found = re.search(r"Listening on http://\S+:(\d+)", said.read_text())
        if found:
            return int(found[1])
        assert process.poll() is None, said.read_text()
        time.sleep(0.1)
    raise AssertionError("The collector did not start.")


def ask(transport: HttpTransport, method: str, path: str, body: Any = None) -> Any:
    import json

    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    answer = patiently(lambda: transport.request(method, path, data, headers))
    assert answer.status in (200, 201), (path, answer.status, answer.body)
    return json.loads(answer.body)


def protocols() -> dict[str, dict[str, Any]]:
    """Every mechanism that a campaign takes, with its usual options."""
    from keyveil.collector.service import Service

    found = {}
    with tempfile.TemporaryDirectory() as folder:
        service = Service(f"sqlite:///{folder}/try.db")
        try:
            for name in registry.names():
                asked = {"name": name, "epsilon": "1"}
                for more in ({}, {"max_pairs": 2}):
                    try:
                        service.create(snacks(name=name, protocol={**asked, **more}))
                    except Exception:
                        continue
                    found[name] = {**asked, **more}
                    break
        finally:
            service.close()
    return found


def counted(names: list[str]) -> dict[str, int]:
    """How many of thirteen reports to each mechanism were counted by such a collector."""
    asked = protocols()
    with collector() as (transport, folder):
        for name in names:
            document = snacks(name=name, schema=SCHEMA, protocol=asked[name], rounds=[{}], min_reports=1)
            ask(transport, "POST", "/v1/campaigns", document)
            ask(transport, "PATCH", f"/v1/campaigns/{name}", {"action": "open"})
            view = ask(transport, "GET", f"/v1/campaigns/{name}")
            round = RoundDocument.from_document(view["round"]["document"], Campaign.from_document(view["campaign"]))
            records: Any = ({"fries": 4},) if "one" in round.mechanism.takes.__class__.__name__ else None
            batch = batch_of(round, 13, records or ({"fries": 4}, {"pepsi": 2}))
            told = ask(transport, "POST", f"/v1/campaigns/{name}/reports", batch.to_json())
            assert told["accepted"] == 13, (name, told)
            ask(transport, "PATCH", f"/v1/campaigns/{name}", {"action": "close"})
        folded: dict[str, int] = {}
        for _ in range(1800):
            for name in names:
                folded[name] = ask(transport, "GET", f"/v1/campaigns/{name}/status")["rounds"][0]["folded"]
            if all(folded.values()):
                break
            time.sleep(0.1)
        ready = patiently(lambda: transport.request("GET", "/readyz", b"", {}))
        assert ready.status == 200, ready.body
        assert not list((folder / "install").rglob("*.nbi"))
    return folded


def test_reports_are_counted_without_a_cache_or_a_home() -> None:
    assert counted(["ssr", "pckv-ue"]) == {"ssr": 13, "pckv-ue": 13}


@pytest.mark.soak
def test_reports_of_every_mechanism_are_counted_without_a_cache_or_a_home(
    record_property: Callable[[str, object], None],
) -> None:
    names = list(protocols())
    record_property("mechanisms", len(names))
    assert counted(names) == dict.fromkeys(names, 13)
    assert len(names) >= 20
