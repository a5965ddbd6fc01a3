"""The pages are tested on the databases of the collector."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collector.conftest import postgres, url
from tests.dashboard.browsing import Pages, pages

__all__ = ["postgres", "url"]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Pages]:
    with pages(tmp_path) as one:
        yield one
