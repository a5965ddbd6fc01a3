"""How a check says that a mechanism is broken: one sentence about one member."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from keyveil.core.errors import ContractError, KeyveilError, MissingExtra


def hold(kept: bool, mechanism: Any, member: str, otherwise: str) -> None:
    """Nothing if the promise is kept; otherwise the error of ``broken``."""
    if not kept:
        raise broken(mechanism, member, otherwise)


def broken(mechanism: Any, member: str, how: str) -> ContractError:
    """The error whose sentence is "name.member how." """
    name = getattr(mechanism, "name", None)
    title = name if isinstance(name, str) else type(mechanism).__name__
    return ContractError(f"contract/{member}", f"{title}.{member} {how}.")


@contextmanager
def about(mechanism: Any, member: str) -> Iterator[None]:
    """Whatever fails inside is the fault of this member, unless a check already named another one."""
    try:
        yield
    except (ContractError, MissingExtra):
        raise
    except Exception as reason:  # other people's code may fail in any way
        told = reason.sentence if isinstance(reason, KeyveilError) else f"{type(reason).__name__}: {reason}"
        raise broken(mechanism, member, f"fails ({told.rstrip('.')})") from reason


def refuses(error: type[KeyveilError], act: Callable[[], Any]) -> bool:
    """Whether an act ends in this error."""
    try:
        act()
    except error:
        return True
    return False
