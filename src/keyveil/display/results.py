"""Pictures of single results: a certificate, a plan, a simulation, and what became of a report."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from keyveil.core.epsilon import decimal_text
from keyveil.core.extras import extra
from keyveil.display.colours import EDGE, GRID, INK, QUIET
from keyveil.display.estimates import BLUE, ORANGE
from keyveil.display.plan import trade_offs
from keyveil.display.rounds import over_rounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from keyveil.device.outcome import Outcome
    from keyveil.lab.simulate import Simulation
    from keyveil.planning.plan import Plan
    from keyveil.privacy.certify import Certificate

MECHANISMS = 12  # that a plan's picture shows
STATIONS = ("drawn", "waiting", "sent")


def certificate(found: Certificate) -> Figure:
    """The chance of the report that tells most, for the two records that it tells apart best."""
    figure, ax = _paper(6.2, 2.2)
    likely, unlikely = map(float, found.worst.chances)
    ax.barh(["this record", "that record"], [likely, unlikely], color=[BLUE, ORANGE], height=0.6)
    ax.invert_yaxis()
    for row, chance in enumerate((likely, unlikely)):
        ax.annotate(f"{chance:.4g}", (chance, row), xytext=(4, 0), textcoords="offset points", va="center", color=INK)
    allowed = math.exp(float(found.requested_epsilon))
    times = likely / unlikely if unlikely else math.inf
    ax.set_title(
        f"{found.mechanism}: {times:.4g} times as likely; allowed e^ε = {allowed:.4g}",
        loc="left",
        fontsize=10.5,
        color=INK,
        parse_math=False,
    )
    ax.set_xlabel("chance of the report that tells most", color=INK)
    ax.margins(x=0.15)
    return figure


def plan(found: Plan) -> Figure:
    """Trade-offs where they were asked for (``trade_offs=True``), otherwise the errors of the best mechanisms."""
    told = f"error ({', '.join(goal.name for goal in found.goals)})"
    if found.curves:
        return trade_offs([(one.axis, one.places, one.errors, one.here) for one in found.curves], told)
    lines = [line for line in found.lines if math.isfinite(line.error)][:MECHANISMS]
    figure, ax = _paper(6.2, 1.2 + 0.3 * len(lines))
    ax.barh([line.name for line in lines], [line.error for line in lines], color=BLUE, height=0.6)
    ax.invert_yaxis()
    ax.set_xlabel(f"expected {told}", color=INK)
    about = f"ε = {decimal_text(found.epsilon)}, {found.people.n:,} people, {found.schema.d:,} keys"
    ax.set_title(about, loc="left", fontsize=10.5, color=INK)
    return figure


def simulation(run: Simulation, rounds: bool = False, top: int = 20) -> Figure:
    """Estimates beside the truth; with ``rounds``, errors and what was paid after every round."""
    return over_rounds(run) if rounds else run.estimates.plot(top=top)


def outcome(one: Outcome) -> Figure:
    """How far a report has come: drawn, waiting, sent; or why there is none."""
    figure, ax = _paper(6.2, 1.6)
    reached = {"waiting": 1, "refused": 1, "sent": 2}.get(one.state, -1)
    for at, name in enumerate(STATIONS):
        there = at <= reached
        ax.scatter(at, 0, s=160, color=BLUE if there else "white", edgecolors=BLUE if there else EDGE, zorder=3)
        label = "refused" if one.state == "refused" and name == "sent" else name
        ax.annotate(label, (at, 0), xytext=(0, -20), textcoords="offset points", ha="center", color=INK)
    ax.plot([0, len(STATIONS) - 1], [0, 0], color=EDGE, zorder=1)
    told = one.state if reached < 0 else f"ε = {decimal_text(one.epsilon)} spent by this call"
    ax.set_title(f"{one.series}: {told}", loc="left", fontsize=10.5, color=INK, parse_math=False)
    ax.set_xlim(-0.5, len(STATIONS) - 0.5)
    ax.set_ylim(-1, 1)
    ax.axis("off")
    return figure


def _paper(width: float, height: float) -> tuple[Figure, Axes]:
    with extra("plots", "Plots"):
        from matplotlib import pyplot
    figure, ax = pyplot.subplots(figsize=(width, height), layout="constrained")
    ax.grid(axis="x", color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.tick_params(length=0, colors=INK, labelcolor=INK)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(QUIET)
    return figure, ax
