"""Peers, each in its best form, in an environment of their own: nothing of theirs enters the project.

``environment`` installs them once, with the pins that make them work, into a folder of the user's cache.
``peer_times.py`` is run there; then Keyveil does the same work in the process that measures. The rival of a row is the
faster of the peers that can do it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from keyveil.bench.measuring import read
from keyveil.core.errors import KeyveilError

PINS = (
    "pure-ldp==1.2.0",
    "multi-freq-ldpy==0.2.5",
    "scikit-learn",  # pure-ldp imports it and does not ask for it, and so the next
    "statsmodels",
    "xxhash<4",  # later ones refuse the texts that both peers hash
)


def measure_peers(quick: bool, only: str = "") -> Iterator[dict[str, Any]]:
    """The rows against peers."""
    with tempfile.NamedTemporaryFile("wb", suffix=".json") as file:
        file.write(msgspec.json.encode(peer_times(environment(), quick)))
        file.flush()
        command = [sys.executable, "-m", "keyveil.bench.worker", "--only", only, "--peers", file.name]
        yield from read([*command, *(["--quick"] if quick else [])])


def environment() -> Path:
    """The Python of the peers' environment, which is made where it is missing."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = f"{PINS} {sys.version_info[:2]}"
    folder = cache / "keyveil" / f"peers-{hashlib.sha256(place.encode()).hexdigest()[:12]}"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (folder / "ready").exists():
        _done([sys.executable, "-m", "venv", "--clear", str(folder)])
        _done([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PINS])
        (folder / "ready").touch()
    return python


def peer_times(python: Path, quick: bool) -> dict[str, dict[str, float]]:
    """Seconds a report, by operation and peer."""
    script = str(Path(__file__).with_name("peer_times.py"))
    found: dict[str, dict[str, float]] = msgspec.json.decode(
        _done([str(python), script, *(["--quick"] if quick else [])]).splitlines()[-1]
    )
    return found


def _done(command: list[str]) -> bytes:
    try:
        return subprocess.run(command, check=True, capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError) as reason:
        said = (getattr(reason, "stderr", b"") or b"").decode(errors="replace").strip().splitlines()
        last = said[-1].rstrip(".") if said else str(reason)
        raise KeyveilError("bench/peers", f"The peers cannot be measured here: {last}.") from reason
