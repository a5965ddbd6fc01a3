"""Reports on estimates as files: what each command knows besides the numbers, put on the page of ``display.report``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import keyveil
from keyveil.cli.data import say
from keyveil.core.errors import KeyveilError
from keyveil.core.estimates import Estimates
from keyveil.core.histogram import Histogram
from keyveil.display.report import About, page
from keyveil.mechanisms.base import Mechanism

ReportFile = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Write a report, one page by itself (.html).")
]

_SECRETS = re.compile(r"(?<=://).*@|(?<=\?).*", re.DOTALL)  # of an address: who asks with which password, and options

_words: ContextVar[tuple[str, ...]] = ContextVar("words of the command line", default=())


def remember(arguments: Sequence[str]) -> None:
    """Note the command line that runs, for the pages that it writes."""
    _words.set(tuple(arguments))


def shareable(word: str) -> str:
    """A word of the command line for a page that anybody may be sent: without the password of an address."""
    return _SECRETS.sub("…", word) if "://" in word else word


def write_page(estimates: Estimates, path: Path, about: About, values: Histogram | None = None) -> None:
    """A report on estimates, with how they were made and the command that makes it again."""
    facts = (*about.facts, *_facts(estimates))
    command = shlex.join(["keyveil", *map(shareable, _words.get())])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(estimates, replace(about, facts=facts, command=command), values), encoding="utf-8")
    except OSError as reason:
        raise KeyveilError("output/file", f"The page {path.name} cannot be written: {reason}.") from reason
    say(f"Written: {path}")


def privacy_of(mechanism: Mechanism) -> tuple[str, ...]:
    """What epsilon means for the people who answered, and who proved it."""
    from keyveil.planning.preview import epsilon_in_words

    certificate = mechanism.certificate()
    how = {
        "enumeration": "all its outcomes were enumerated",
        "closed-form": "by a closed form that was checked against all outcomes at small sizes",
    }[certificate.method]
    return epsilon_in_words(mechanism), f"The program that devices run spends {certificate.exact_epsilon}: {how}."


def _facts(estimates: Estimates) -> list[tuple[str, str]]:
    options = ", ".join(f"{name}={value}" for name, value in estimates.header.options.items())
    return [
        ("mechanism", f"{estimates.mechanism} ({options})" if options else estimates.mechanism),
        ("reports", f"{estimates.n:,}"),
        ("keys", f"{estimates.schema.d:,}"),
        ("confidence", f"{estimates.confidence:.1%}"),
        ("written by", f"Keyveil {keyveil.__version__}"),
    ]
