"""What all tests share: Hypothesis without a clock or luck in its verdict, and the page that ``make soak`` writes."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import settings

# The first call of a compiled kernel takes seconds, and a verdict must not change from run to run.
settings.register_profile("keyveil", deadline=None, derandomize=True)
settings.load_profile("keyveil")


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
        page.write_text(soak_page(sorted(finished, key=lambda report: report.nodeid)), encoding="utf-8")
        terminalreporter.write_line(f"soak results: {page}")


def soak_page(reports: list[pytest.TestReport]) -> str:
    """A table with what each test passed to ``record_property``."""
    rows = [
        f"| `{report.nodeid}` | {report.outcome} | {report.duration:.1f} | "
        f"{'; '.join(f'{name} = {value}' for name, value in report.user_properties)} |"
        for report in reports
    ]
    machine = f"Python {platform.python_version()} on {platform.machine()}, Keyveil {version('keyveil')}"
    head = ["# Soak results", "", f"Written by `make soak`: {machine}.", ""]
    return "\n".join([*head, "| test | outcome | seconds | measured |", "|---|---|---|---|", *rows, ""])
