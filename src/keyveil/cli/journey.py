"""Help that lists commands in the order in which they are needed, under headings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from keyveil.cli.on_demand import OnDemand

_WHOLE = 1000  # letters: more than any first sentence, so that none is cut


class Journey(OnDemand):
    """Commands under headings. Commands that no heading names come last, so that none is lost."""

    headings: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        known = super().list_commands(ctx)
        named = [name for names in self.headings.values() for name in names if name in known]
        return [*named, *(name for name in known if name not in named)]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rest = self.list_commands(ctx)
        for heading, names in (*self.headings.items(), ("Other", tuple(rest))):
            rows = [(name, self.get_command(ctx, name).get_short_help_str(_WHOLE)) for name in names if name in rest]
            rest = [name for name in rest if name not in names]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


class FromPlanToAnswer(Journey):
    """``keyveil --help``."""

    places: ClassVar[Mapping[str, str]] = {
        "certify": "keyveil.cli.certify:certify",
        "audit": "keyveil.cli.audit:audit",
        "compose": "keyveil.cli.calculators:compose",
        "bounds": "keyveil.cli.calculators:bounds",
        "demo": "keyveil.cli.demo:demo",
        "simulate": "keyveil.cli.simulate:simulate",
        "estimate": "keyveil.cli.estimate:estimate",
        "compare": "keyveil.cli.compare:compare",
        "attack": "keyveil.cli.attack:attack",
        "bench": "keyveil.cli.bench:bench",
        "reproduce": "keyveil.cli.reproduce:reproduce",
        "plan": "keyveil.cli.plan:plan",
        "mechanisms": "keyveil.cli.mechanisms:mechanisms",
        "serve": "keyveil.cli.serve:serve",
        "backup": "keyveil.cli.backup:backup",
        "restore": "keyveil.cli.backup:restore",
        "report": "keyveil.cli.report:report",
        "tally": "keyveil.cli.tally:tally",
        "campaign": "keyveil.cli.campaign:app",
        "token": "keyveil.cli.tokens:app",
        "journal": "keyveil.cli.journal:app",
        "clock": "keyveil.cli.journal:clock",
    }
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
