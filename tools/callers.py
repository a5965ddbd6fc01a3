"""A pytest plugin: which functions of Keyveil each test file calls, and how long it takes (see ``tools.mutants``)."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

_ROOM = f"{Path('src', 'keyveil')}{os.sep}"
_codes: set[CodeType] = set()
_called: dict[str, set[str]] = defaultdict(set)
_seconds: dict[str, float] = defaultdict(float)


def _see(frame: FrameType, event: str, argument: Any) -> None:
    """Note a call, and nothing within it. A profile hook would be called for returns and for functions in C, too."""
    _codes.add(frame.f_code)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    began, file = time.monotonic(), item.nodeid.split("::")[0]
    sys.settrace(_see)
    threading.settrace(_see)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)
        _seconds[file] += time.monotonic() - began
        for code in _codes:
            _, found, module = code.co_filename.rpartition(_ROOM)
            if found:
                _called[file].add(f"{module.removesuffix('.py')}:{code.co_firstlineno}")
        _codes.clear()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if not exitstatus:
        found = {"called": {file: sorted(_called[file]) for file in _seconds}, "seconds": _seconds}
        Path(os.environ["CALLERS"]).write_text(json.dumps(found), encoding="utf-8")
