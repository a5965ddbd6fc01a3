"""Reports on estimates as files: what each command knows besides the numbers, put on the page of ``display.report``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import keyveil
from keyveil.cli.data import say
from keyveil.cli.words import command
from keyveil.core.errors import KeyveilError
from keyveil.core.estimates import Estimates
from keyveil.core.histogram import Histogram
from keyveil.display.report import About, page
from keyveil.mechanisms.base import Mechanism

ReportFile = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Write a report, one page by itself (.html).")
]


def write_page(estimates: Estimates, path: Path, about: About, values: Histogram | None = None) -> None:
    """A report on estimates, with how they were made and the command that makes it again."""
    facts = (*about.facts, *_facts(estimates))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(estimates, replace(about, facts=facts, command=command()), values), encoding="utf-8")
    except OSError as reason:
        raise KeyveilError("output/file", f"The page {path.name} cannot be written: {reason}.") from reason
    say(f"Written: {path}")


def privacy_of(mechanism: Mechanism) -> tuple[str, ...]:
    """What epsilon means for the people who answered; the planner, which says it, is loaded when it is asked."""
    from keyveil.planning.preview import privacy_in_words

    return privacy_in_words(mechanism)


def _facts(estimates: Estimates) -> list[tuple[str, str]]:
    options = ", ".join(f"{name}={value}" for name, value in estimates.header.options.items() if value is not None)
    return [
        ("mechanism", f"{estimates.mechanism} ({options})" if options else estimates.mechanism),
        ("reports", f"{estimates.n:,}"),
        ("keys", f"{estimates.schema.d:,}"),
        ("confidence", f"{100 * estimates.confidence:g} %"),
        ("written by", f"Keyveil {keyveil.__version__}"),
    ]
