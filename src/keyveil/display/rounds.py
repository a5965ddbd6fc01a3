"""A picture of a simulation round by round: how its errors fall, what people have paid, and what rounds are worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keyveil.core.extras import extra
from keyveil.display.colours import GRID, INK, QUIET

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from keyveil.lab.simulate import Simulation

_ERRORS = {"mse_frequency": ("frequencies", "#2b6cb0", "o"), "mse_mean": ("means on [-1, 1]", "#c05621", "s")}
_TICKS = 20  # rounds that are numbered, at most


def over_rounds(run: Simulation) -> Figure:
    """Mean squared errors after every round on a logarithmic scale, beside the epsilon spent by then.

    Where rounds have a price, a third panel has the cost F of PrivKVM+.
    """
    with extra("plots", "Plots"):
        from matplotlib import pyplot
    panels = {"error": _errors, "ε spent": _spent} | ({} if run.cheapest is None else {"cost F": _cost})
    figure, axes = pyplot.subplots(1, len(panels), figsize=(5 * len(panels), 3.8), layout="constrained")
    shown = "" if run.repeats == 1 else f", first of {run.repeats} runs"
    for ax, (title, draw) in zip(axes, panels.items(), strict=True):
        draw(ax, run)
        _dress(ax, f"{run.protocol.name} · {title}{shown}", len(run.history))
    return figure


def _numbers(run: Simulation) -> range:
    return range(1, len(run.history) + 1)


def _errors(ax: Axes, run: Simulation) -> None:
    after = dict(zip(_numbers(run), run.errors, strict=True))
    for name, (label, colour, marker) in _ERRORS.items():
        points = [(number, errors[name]) for number, errors in after.items() if errors[name]]
        if points:
            ax.plot(*zip(*points, strict=True), color=colour, marker=marker, label=label)
    ax.set_yscale("log")
    ax.margins(y=0.25)
    ax.set_ylabel("mean squared error", color=INK)
    for number, errors in after.items():
        if all(errors[name] is None for name in _ERRORS):
            where, paper = ax.get_xaxis_transform(), {"facecolor": "white", "edgecolor": "none"}
            ax.text(number, 0.5, "no estimates yet", ha="center", color=QUIET, fontsize=9, transform=where, bbox=paper)
    if ax.lines:
        ax.legend(frameon=False, labelcolor=INK, fontsize=9)


def _spent(ax: Axes, run: Simulation) -> None:
    limit, paid = float(run.protocol.epsilon), [float(run.paid(number)) for number in _numbers(run)]
    ax.plot(
        _numbers(run), paid, drawstyle="steps-mid", color="#2f855a", linewidth=2, marker="o", label="spent, at most"
    )
    ax.axhline(limit, color=QUIET, linestyle=(0, (4, 3)), linewidth=1.2, zorder=1, label=f"allowed, {limit:g}")
    ax.set_ylim(0, 1.1 * limit)
    ax.set_ylabel("ε", color=INK)
    ax.legend(frameon=False, labelcolor=INK, fontsize=9, loc="lower right")


def _cost(ax: Axes, run: Simulation) -> None:
    """F and its two parts, with a ring around the least."""
    costs = {number: cost for number in _numbers(run) if (cost := run.cost(number)) is not None}
    prices = {number: float(run.price or 0) * number for number in costs}
    wrong = [cost - prices[number] for number, cost in costs.items()]
    ax.plot(list(costs), list(costs.values()), color="#6b46c1", marker="o", linewidth=2, label="F, error and price")
    ax.plot(
        list(costs), wrong, color="#c05621", marker="s", markersize=4, linewidth=1.2, label="error of announced means"
    )
    ax.plot(
        list(costs), list(prices.values()), color=QUIET, linestyle=(0, (4, 3)), linewidth=1.2, label="price of rounds"
    )
    best = run.cheapest
    if best is not None:
        ax.scatter(best, costs[best], s=140, facecolors="none", edgecolors="#6b46c1", zorder=4, label="least")
    ax.set_ylim(bottom=0)
    ax.margins(y=0.25)
    ax.set_ylabel("cost", color=INK)
    ax.legend(frameon=False, labelcolor=INK, fontsize=9)


def _dress(ax: Axes, title: str, rounds: int) -> None:
    ax.set_title(title, loc="left", fontsize=10.5, color=INK)
    ax.set_xlabel("round", color=INK)
    ax.set_xlim(0.5, rounds + 0.5)
    ax.set_xticks(range(1, rounds + 1, -(-rounds // _TICKS)))
    ax.grid(color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.tick_params(length=0, colors=INK, labelsize=9)
    ax.spines[["top", "right"]].set_visible(False)
