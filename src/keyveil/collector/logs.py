"""The collector's logs: events with constant texts, as JSON unless a terminal reads them, and nothing about senders.

Three rules keep senders out. Fields with forbidden names are dropped. An exception shows its type and where it was
raised, but not its message, which may quote a request. Of what another library logs only the constant text is kept,
without its arguments. Times are rounded down to the minute, so that a line does not tell when a request arrived.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import MutableMapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TextIO

import structlog

_NAMES = """
    addr address agent args authorization body client cookie cookies forwarded header headers host hostname id ids ip
    origin path payload payloads peer peername public query query_string referer referrer remote remote_addr report
    request scope seat sender session set_cookie token tokens url user user_agent via x_forwarded_for x_real_ip
"""
FORBIDDEN = frozenset(_NAMES.split())

Event = MutableMapping[str, Any]
_INNERMOST = 12  # frames of an exception that are shown
_LONGEST = 200  # characters of another library's text


@dataclass
class _Output:
    """Where logs go; one for the process, as there is one stderr."""

    level: int = logging.INFO
    as_json: bool | None = None
    stream: TextIO | None = None

    @property
    def target(self) -> TextIO:
        return self.stream or sys.stderr


_output = _Output()


def logger() -> Any:
    """A logger that keeps the rules above, however the process is configured otherwise."""
    return structlog.wrap_logger(
        _Lines(),
        processors=[
            structlog.stdlib.add_log_level,
            _loud_enough,
            bare_exceptions,
            without_senders,
            to_the_minute,
            _rendered,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
    )


def configure(level: str = "info", as_json: bool | None = None, stream: TextIO | None = None) -> None:
    """Choose how much is said and in which form, and send the warnings of libraries the same way."""
    _output.level, _output.as_json, _output.stream = logging.getLevelNamesMapping()[level.upper()], as_json, stream
    root = logging.getLogger()
    if not any(isinstance(one, _Library) for one in root.handlers):
        root.addHandler(_Library(logging.WARNING))
    root.setLevel(logging.WARNING)


def without_senders(_: Any, __: str, event: Event) -> Event:
    """Drop fields that could tell who sent something, at any depth."""
    for name in [name for name in event if _folded(name) in FORBIDDEN]:
        del event[name]
    for name, value in event.items():
        event[name] = _cleaned(value)
    return event


def bare_exceptions(_: Any, __: str, event: Event) -> Event:
    """Replace an exception by its type and the places it passed through."""
    error = event.pop("exc_info", None)
    if error is True:
        error = sys.exc_info()
    if isinstance(error, tuple):
        error = error[1]
    if isinstance(error, BaseException):
        frames = traceback.extract_tb(error.__traceback__)[-_INNERMOST:]
        event["error"] = type(error).__name__
        event["where"] = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
        if error.__cause__ is not None:
            event["cause"] = type(error.__cause__).__name__
    event.pop("stack_info", None)
    return event


def to_the_minute(_: Any, __: str, event: Event) -> Event:
    event["time"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")
    return event


class _Lines:
    """What a finished line is handed to."""

    def msg(self, line: str) -> None:
        print(line, file=_output.target, flush=True)

    debug = info = warning = error = critical = exception = log = msg


class _Library(logging.Handler):
    """Hands the warnings of other libraries on, without what they would insert into their texts."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.msg.partition("\n")[0][:_LONGEST] if isinstance(record.msg, str) else "(not a text)"
        logger().log(record.levelno, text, library=record.name, exc_info=record.exc_info)


def _loud_enough(_: Any, __: str, event: Event) -> Event:
    if logging.getLevelNamesMapping()[event["level"].upper()] < _output.level:
        raise structlog.DropEvent
    return event


def _rendered(_: Any, name: str, event: Event) -> str:
    terminal = _output.target.isatty()
    if _output.as_json if _output.as_json is not None else not terminal:
        return str(structlog.processors.JSONRenderer()(_, name, event))
    return structlog.dev.ConsoleRenderer(colors=terminal)(_, name, event)


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _cleaned(inner) for name, inner in value.items() if _folded(name) not in FORBIDDEN}
    if isinstance(value, list | tuple):
        return [_cleaned(inner) for inner in value]
    return value


def _folded(name: Any) -> str:
    return str(name).lower().replace("-", "_")
