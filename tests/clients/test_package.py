"""The package of the JavaScript client: what is shipped, how large it is, and that its declarations fit."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tools import client_files
from tools.client_files import CLIENT, gzipped, modules, needed, shipped

HERE = Path(__file__).parent
ALL, SMALL, BARE = 28_200, 16_000, 12_288


def test_sizes_stay_within_their_bounds() -> None:
    """Gzipped bytes. Of 24, 16 and 12 kB the second is reached, and the third of 1,024 bytes (decision 155)."""
    assert gzipped(modules()) <= ALL
    assert gzipped(needed("small.js")) <= SMALL
    assert gzipped(needed("small.js"), comments=False) <= BARE


def test_what_is_measured_is_what_is_shipped() -> None:
    reached = {name for entry in client_files.ENTRIES for name in needed(entry)}
    assert reached == set(modules())
    small = set(needed("small.js"))
    assert {"src/mechanisms/ssr.js", "src/mechanisms/kvue.js", "src/client/device.js"} <= small
    assert not small & {
        f"src/{name}.js"
        for name in ("client/explain", "groups", "numbers", "mechanisms/topsel", "client/rounds", "scales", "table")
    }


def test_comments_are_taken_off_and_nothing_else() -> None:
    text = '/** What\n * it does. */\nconst a = "http://x"; // why\n\n  // a line\nexport { a };\n'
    assert client_files.bare(text) == 'const a = "http://x";\n\nexport { a };\n'


@pytest.mark.parametrize("entry", client_files.ENTRIES)
def test_modules_without_comments_still_load(entry: str, tmp_path: Path) -> None:
    """So that taking comments off takes off no code."""
    for name in needed(entry):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(client_files.bare((CLIENT / name).read_text()))
    (tmp_path / "package.json").write_text('{"type": "module"}')
    assert {"Device", "Coins", "MemoryStorage"} <= set(exported(tmp_path / entry)["names"])


def exported(entry: Path) -> dict[str, Any]:
    ran = subprocess.run(["node", HERE / "exports.mjs", entry], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout)
    return told


def declared(name: str) -> dict[str, Any]:
    """The names that a declaration file exports, and the members of its classes and interfaces."""
    text = (CLIENT / name).read_text()
    found: dict[str, Any] = {}
    for other in re.findall(r'^export \* from "\./(.*)\.js";', text, flags=re.M):
        found |= declared(f"{other}.d.ts")
    for kind, called, body in re.findall(r"^export (class|interface) (\w+)[^{]*\{(.*?)^\}", text, flags=re.S | re.M):
        members = re.findall(r"^  (\w+)[?(<:]", body, flags=re.M)
        above = re.search(rf"^export interface {called} extends (\w+)", text, flags=re.M)
        inherited = found[above[1]][1] if above else []
        found[called] = (kind, sorted({*members, *inherited} - {"constructor"}))
    for called in re.findall(r"^export const (\w+)", text, flags=re.M):
        found[called] = ("const", [])
    return found


@pytest.mark.parametrize("entry", client_files.ENTRIES)
def test_declarations_and_modules_have_the_same_names(entry: str) -> None:
    """TypeScript itself is not run; names are compared, of all exports and of all methods and fields of classes."""
    told, said = exported(CLIENT / entry), declared(entry.replace(".js", ".d.ts"))
    values = {name: members for name, (kind, members) in said.items() if kind != "interface"}
    assert sorted(values) == sorted(told["names"])
    for name, members in told["members"].items():
        assert set(members) <= set(values[name]), name
        assert set(values[name]) <= set(members) | set(told["fields"][name]), name


def test_what_a_device_gives_is_what_is_declared() -> None:
    said = declared("index.d.ts")
    for name, members in exported(CLIENT / "index.js")["given"].items():
        assert sorted(members) == said[name][1], name


def test_the_package_is_ready_for_the_registry() -> None:
    package = json.loads((CLIENT / "package.json").read_text())
    assert package["license"] == "MIT" and package["type"] == "module" and package["engines"] == {"node": ">=18"}
    assert package["sideEffects"] == ["./node.js"]  # it gives Node 18 a global crypto
    assert "dependencies" not in package and "scripts" not in package
    for entry in package["exports"].values():
        assert all((CLIENT / path).is_file() for path in entry.values())
    entries = {f"{name}{end}" for name in ("index", "small", "node") for end in (".js", ".d.ts")}
    sources = {path.relative_to(CLIENT).as_posix() for path in (CLIENT / "src").rglob("*.js")}
    assert set(shipped()) == entries | sources | {"explain.d.ts", "package.json", "README.md", "LICENSE"}
    if npm := shutil.which("npm"):
        ran = subprocess.run(
            [npm, "pack", "--dry-run", "--json", "--offline"], cwd=CLIENT, capture_output=True, text=True, timeout=120
        )
        (packed,) = json.loads(ran.stdout)
        assert {file["path"] for file in packed["files"]} == set(shipped())


def test_the_hashes_on_the_page_are_those_of_the_files() -> None:
    """``python -m tools.client_files`` writes it anew."""
    assert client_files.PAGE.read_text() == client_files.page()


def test_a_file_that_was_changed_has_another_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(CLIENT, tmp_path / "client")
    (tmp_path / "client" / "src" / "coins.js").open("a").write(" ")
    before = client_files.page()
    monkeypatch.setattr(client_files, "CLIENT", tmp_path / "client")
    assert client_files.page() != before
