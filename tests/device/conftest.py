"""Tests replace parts of what reads documents, so nothing that was read before may be remembered."""

from __future__ import annotations

import pytest

from keyveil.device import notice


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    notice._without_dictionary.cache_clear()
