"""Pictures of comparisons: errors of all contenders over epsilon, on logarithmic scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from keyveil.core.extras import extra
from keyveil.display.colours import EDGE, GRID, INK, QUIET

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from keyveil.lab.comparison import Comparison
    from keyveil.lab.scores import Score

_COLOURS = (
    "#2b6cb0", "#c05621", "#2f855a", "#b83280", "#6b46c1", "#b7791f", "#0987a0", "#c53030", "#4a5568",
    "#68a4dc", "#ed9a5f", "#6fbf8b", "#e58fc0", "#a48ee0", "#d9b64a", "#5cc0cc", "#f08a8a", "#99a3b3",
)  # fmt: skip
_MARKERS = "osD^vP*Xhp<>8"
_HEADROOM = (
    30  # errors beyond so many times the best and the average of everyone are useless, and may leave the picture
)
_TITLES = {"frequency": "frequencies", "mean": "means"}
_BEST, _TIED, _AVERAGE = "best", "≈ not told from the best", "everyone's average"


def errors(comparisons: Sequence[Comparison]) -> Figure:
    """A row of two panels per data set and decoder, one for frequencies and one for means; lower is better.

    Whoever has best caps is shown with its best form. Bars are one standard error over the runs. A ring marks the best
    of an epsilon; where the runs do not tell others from it, a dashed ring marks each of them and the best, too: nobody
    has won.
    """
    with extra("plots", "Plots"):
        from matplotlib import pyplot
    places = [(comparison, decoder) for comparison in comparisons for decoder in comparison.decoders]
    rows = len(places)
    figure, grid = pyplot.subplots(rows, 2, figsize=(11, 0.8 + 3.7 * rows), squeeze=False, layout="constrained")
    names = list(dict.fromkeys(name for one in comparisons for name in one.capped))
    for panels, (comparison, decoder) in zip(grid, places, strict=True):
        for ax, quantity in zip(panels, _TITLES, strict=True):
            _panel(ax, comparison, names, quantity, decoder)
    entries = {label: line for ax in grid.flat for line, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    shown = [name for name in [*names, _AVERAGE, _BEST, _TIED] if name in entries]
    figure.legend(
        [entries[name] for name in shown], shown, loc="outside right center", frameon=False, labelcolor=INK, fontsize=9
    )
    return figure


def _panel(ax: Axes, comparison: Comparison, names: Sequence[str], quantity: str, decoder: str) -> None:
    from matplotlib.ticker import NullLocator

    groups = comparison.capped
    rows = {epsilon: comparison.standing(groups, epsilon, quantity, decoder) for epsilon in comparison.epsilons}
    tied = any(row.ties for row in rows.values())
    bases = list(dict.fromkeys(label.partition(":")[0] for label in names))
    for number, name in enumerate(names):
        points = {epsilon: one for epsilon, row in rows.items() if (one := row.scores.get(name)) and one.error}
        if not points:
            continue
        colour = _COLOURS[bases.index(name.partition(":")[0]) % len(_COLOURS)]
        leading = any(rows[epsilon].best == name for epsilon in points)
        ax.errorbar(
            [float(epsilon) for epsilon in points],
            [one.error for one in points.values()],
            yerr=_bars(list(points.values())),
            color=colour,
            marker=_MARKERS[number % len(_MARKERS)],
            markersize=5,
            markeredgecolor="white",
            markeredgewidth=0.6,
            linewidth=2.2 if leading else 1.2,
            linestyle="--" if ":" in name else "-",  # another form of the mechanism with the same colour
            elinewidth=1,
            capsize=2,
            alpha=1 if leading else 0.75,
            zorder=4 if leading else 3,
            label=name,
        )
        for epsilon, one in points.items():
            if name in (rows[epsilon].best, *rows[epsilon].ties):
                ring = "--" if rows[epsilon].ties else "-"
                at = float(epsilon), one.error
                ax.scatter(*at, s=110, facecolors="none", edgecolors=colour, linestyle=ring, zorder=5)
    ax.scatter([], [], s=110, facecolors="none", edgecolors=QUIET, label=_BEST)
    if tied:
        ax.scatter([], [], s=110, facecolors="none", edgecolors=QUIET, linestyle="--", label=_TIED)
    ax.axhline(comparison.average[quantity], color=QUIET, linestyle=(0, (4, 3)), linewidth=1.2, label=_AVERAGE)
    ax.set_xscale("log")
    ax.set_yscale("log")
    least = [row.scores[row.best].error for row in rows.values() if row.best]
    _limit(ax, _HEADROOM * max(comparison.average[quantity], *least, 0))
    ticks = [float(epsilon) for epsilon in comparison.epsilons]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("ε", color=INK)
    ax.set_ylabel("mean squared error", color=INK)
    people = comparison.dataset.population.n
    how = f", {decoder}" if len(comparison.decoders) > 1 else ""
    title = f"{comparison.dataset.name} · {_TITLES[quantity]}{how}\n"
    ax.set_title(title, loc="left", fontsize=10.5, color=INK, parse_math=False)
    size = f"{people:,} people, {comparison.dataset.schema.d:,} keys"
    ax.text(0, 1.03, size, transform=ax.transAxes, fontsize=8.5, color=QUIET)
    ax.grid(color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.tick_params(length=0, colors=INK, labelsize=9)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["bottom", "left"]].set_color(EDGE)


def _bars(points: Sequence[Score]) -> tuple[list[float], list[float]] | None:
    """One standard error down and up; nothing after a single run. Downwards a logarithmic scale ends above zero."""
    spread = [one.spread or 0.0 for one in points]
    down = [min(one.spread or 0.0, 0.9 * one.error) for one in points]
    return (down, spread) if any(spread) else None


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
