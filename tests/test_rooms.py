"""Whoever uses mechanisms and protocols asks what they tell: never which class they are, nor what they are called."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from keyveil.mechanisms.registry import MECHANISMS, PROTOCOLS, ROUNDS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/keyveil"
OWN = ("mechanisms", "protocols")  # the rooms that concrete classes live in
NAMES = {*MECHANISMS, *PROTOCOLS, *ROUNDS} - {"split", "project", "presence", "overflow"}  # options, too
CLASSES = {where.split(":")[1] for table in (MECHANISMS, PROTOCOLS, ROUNDS) for where in table.values()}
MODULES = {where.split(":")[0] for table in (MECHANISMS, PROTOCOLS, ROUNDS) for where in table.values()}


def outside() -> list[Path]:
    return [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] not in OWN]


def found(tree: ast.AST) -> Iterator[str]:
    """Imports of concrete modules, and questions for a class or a name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (f"imports {node.module}" for one in [node.module] if one in MODULES)
            yield from (f"imports {one.name}" for one in node.names if f"{node.module}.{one.name}" in MODULES)
        elif isinstance(node, ast.Import):
            yield from (f"imports {one.name}" for one in node.names if one.name in MODULES)
        elif isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
            yield from (f"compares with {name}" for part in parts for name in constants(part) if name in NAMES)
        elif isinstance(node, ast.MatchValue):
            yield from (f"matches {name}" for name in constants(node.value) if name in NAMES)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("isinstance", "issubclass")
        ):
            yield from (f"asks for {one}" for one in names(node.args[1]) if one in CLASSES | {"OneRound", "SideBySide"})


def constants(node: ast.expr) -> list[str]:
    return [one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def names(node: ast.expr) -> list[str]:
    return [
        one.id if isinstance(one, ast.Name) else one.attr
        for one in ast.walk(node)
        if isinstance(one, ast.Name | ast.Attribute)
    ]


def test_nobody_asks_for_a_class_or_a_name() -> None:
    wrong = [(path.name, told) for path in outside() for told in found(ast.parse(path.read_text(encoding="utf-8")))]
    assert wrong == []


def test_protocols_ask_for_no_class() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (SOURCE / "protocols").rglob("*.py")]
    assert [told for tree in trees for told in found(tree) if not told.startswith("imports")] == []


@pytest.mark.parametrize(
    "code",
    [
        "from keyveil.mechanisms.keyvalue.wsr import WSR",
        "from keyveil.mechanisms.keyvalue import wsr",
        "import keyveil.protocols.pilot",
        "isinstance(one, registry.WSR)",
        "issubclass(kind, (WSR, int))",
        "isinstance(protocol, OneRound)",
        "one.name == 'wsr'",
        "one.name in {'wsr', 'ssr'}",
        "match name:\n    case 'wsr': pass",
    ],
)
def test_disguises_are_seen(code: str) -> None:
    assert list(found(ast.parse(code)))


def test_the_linter_knows_every_room_and_every_protocol() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    by_id = {one["id"]: one for one in contracts}
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")} - {"core", "kernels", *OWN}
    listed = {name.split(".")[1] for name in by_id["capabilities"]["source_modules"]}
    assert rooms | {"dashboard", "robustness"} == listed
    protocols = {where.split(":")[0] for where in PROTOCOLS.values()}
    assert protocols <= set(by_id["protocols-by-name"]["forbidden_modules"])
    inside = {where.split(":")[0].rpartition(".")[0] for table in (MECHANISMS, ROUNDS) for where in table.values()}
    assert inside == set(by_id["capabilities"]["forbidden_modules"])
