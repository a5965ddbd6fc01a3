"""Commands whose modules are imported when they are asked for: most of a short command's time would be the others'."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup


class OnDemand(TyperGroup):
    """A group that knows where its commands are; ``--help`` is the one that imports them all."""

    places: ClassVar[Mapping[str, str]] = {}  # "module:attribute", a function or a group

    def list_commands(self, ctx: Any) -> list[str]:
        return [*self.places, *(name for name in self.commands if name not in self.places)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands and cmd_name in self.places:
            module, _, attribute = self.places[cmd_name].partition(":")
            self.commands[cmd_name] = _made(cmd_name, getattr(import_module(module), attribute))
        return self.commands.get(cmd_name)


def _made(name: str, command: Any) -> Any:
    if isinstance(command, typer.Typer):
        return typer.main.get_group(command)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    alone.command(name)(command)
    return typer.main.get_command(alone)
