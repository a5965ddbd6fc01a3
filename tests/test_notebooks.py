"""The notebooks of examples/ run from top to bottom: their code cells, one after the other, without Jupyter."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from keyveil.mechanisms import registry

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return found


def test_there_are_three_and_readme_names_them() -> None:
    readme = (NOTEBOOKS[0].parent / "README.md").read_text(encoding="utf-8")
    assert len(NOTEBOOKS) == 3 and all(path.name in readme for path in NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_a_notebook_without_outputs(path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["nbformat"] == 4 and document["metadata"]["kernelspec"]["language"] == "python"
    assert {cell["cell_type"] for cell in document["cells"]} == {"markdown", "code"}
    assert not [cell for cell in document["cells"] if cell.get("outputs") or cell.get("execution_count")]
    lines = [line for cell in document["cells"] for line in "".join(cell["source"]).splitlines()]
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_from_top_to_bottom(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a cell ends with is shown, as a notebook would."""
    from matplotlib import pyplot

    pyplot.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    module = ModuleType("__notebook__")  # dataclasses look their module up
    monkeypatch.setitem(sys.modules, "__notebook__", module)
    before = set(registry.names())
    try:
        for place, cell in enumerate(cells(path)):
            if cell["cell_type"] == "code":
                shown = _run("".join(cell["source"]), f"{path.name}, cell {place}", vars(module))
                assert shown is None or repr(shown)
                if hasattr(shown, "_repr_html_"):
                    assert shown._repr_html_() is None or "<" in shown._repr_html_()
    finally:
        for name in set(registry.names()) - before:
            registry.unregister(name)
        pyplot.close("all")


def _run(code: str, name: str, names: dict[str, Any]) -> Any:
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), name, "eval"), names)  # type: ignore[attr-defined]
