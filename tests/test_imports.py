"""A device pays only for what it needs."""

from __future__ import annotations

import pydoc
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from keyveil.mechanisms.registry import MECHANISMS, PROTOCOLS

HEAVY = ("scipy", "numba", "pandas", "polars", "pyarrow", "matplotlib", "fastapi", "typer", "rich", "narwhals")

DEVICE = """
import keyveil as kv
mechanism = kv.mechanism({name!r}, kv.Schema(keys=["a", "b", "c"]), epsilon=1)
record = {record!r}
report = mechanism.perturb(record, kv.Coins())
mechanism.encode(report)
"""


def loaded(code: str) -> set[str]:
    script = code + "\nimport sys\nprint(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("kvue", {"a": 1, "c": 0}),
        ("oue", "b"),
        ("olh", "b"),
        ("ss", "a"),
        ("hr", "c"),
        ("piecewise", {"a": 0, "b": 1, "c": 0}),
    ],
)
def test_a_device_loads_nothing_heavy(name: str, record: object) -> None:
    assert not loaded(DEVICE.format(name=name, record=record)) & set(HEAVY)


def test_importing_keyveil_loads_hardly_anything() -> None:
    assert "numpy" not in loaded("import keyveil")


def test_the_public_face_is_complete() -> None:
    import keyveil

    assert all(getattr(keyveil, name) is not None for name in keyveil.__all__)
    with pytest.raises(AttributeError, match=r"has no attribute 'nonsense'$"):
        _ = keyveil.nonsense
    with pytest.raises(AttributeError, match=r"no attribute 'Shema' \(did you mean Schema\?\)$"):
        _ = keyveil.Shema


def test_the_version_is_that_of_the_project_and_costs_nothing_until_it_is_wanted() -> None:
    import keyveil

    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert keyveil.__version__ == project["version"]
    assert "__version__" in dir(keyveil)
    assert "email" not in loaded("import keyveil")  # which reading metadata brings in


def test_help_helps() -> None:
    import keyveil

    told = pydoc.plain(pydoc.render_doc(keyveil.mechanism))
    for word in ("schema", "epsilon", "options", "max_pairs", "Examples", *MECHANISMS, *PROTOCOLS):
        assert word in told


def test_the_example_of_the_help_runs() -> None:
    import doctest

    import keyveil

    examples = doctest.DocTestParser().get_examples(keyveil.mechanism.__doc__ or "")
    assert len(examples) == 4
    names = {"kv": keyveil}
    for example in examples:
        exec(example.source, names)
