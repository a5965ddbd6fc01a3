"""Mechanisms of others for one run: a Python file is run, and what it defines is registered under its own name.

The file runs with all rights of this process. Whoever ranks a stranger's file reads it first.
"""

from __future__ import annotations

import inspect
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from keyveil.core.errors import KeyveilError, MechanismError
from keyveil.lab.record.cells import digest
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import names, register
from keyveil.protocols.base import Protocol

CODE = "compare/submit"


def submitted(path: Path) -> dict[str, str]:
    """Register the mechanisms and protocols of a file; gives their names, each with the digest of the file.

    What the file registers itself counts, and else every class in it that has a ``name`` of its own.
    """
    if path.suffix != ".py" or not path.is_file():
        raise MechanismError(CODE, f"--submit takes a Python file that is there, not {path}.")
    before = set(names())
    module = _run(path)
    own = {vars(kind)["name"]: kind for _, kind in inspect.getmembers(module, inspect.isclass) if _ours(kind, module)}
    for name, kind in own.items():
        register(name, kind)
    found = [name for name in names() if name not in before] or list(own)
    if not found:
        raise MechanismError(
            CODE, f"{path.name} defines no mechanism: a class with a name, as in docs/how-to-add-a-mechanism.md."
        )
    return dict.fromkeys(found, digest(path))


def register_again(paths: tuple[Path, ...]) -> None:
    """The same in another process."""
    for path in paths:
        submitted(path)


def _run(path: Path) -> ModuleType:
    name = f"keyveil_submitted_{path.stem}"
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except KeyveilError:
        raise
    except Exception as reason:  # other people's modules may fail in any way while they load
        told = f"{type(reason).__name__}: {str(reason).splitlines()[0] if str(reason) else ''}"
        raise MechanismError(CODE, f"{path.name} cannot be run ({told.rstrip(': .')}).") from reason
    return module


def _ours(kind: Any, module: ModuleType) -> bool:
    return (
        issubclass(kind, Mechanism | Protocol)
        and kind.__module__ == module.__name__
        and isinstance(vars(kind).get("name"), str)
    )
