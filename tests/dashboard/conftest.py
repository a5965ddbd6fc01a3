"""The pages are tested on the databases of the collector."""

from __future__ import annotations

from tests.collector.conftest import postgres, url

__all__ = ["postgres", "url"]
