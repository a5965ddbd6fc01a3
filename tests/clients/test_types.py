"""TypeScript's own compiler (Debian's node-typescript) checks the declarations, and programs that use them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.client_files import CLIENT

HERE = Path(__file__).parent
OPTIONS = {
    "strict": True,
    "noEmit": True,
    "target": "es2022",
    "module": "node16",
    "moduleResolution": "node16",
    "lib": ["es2022", "dom"],
    "types": [],
}


def compiled(folder: Path, *programs: str, client: Path = CLIENT) -> list[str]:
    """What the compiler says of programs beside which the package is installed, in one run."""
    tsc = shutil.which("tsc")
    assert tsc is not None, "There is no tsc on this machine: `make system` installs Debian's node-typescript."
    (folder / "node_modules").mkdir(parents=True)
    (folder / "node_modules" / "keyveil").symlink_to(client, target_is_directory=True)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": OPTIONS, "files": [*programs]}))
    for name in programs:
        shutil.copy(HERE / "types" / name, folder)
    ran = subprocess.run([tsc, "-p", folder], capture_output=True, text=True, timeout=300, cwd=folder)
    said = ran.stdout.splitlines()
    assert bool(said) == bool(ran.returncode), ran.stderr
    return said


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return compiled(tmp_path_factory.mktemp("types"), "consumer.ts", "wrong.ts", "slip.ts")


def test_a_program_that_uses_all_entries_compiles_and_the_declarations_themselves_do(said: list[str]) -> None:
    assert [line for line in said if not line.startswith("slip.ts")] == []


def test_a_program_with_a_mistake_does_not_compile(said: list[str]) -> None:
    """Eleven marked mistakes are in wrong.ts, where a mark without a mistake is an error; slip.ts has one without."""
    assert (HERE / "types" / "wrong.ts").read_text().count("// @ts-expect-error") == 11
    assert [re.sub(r"\(.*?\)", "", line).split(":")[:2] for line in said] == [["slip.ts", " error TS2554"]]


def test_declarations_that_forget_something_are_noticed(tmp_path: Path) -> None:
    client = tmp_path / "client"
    shutil.copytree(CLIENT, client)
    path = client / "index.d.ts"
    text = path.read_text()
    for before, after in (
        ("  life: string;\n", "  life: any;\n"),
        ("  withdraw(name: string)", "  leave(name: string)"),
    ):
        assert text.count(before) == 1
        text = text.replace(before, after)
    path.write_text(text)
    said = compiled(tmp_path / "app", "consumer.ts", "wrong.ts", client=client)
    assert {line.split("(")[0] for line in said} == {"consumer.ts", "wrong.ts"}
