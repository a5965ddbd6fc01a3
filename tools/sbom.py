"""``python tools/sbom.py``: what is installed beside this Python, as a CycloneDX 1.5 document on standard output.

Read from the metadata of the installed distributions, so it says what runs and not what was asked for. It needs the
standard library alone, and says the same twice: sorted, without a date or a number of its own.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from importlib.metadata import Distribution, distributions
from typing import Any


def bill() -> dict[str, Any]:
    """The document."""
    found = {_name(one): one for one in distributions()}
    own = found.pop("keyveil", None)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": _component("keyveil", own) if own else {"type": "application", "name": "unknown"}},
        "components": [_component(name, one) for name, one in sorted(found.items())],
        "dependencies": [
            {"ref": _reference(name, one), "dependsOn": _needs(one, found)} for name, one in sorted(found.items())
        ],
    }


def _component(name: str, one: Distribution) -> dict[str, Any]:
    said = one.metadata
    licence = (
        said["License-Expression"]
        if "License-Expression" in said
        else next(
            (line.rpartition(" :: ")[2] for line in said.get_all("Classifier") or () if line.startswith("License ::")),
            None,
        )
    )
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": _reference(name, one),
        "name": name,
        "version": one.version,
        "purl": _reference(name, one),
    }
    if licence:
        component["licenses"] = [{"license": {"name": licence}}]
    record = one.read_text("RECORD")  # the hash of every installed file
    if record:
        digest = hashlib.sha256(record.encode()).hexdigest()
        component["properties"] = [{"name": "keyveil:sha256-of-record", "value": digest}]
    return component


def _needs(one: Distribution, found: dict[str, Distribution]) -> list[str]:
    names = {re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", line, maxsplit=1)[0]).lower() for line in one.requires or ()}
    return sorted(_reference(name, found[name]) for name in names if name in found)


def _name(one: Distribution) -> str:
    return re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower()


def _reference(name: str, one: Distribution) -> str:
    return f"pkg:pypi/{name}@{one.version}"


if __name__ == "__main__":
    json.dump(bill(), sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")
