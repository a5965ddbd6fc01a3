"""What all tests share: Hypothesis without a clock or luck in its verdict, and the page that ``make soak`` writes."""

from __future__ import annotations

import gc
import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import settings

# Two processes of tests on two cores, and all that they start: a second thread in a product of matrices only spins.
# NumPy reads this when it is first imported, which is after this file.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The first call of a compiled kernel takes seconds, and a verdict must not change from run to run.
settings.register_profile("keyveil", deadline=None, derandomize=True)
settings.load_profile("keyveil")


@pytest.fixture(autouse=True)
def _closed_pictures() -> Iterator[None]:
    """pyplot keeps every figure until somebody closes it, and warns of more than twenty."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


# Ten thousand tests and their modules stay until the end: no search for garbage need look through them, and those that
# are left can be rarer than Python's, which are for small programs.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak-results", type=Path, help="Markdown page that gets the outcome of every test of this run")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    page: Path | None = config.getoption("--soak-results")
    if page is None:
        return
    finished = [
        report
        for outcome in ("passed", "failed", "error")
        for report in terminalreporter.getreports(outcome)
        if report.when == "call" or report.failed
    ]
    if finished:
        before = page.read_text(encoding="utf-8") if page.exists() else ""
        page.write_text(soak_page(finished, before), encoding="utf-8")
        terminalreporter.write_line(f"soak results: {page}")


def soak_page(reports: list[pytest.TestReport], before: str = "") -> str:
    """A table with what each test passed to ``record_property``; tests that were not run keep the row they had."""
    rows = {line.split("`")[1]: line for line in before.splitlines() if line.startswith("| `")}
    for report in reports:
        measured = "; ".join(f"{name} = {value}" for name, value in report.user_properties)
        rows[report.nodeid] = f"| `{report.nodeid}` | {report.outcome} | {report.duration:.1f} | {measured} |"
    machine = f"Python {platform.python_version()} on {platform.machine()}, Keyveil {version('keyveil')}"
    head = ["# Soak results", "", f"Written by `make soak`, or by parts of it: {machine}.", ""]
    table = ["| test | outcome | seconds | measured |", "|---|---|---|---|"]
    return "\n".join([*head, *table, *(rows[name] for name in sorted(rows)), ""])
