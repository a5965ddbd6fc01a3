"""A device pays only for what it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
    with pytest.raises(AttributeError):
        _ = keyveil.nonsense
