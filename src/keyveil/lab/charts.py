"""Pictures of comparisons: errors of all mechanisms over epsilon, on logarithmic scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from keyveil.core.extras import extra
from keyveil.lab.compare import QUANTITIES, Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, GRID, QUIET = "#1f2933", "#e4e7eb", "#7b8794"
_COLOURS = (
    "#2b6cb0", "#c05621", "#2f855a", "#b83280", "#6b46c1", "#b7791f", "#0987a0", "#c53030", "#4a5568",
    "#68a4dc", "#ed9a5f", "#6fbf8b", "#e58fc0", "#a48ee0", "#d9b64a", "#5cc0cc", "#f08a8a", "#99a3b3",
)  # fmt: skip
_MARKERS = "osD^vP*Xhp<>8"
_HEADROOM = (
    30  # errors beyond so many times the best and the average of everyone are useless, and may leave the picture
)
_TITLES = {"frequency": "frequencies", "mean": "means"}


def errors(comparisons: Sequence[Comparison]) -> Figure:
    """A row of two panels per data set, one for frequencies and one for means; lower is better."""
    with extra("plots", "Plots"):
        from matplotlib import pyplot
    rows = len(comparisons)
    figure, grid = pyplot.subplots(rows, 2, figsize=(11, 0.8 + 3.7 * rows), squeeze=False, layout="constrained")
    names = list(dict.fromkeys(name for one in comparisons for name in one.mechanisms))
    for panels, comparison in zip(grid, comparisons, strict=True):
        for ax, quantity in zip(panels, QUANTITIES, strict=True):
            _panel(ax, comparison, names, quantity)
    entries = {label: line for ax in grid.flat for line, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    shown = [name for name in [*names, "everyone's average", "best"] if name in entries]
    figure.legend(
        [entries[name] for name in shown], shown, loc="outside right center", frameon=False, labelcolor=INK, fontsize=9
    )
    return figure


def _panel(ax: Axes, comparison: Comparison, names: Sequence[str], quantity: str) -> None:
    from matplotlib.ticker import NullLocator

    best = {epsilon: comparison.best(epsilon, quantity) for epsilon in comparison.epsilons}
    for number, name in enumerate(names):
        known = [(float(e), comparison.error(name, e, quantity), best[e] == name) for e in comparison.epsilons]
        points = [(epsilon, error, wins) for epsilon, error, wins in known if error]
        if not points:
            continue
        bases = list(dict.fromkeys(label.partition(":")[0] for label in names))
        colour = _COLOURS[bases.index(name.partition(":")[0]) % len(_COLOURS)]
        leading = any(wins for *_, wins in points)
        ax.plot(
            [epsilon for epsilon, *_ in points],
            [error for _, error, _ in points],
            color=colour,
            marker=_MARKERS[number % len(_MARKERS)],
            markersize=5,
            markeredgecolor="white",
            markeredgewidth=0.6,
            linewidth=2.2 if leading else 1.2,
            linestyle="--" if ":" in name else "-",  # another form of the mechanism with the same colour
            alpha=1 if leading else 0.75,
            zorder=4 if leading else 3,
            label=name,
        )
        winning = [(epsilon, error) for epsilon, error, wins in points if wins]
        for epsilon, error in winning:
            ax.scatter(epsilon, error, s=110, facecolors="none", edgecolors=colour, zorder=5)
    ax.scatter([], [], s=110, facecolors="none", edgecolors=QUIET, label="best")
    ax.axhline(
        comparison.average[quantity], color=QUIET, linestyle=(0, (4, 3)), linewidth=1.2, label="everyone's average"
    )
    ax.set_xscale("log")
    ax.set_yscale("log")
    least = [comparison.error(name, epsilon, quantity) or 0 for epsilon, name in best.items() if name]
    _limit(ax, _HEADROOM * max(comparison.average[quantity], *least, 0))
    ticks = [float(epsilon) for epsilon in comparison.epsilons]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("ε", color=INK)
    ax.set_ylabel("mean squared error", color=INK)
    people = comparison.dataset.population.n
    title = f"{comparison.dataset.name} · {_TITLES[quantity]}\n"
    ax.set_title(title, loc="left", fontsize=10.5, color=INK, parse_math=False)
    size = f"{people:,} people, {comparison.dataset.schema.d:,} keys"
    ax.text(0, 1.03, size, transform=ax.transAxes, fontsize=8.5, color=QUIET)
    ax.grid(color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.tick_params(length=0, colors=INK, labelsize=9)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["bottom", "left"]].set_color("#cbd2d9")


def _limit(ax: Axes, most: float) -> None:
    """Cut what is far off, and label enough of the logarithmic axis to read it."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = ax.get_ylim()
    high = min(high, most) if most > low else high
    ax.set_ylim(low, high)
    if high < 1000 * low:
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.tick_params(which="minor", length=0)
