"""The rules of the device hold in JavaScript too: what Python's device refuses is refused, with the same codes."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

from tests.device.collector import Collector, document
from tests.device.test_hostile_documents import HOSTILE

HERE = Path(__file__).parent


def run(script: str, *arguments: object) -> Any:
    ran = subprocess.run(["node", HERE / script, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def as_bytes(view: Any) -> str:
    return base64.b64encode(view if isinstance(view, bytes) else json.dumps(view).encode()).decode()


def test_hostile_documents_are_refused_with_the_codes_of_the_python_device(tmp_path: Path) -> None:
    collector = Collector()
    honest = collector.views[collector.open(document()).name]
    path = tmp_path / "views.json"
    path.write_text(json.dumps({"honest": as_bytes(honest), "views": [as_bytes(make()) for _, make, _ in HOSTILE]}))
    found = run("hostile.mjs", path)
    wanted = {name: code for name, _, code in HOSTILE}
    told = {name: one["code"] for (name, *_), one in zip(HOSTILE, found, strict=True)}
    assert told == wanted
    assert all(one["sent"] == 0 and one["same"] for one in found)


def test_the_rules_of_the_device(tmp_path: Path) -> None:
    """Every step of device.mjs says what it expects; it prints how many there were."""
    assert run("device.mjs", tmp_path)["steps"] >= 20


def test_every_exported_name_is_declared() -> None:
    """The declarations in index.d.ts and node.d.ts have every name that the modules export, and every method."""
    told = run("exports.mjs")
    client = HERE.parent.parent / "clients" / "javascript"
    declared = (client / "index.d.ts").read_text() + (client / "node.d.ts").read_text()
    assert {"Device", "FileStorage", "KeyveilError"} <= set(told["names"])
    lacking = [name for name in told["names"] if f"class {name}" not in declared and f"const {name}" not in declared]
    assert lacking == []
    assert [name for name in told["methods"] if f"  {name}(" not in declared] == []


def test_the_wire_vectors() -> None:
    """Hashes of documents, ids and words of the conformance kit of the wire format."""
    told = run("wire.mjs", HERE.parent / "campaign" / "wire_vectors.json")
    assert told["checked"] >= 40
    assert told["wrong"] == []
