"""Help that lists commands in the order in which they are needed, under headings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from typer.core import TyperGroup

_WHOLE = 1000  # letters: more than any first sentence, so that none is cut


class Journey(TyperGroup):
    """Commands under headings. Commands that no heading names come last, so that none is lost."""

    headings: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        named = [name for names in self.headings.values() for name in names if name in self.commands]
        return [*named, *(name for name in self.commands if name not in named)]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rest = self.list_commands(ctx)
        for heading, names in (*self.headings.items(), ("Other", tuple(rest))):
            rows = [(name, self.commands[name].get_short_help_str(_WHOLE)) for name in names if name in rest]
            rest = [name for name in rest if name not in names]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


class FromPlanToAnswer(Journey):
    """``keyveil --help``."""

    headings: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "See it": ("demo",),
        "Plan": ("plan", "mechanisms", "simulate", "compare", "bounds", "compose"),
        "Collect": ("campaign", "serve", "report"),
        "Learn": ("tally", "estimate"),
        "Prove and attack": ("certify", "audit", "attack"),
        "Run a collector": ("token", "journal", "backup", "restore", "clock"),
        "Research": ("reproduce", "bench"),
    }


class FromDraftToArchive(Journey):
    """``keyveil campaign --help``."""

    headings: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "Prepare": ("create", "check", "enrol", "open"),
        "Follow": ("list", "status", "watch", "close", "stop", "retry"),
        "Read": ("estimates", "ask", "export", "label"),
        "Again": ("next", "compare"),
        "End": ("revoke", "archive", "delete"),
    }
