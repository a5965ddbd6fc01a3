"""``keyveil campaign watch``: follow a campaign while reports come in and intervals narrow."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from keyveil.cli.connection import Collector, Database, Name, Server, TokenFile, address, reach
from keyveil.cli.data import screen
from keyveil.cli.terminal import harmless
from keyveil.core.errors import KeyveilError
from keyveil.core.estimates import Column, Estimates
from keyveil.display.estimates import listed, most_frequent
from keyveil.display.plan import bars

OVER = ("estimated", "archived")  # states in which nothing changes any more
_TOO_FEW = "campaign/too-few"  # nothing is shown below the campaign's least number of reports

pause = time.sleep


def watch(
    name: Name,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="One look, and no more.")] = False,
    top: Annotated[int, typer.Option(min=1, help="How many keys are shown on a terminal.")] = 10,
    server: Server = None,
    database: Database = None,
    token_file: TokenFile = None,
) -> int:
    """Follow a campaign until it is over: counts, and intervals that narrow. Ctrl-C ends it earlier."""
    console = screen()
    with reach(server, database, token_file, silent=True) as collector:
        looks = _looks(collector, name, every, once)
        try:
            if console.is_terminal:
                with Live(console=console, auto_refresh=False) as live:
                    for look in looks:
                        live.update(look.shown(top), refresh=True)
            else:
                said = ""
                for look in looks:
                    if look.line != said:  # a log has no use for the same line again
                        said = look.line
                        console.print(said, soft_wrap=True)
        except KeyboardInterrupt:
            pass  # the usual way to stop watching
    return 0


@dataclass(frozen=True)
class Look:
    """What a campaign shows at one moment, and how wide its intervals have been."""

    status: dict[str, Any]
    estimates: Estimates | None
    why: str  # there are no estimates yet
    widths: tuple[tuple[int, float], ...]  # reports counted, and the median half-width of frequencies or means then
    first: Estimates | None  # the first estimates of this watch

    @property
    def line(self) -> str:
        """Everything that changes, in one line."""
        told = [self._head()]
        if self.estimates is not None:
            told += [f"{what} ± {_median(column):.3g}" for what, column in _columns(self.estimates)]
        return "; ".join(told) + (f". {self.why}" if self.why else "")

    def shown(self, top: int) -> Group:
        """For a terminal: counts, the most frequent keys with their half-widths at first and now, and the trend."""
        parts: list[Any] = [Text(harmless(self._head()), style="bold")]
        refused = ", ".join(f"{count:,} {code}" for code, count in sorted(self.status["refused"].items())) or "none"
        parts.append(Text(harmless(f"Duplicates: {self.status['duplicates']:,}. Refused: {refused}.")))
        parts += [Text(harmless(one["note"])) for one in self.status["rounds"] if one.get("note")]
        if self.why:
            parts.append(Text(harmless(self.why)))
        if self.estimates is not None:
            parts += [self._table(self.estimates, top), Text(self._trend())]
        return Group(*parts)

    def _head(self) -> str:
        if not self.status["rounds"]:
            return f"{self.status['name']} is {self.status['state']}: no round has begun"
        last = self.status["rounds"][-1]
        return (
            f"{self.status['name']} is {self.status['state']}; round {last['round']} ({last['mechanism']}) is "
            f"{last['state']}: {last['reports']:,} reports, {last['folded']:,} counted"
        )

    def _table(self, estimates: Estimates, top: int) -> Table:
        rows = Table(pad_edge=False)
        rows.add_column("key", overflow="fold")
        shown = most_frequent(estimates, top)
        cut, first = listed(estimates, len(shown)), self.first or estimates
        for what, _ in _columns(estimates):
            for column in (what, "± at first", "± now"):
                rows.add_column(column, justify="right", no_wrap=True)
        for at in shown:
            key, cells = estimates.schema.keys[at], []
            of_each = zip(_columns(cut), _columns(estimates), _columns(first), strict=True)
            for (_, seen), (_, now), (_, then) in of_each:
                cells += [str(seen[key]), f"{_half_widths(then)[at]:.3g}", f"{_half_widths(now)[at]:.3g}"]
            rows.add_row(key, *cells)
        return rows

    def _trend(self) -> str:
        """The median half-width at every look that counted more reports."""
        (reports, first), (_, now) = self.widths[0], self.widths[-1]
        steps = f" {bars([width for _, width in self.widths[-_STEPS:]])}" if len(self.widths) > 1 else ""
        return f"Median half-width: {first:.3g} at {reports:,} reports, {now:.3g} now.{steps}"


_STEPS = 40  # of the trend, as many as fit beside the sentence


def _looks(collector: Collector, name: str, every: float, once: bool) -> Iterator[Look]:
    """One look after another, until the campaign is over. Estimates are asked for when more has been counted."""
    last, estimates, why, first = -1, None, "", None
    widths: list[tuple[int, float]] = []
    while True:
        if collector.service is not None:
            collector.service.settle()  # nobody else counts
        status = collector.ask("GET", address(name, "status"))
        counted = sum(one["folded"] for one in status["rounds"])
        if counted != last:
            last = counted
            estimates, why = _estimates(collector, name)
            if estimates is not None:
                first = first or estimates
                widths.append((counted, _median(_columns(estimates)[0][1])))
        yield Look(status, estimates, why, tuple(widths), first)
        if once or status["state"] in OVER:
            return
        pause(every)


def _estimates(collector: Collector, name: str) -> tuple[Estimates | None, str]:
    """What the reports say, or why they say nothing yet."""
    try:
        found = collector.ask("GET", address(name, "estimates"))
    except KeyveilError as refused:
        if refused.code != _TOO_FEW:
            raise
        return None, refused.sentence
    estimates = Estimates.from_document(found, collector.campaign(name)[0].schema)
    if _columns(estimates):
        return estimates, ""
    return None, f"The reports of {estimates.mechanism} tell neither frequencies nor means of keys."


def _columns(estimates: Estimates) -> list[tuple[str, Column]]:
    """What was estimated, in the units that people read."""
    both = (("frequency", estimates.frequency), ("mean", estimates.mean.in_units))
    return [(what, column) for what, column in both if not column.absent]


def _half_widths(column: Column) -> Any:
    return (column.high - column.low) / 2


def _median(column: Column) -> float:
    widths = _half_widths(column)
    known = widths[np.isfinite(widths)]
    return float(np.median(known)) if known.size else float("nan")
