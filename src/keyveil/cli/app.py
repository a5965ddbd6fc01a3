"""The commands, and what all of them share: one line for an error, status 2 for bad input."""

from __future__ import annotations

import errno
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, cast

import typer

import keyveil
from keyveil.campaign.verification import plain
from keyveil.cli.attack import attack
from keyveil.cli.audit import audit
from keyveil.cli.backup import backup, restore
from keyveil.cli.bench import bench
from keyveil.cli.calculators import bounds, compose
from keyveil.cli.campaign import app as campaign
from keyveil.cli.certify import certify
from keyveil.cli.compare import compare
from keyveil.cli.demo import demo
from keyveil.cli.estimate import estimate
from keyveil.cli.journal import app as journal
from keyveil.cli.journal import clock
from keyveil.cli.mechanisms import mechanisms
from keyveil.cli.pages import remember
from keyveil.cli.plan import plan
from keyveil.cli.report import report
from keyveil.cli.reproduce import reproduce
from keyveil.cli.serve import serve
from keyveil.cli.simulate import simulate
from keyveil.cli.tally import tally
from keyveil.cli.tokens import app as token
from keyveil.core.errors import KeyveilError, KeyveilWarning

# Typer carries Click inside without naming its errors; this is the one that all mistakes on a command line share.
CommandError = cast(type[Exception], typer.BadParameter.__mro__[2])

app = typer.Typer(
    name="keyveil",
    help="Key-value statistics from people who each send one private report.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command()(certify)
app.command()(audit)
app.command()(compose)
app.command()(bounds)
app.command()(demo)
app.command()(simulate)
app.command()(estimate)
app.command()(compare)
app.command()(attack)
app.command()(bench)
app.command()(reproduce)
app.command()(plan)
app.command()(mechanisms)
app.command()(serve)
app.command()(backup)
app.command()(restore)
app.command()(report)
app.command()(tally)
app.add_typer(campaign)
app.add_typer(token)
app.add_typer(journal)
app.add_typer(clock)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"keyveil {keyveil.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """Key-value statistics from people who each send one private report."""


def run(arguments: Sequence[str]) -> int:
    """Run a command line and give its exit status."""
    remember(arguments)
    try:
        with _warnings_in_one_line():
            status = app(args=list(arguments) or ["--help"], prog_name="keyveil", standalone_mode=False)
    except CommandError as mistake:
        return _refuse(getattr(mistake, "format_message", mistake.__str__)())
    except KeyveilError as mistake:
        return _refuse(f"{mistake.sentence} [{mistake.code}]")
    except (typer.Abort, KeyboardInterrupt):
        return _refuse("stopped", 130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of the output has closed the pipe
        return 0
    except OSError as refused:
        if refused.errno != errno.ENAMETOOLONG:
            raise
        return _refuse("No file has so long a name. [input/file]")  # Path.exists and its like raise it
    return status if isinstance(status, int) else 0


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Keyveil's own warnings as commands say things; those of others as Python says them."""
    usual = warnings.showwarning

    def told(message: Warning | str, category: type[Warning], *place: Any, **where: Any) -> None:
        if issubclass(category, KeyveilWarning):
            _refuse(str(message))
        else:
            usual(message, category, *place, **where)

    with warnings.catch_warnings():
        warnings.showwarning = told
        yield


def _refuse(sentence: str, status: int = 2) -> int:
    print(f"keyveil: {' '.join(plain(sentence).split())}", file=sys.stderr)  # it may quote text of other people
    return status
