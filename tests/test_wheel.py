"""It installs as promised: the wheel alone, and with each extra, does what README and docs/install.md say.

``spark`` is left out: PySpark is hundreds of megabytes, and tests/engines runs it from this environment. ``all``
contains it and is left out for the same reason; ``dev`` is what runs these tests.
"""

from __future__ import annotations

import ast
import sys
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

import keyveil as kv
from tests.environments import ROOT, Environment, built_wheel, closure, metadata_of, named_by

PEERS = {"pure-ldp", "multi-freq-ldpy"}  # bench.peers installs them for one run
EXTRAS = ["", "local", "plots", "server"]
NO_FRAMES = {"estimates.to_frame()": "install/local"}
REFUSED: dict[str, dict[str, str]] = {"": NO_FRAMES, "local": {}, "plots": NO_FRAMES, "server": NO_FRAMES}
CLOSED = {
    "": {"cli", "collector", "dashboard"},
    "local": {"collector", "dashboard"},
    "plots": {"cli", "collector", "dashboard"},
    "server": set(),
}

EXAMPLE = """
import ast, json, sys
names, refused = {}, {}
for statement in ast.parse(sys.argv[1]).body:
    try:
        exec(compile(ast.Module([statement], []), "README.md", "exec"), names)
    except names["kv"].KeyveilError as mistake:
        refused[ast.unparse(statement)] = [mistake.code, mistake.sentence]
estimates = names["estimates"]
print(json.dumps({"refused": refused, "rows": estimates.rows(), "version": names["kv"].__version__}))
"""
MODULES = """
import importlib, json, pkgutil, keyveil
closed = {}
for one in pkgutil.walk_packages(keyveil.__path__, "keyveil.", onerror=lambda name: None):
    if one.name in ("keyveil.__main__", "keyveil.collector.migrations.env"):
        continue  # they run when they are imported
    try:
        importlib.import_module(one.name)
    except ModuleNotFoundError as missing:
        closed[one.name.split(".")[1]] = missing.name
print(json.dumps(closed))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module", params=EXTRAS, ids=[f"keyveil[{extra}]" if extra else "keyveil" for extra in EXTRAS])
def installed(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Environment]:
    extra: str = request.param
    folder = tmp_path_factory.mktemp("environment")
    return extra, Environment(folder, wheel, *([extra] if extra else []))


def example() -> str:
    """The Python example of README."""
    return (ROOT / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]


def test_the_example_of_the_readme_runs_to_its_estimates(installed: tuple[str, Environment]) -> None:
    extra, environment = installed
    told = environment.told(EXAMPLE, example())
    assert {line: code for line, (code, _) in told["refused"].items()} == REFUSED[extra]
    assert all("pip install 'keyveil[local]'" in sentence for _, sentence in told["refused"].values())
    assert [row["key"] for row in told["rows"]] == ["burger", "fries", "pepsi"]
    assert all(row["frequency_se"] > 0 for row in told["rows"])
    assert told["version"] == kv.__version__


def test_every_room_opens_that_the_extra_is_for(installed: tuple[str, Environment]) -> None:
    extra, environment = installed
    assert set(environment.told(MODULES)) == CLOSED[extra]


def test_the_command_works_or_says_in_one_sentence_what_brings_it(installed: tuple[str, Environment]) -> None:
    extra, environment = installed
    done = environment.run("-m", "keyveil", "certify", "--mechanism", "kvue", "--epsilon", "1", "--keys", "3")
    if "cli" in CLOSED[extra]:
        assert done.returncode == 2
        assert done.stderr == "keyveil: the command line needs typer: pip install 'keyveil[local]'\n"
    else:
        assert done.returncode == 0, done.stderr
        assert "kvue" in done.stdout


def test_a_collector_without_its_extra_is_refused_in_one_sentence(installed: tuple[str, Environment]) -> None:
    extra, environment = installed
    if extra == "local":
        done = environment.run("-m", "keyveil", "serve")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1 and "pip install 'keyveil[server]'" in done.stderr


def test_a_collector_finds_its_pages_and_the_client_in_the_wheel(wheel: Path) -> None:
    client, page = ROOT / "clients" / "javascript", ROOT / "src" / "keyveil" / "collector" / "try_it"
    with zipfile.ZipFile(wheel) as whole:
        for folder, inside in ((client, "keyveil/clients/javascript"), (page, "keyveil/collector/try_it")):
            files = [file for file in folder.rglob("*") if file.suffix in (".js", ".html", ".css")]
            assert len(files) >= 4
            for file in files:
                assert whole.read(f"{inside}/{file.relative_to(folder).as_posix()}") == file.read_bytes()


# -- what the metadata names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("forgotten", ["numpy", "cryptography", "msgspec"])
def test_a_requirement_that_is_not_declared_is_missed(wheel: Path, tmp_path: Path, forgotten: str) -> None:
    """The tests above must fail on a wheel whose metadata forgets one."""
    spoilt = metadata_of(without(wheel, tmp_path, f"Requires-Dist: {forgotten}"))
    assert forgotten not in closure(spoilt, frozenset())
    environment = Environment(tmp_path / "environment", wheel, metadata=spoilt)
    if forgotten == "msgspec":  # the example has no use for it
        assert set(environment.told(MODULES)) > CLOSED[""]
    else:
        assert f"No module named '{forgotten}'" in environment.run("-c", EXAMPLE, example()).stderr


def test_an_extra_that_lacks_a_package_is_missed(wheel: Path, tmp_path: Path) -> None:
    spoilt = without(wheel, tmp_path, "Requires-Dist: sqlalchemy")
    # alembic brings sqlalchemy along, so that only the declaration itself shows it
    assert {"collector: sqlalchemy"} <= undeclared(spoilt)


def test_everything_that_is_imported_is_declared(wheel: Path) -> None:
    assert undeclared(wheel) == set()


def without(wheel: Path, folder: Path, line: str) -> Path:
    """The wheel without the lines of its metadata that begin like this."""
    folder.mkdir(exist_ok=True)
    spoilt = folder / wheel.name
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(spoilt, "w") as copy:
        for name in whole.namelist():
            data = whole.read(name)
            if name.endswith("/METADATA"):
                kept = [one for one in data.decode().splitlines(keepends=True) if not one.startswith(line)]
                data = "".join(kept).encode()
            copy.writestr(name, data)
    return spoilt


def undeclared(wheel: Path) -> set[str]:
    """Packages that a room imports, anywhere in its code, and none of the extras that open it names."""
    metadata, owners = metadata_of(wheel), owners_of_packages()

    def named(*extras: str) -> set[str]:
        found = [*named_by(metadata, frozenset()), *named_by(metadata, frozenset(extras))]
        return {canonicalize_name(one.name) for one in found}

    opened_by = {
        "collector": [named("server")],
        "cli": [named("local", "server")],
        "engines": [named("local", "spark")],
    }
    anything = [named("local", "plots", "server") | {"polars"}]  # frames of polars are for those who have it already
    opened_by["bench"] = [anything[0] | {canonicalize_name(peer) for peer in PEERS}]  # in an environment of their own
    return {
        f"{room}: {package}"
        for room, package in imported()
        for allowed in opened_by.get(room, anything)
        if not {canonicalize_name(owner) for owner in owners.get(package, [package])} & allowed
    }


@cache
def owners_of_packages() -> Mapping[str, list[str]]:
    """By the name under which a package is imported, the distributions that bring it."""
    return packages_distributions()


@cache
def imported() -> frozenset[tuple[str, str]]:
    """Room and package of every import of somebody else's code, but for those that only types need."""
    return frozenset(_imported())


def _imported() -> Iterator[tuple[str, str]]:
    for path in (ROOT / "src" / "keyveil").rglob("*.py"):
        room = path.relative_to(ROOT / "src" / "keyveil").parts[0]
        for node in _running(ast.parse(path.read_text(encoding="utf-8"))):
            for name in _modules(node):
                package = name.partition(".")[0]
                if package != "keyveil" and package not in sys.stdlib_module_names:
                    yield room, package


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from _running(node)


def _modules(node: Any) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("import_module", "_load") and node.args:
        return [str(node.args[0].value)] if isinstance(node.args[0], ast.Constant) else []
    return []
