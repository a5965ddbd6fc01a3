"""A picture of a protocol: how its errors fall, and what people have paid, round by round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keyveil.core.errors import MissingExtra
from keyveil.lab.charts import GRID, INK, QUIET
from keyveil.lab.metrics import metrics
from keyveil.lab.rounds import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ERRORS = {"mse_frequency": ("frequencies", "#2b6cb0", "o"), "mse_mean": ("means on [-1, 1]", "#c05621", "s")}


def over_rounds(run: Run) -> Figure:
    """Mean squared errors after every round on a logarithmic scale, beside the epsilon spent by then."""
    try:
        from matplotlib import pyplot
    except ImportError as reason:
        raise MissingExtra("install/plots", "Plots need matplotlib: pip install 'keyveil[plots]'.") from reason
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    numbers = range(1, len(run.history) + 1)
    after = [metrics(one, run.truth) for one in run.rounds]
    for name, (label, colour, marker) in _ERRORS.items():
        points = [(number, errors[name]) for number, errors in zip(numbers, after, strict=True) if errors[name]]
        if points:
            left.plot(*zip(*points, strict=True), color=colour, marker=marker, label=label)
    left.set_yscale("log")
    left.set_ylabel("mean squared error", color=INK)
    left.legend(frameon=False, labelcolor=INK, fontsize=9)
    limit = float(run.protocol.epsilon)
    right.step(numbers, [float(run.paid(number)) for number in numbers], where="mid", color="#2f855a", linewidth=2)
    right.axhline(limit, color=QUIET, linestyle=(0, (4, 3)), linewidth=1.2)
    right.set_ylim(0, 1.1 * limit)
    right.set_ylabel("ε spent, at most", color=INK)
    for ax, title in ((left, "error"), (right, "cost")):
        _dress(ax, f"{run.protocol.name} · {title}", list(numbers))
    return figure


def _dress(ax: Axes, title: str, numbers: list[int]) -> None:
    ax.set_title(title, loc="left", fontsize=10.5, color=INK)
    ax.set_xlabel("round", color=INK)
    ax.set_xticks(numbers)
    ax.grid(color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.tick_params(length=0, colors=INK, labelsize=9)
    ax.spines[["top", "right"]].set_visible(False)
