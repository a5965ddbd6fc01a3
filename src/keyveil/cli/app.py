"""The commands, and what all of them share: one line for an error, status 2 for bad input."""

from __future__ import annotations

import errno
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any, cast

import typer

import keyveil
from keyveil.cli.journey import FromPlanToAnswer
from keyveil.cli.words import remember
from keyveil.core.errors import KeyveilError, KeyveilWarning
from keyveil.core.text import plain

# Typer carries Click inside without naming its errors; this is the one that all mistakes on a command line share.
CommandError = cast(type[Exception], typer.BadParameter.__mro__[2])

app = typer.Typer(
    name="keyveil",
    help="Key-value statistics from people who each send one private report.",
    cls=FromPlanToAnswer,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


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


@cache
def _program() -> Any:
    return typer.main.get_command(app)


def run(arguments: Sequence[str]) -> int:
    """Run a command line and give its exit status."""
    remember(arguments)
    try:
        with _warnings_in_one_line():
            status = _program()(args=list(arguments) or ["--help"], prog_name="keyveil", standalone_mode=False)
    except CommandError as mistake:
        return _refuse(f"{getattr(mistake, 'format_message', mistake.__str__)()} [input/command]")
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
