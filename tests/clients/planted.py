"""A copy of the client with one mistake, beside a script of these tests that imports it."""

from __future__ import annotations

import shutil
from pathlib import Path

HERE = Path(__file__).parent
CLIENT = HERE.parent.parent / "clients" / "javascript"


def planted(place: Path, script: str, file: str, right: str, wrong: str) -> Path:
    """The script in a new tree, in which a file of the client has ``wrong`` where it had ``right``, once."""
    client, tests = place / "clients" / "javascript", place / "tests" / "clients"
    shutil.copytree(CLIENT, client)
    tests.mkdir(parents=True)
    shutil.copy(HERE / script, tests)
    source = (client / "src" / file).read_text()
    assert source.count(right) == 1, f"{file} has {source.count(right)} times: {right}"
    (client / "src" / file).write_text(source.replace(right, wrong))
    return tests / script
