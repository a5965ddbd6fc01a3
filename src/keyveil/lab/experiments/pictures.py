"""Pictures of experiments as one would print them: a column for each population, a row for each measure.

Colours are those of Okabe and Ito, which people with any common form of colour blindness tell apart; every series has a
marker of its own besides. As published is drawn with full lines, the paper's split at exactly ε dashed, and the tight
split dotted. Bars are one standard error. The claims stand below, in our words, each with its verdict.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from keyveil.core.extras import extra
from keyveil.core.text import many
from keyveil.display.colours import EDGE, GRID, INK, QUIET
from keyveil.lab.experiments.measures import MEASURES
from keyveil.lab.experiments.results import Curve, Results
from keyveil.lab.experiments.shape import EXACT, PUBLISHED, TIGHT, Experiment
from keyveil.lab.experiments.verdicts import CONFIRMED, NOT_CONFIRMED, ONLY_PUBLISHED, Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C8C00")
_MARKERS = "osD^vP*Xh<>8"
_LINES: dict[str, Any] = {PUBLISHED: "-", EXACT: "--", TIGHT: ":"}
_WORDS = {PUBLISHED: "as published", EXACT: "paper's split, exactly ε", TIGHT: "tight split, exactly ε"}
_SIGNS = {CONFIRMED: "✓", ONLY_PUBLISHED: "(✓)"}
_MOST_COLUMNS = 3  # where there is one measure only, so that populations may stand in rows
_WIDE, _HIGH = 4.2, 3.1  # of a panel, in inches
_ROW = 0.28  # of a row of a table


def picture(results: Results, judged: Sequence[Verdict]) -> Figure:
    """The figure of an experiment."""
    with extra("plots", "Plots"):
        import matplotlib
        from matplotlib import pyplot
    experiment = results.plan.experiment
    people = [one.title for one in experiment.people]
    panels = [(measure, title) for measure in experiment.measures for title in people]
    columns = len(people) if len(experiment.measures) > 1 else min(len(people), _MOST_COLUMNS)
    rows = -(-len(panels) // columns)
    caption = _caption(judged, wide=max(columns, 2))
    high = _HIGH if experiment.axis.knob != "none" else 1.0 + _ROW * len(experiment.series)
    height = 0.9 + high * rows + 0.17 * caption.count("\n") + 0.5
    with matplotlib.rc_context({"font.size": 9}):
        figure, grid = pyplot.subplots(
            rows, columns, figsize=(max(_WIDE * columns, 7.0) + 1.6, height), squeeze=False, layout="constrained"
        )
        for ax, panel in zip_longest(grid.flat, panels):
            if panel is None:
                ax.set_axis_off()
            else:
                _panel(ax, results, panel[1], panel[0])
        heading = f"{experiment.name}: {experiment.title}"
        figure.suptitle(heading, x=0.01, ha="left", fontsize=12, color=INK, parse_math=False)
        _legend(figure, grid, results)
        figure.supxlabel(caption, x=0.01, ha="left", fontsize=8.5, color=INK, parse_math=False)
    return figure


def _panel(ax: Axes, results: Results, people: str, measure: str) -> None:
    experiment = results.plan.experiment
    bars = experiment.axis.knob == "none"
    labels = list(dict.fromkeys(series.label for series in experiment.series))
    log = MEASURES[measure].log and not experiment.linear
    drawn = False
    for number, label in enumerate(labels):
        for form in _told_apart(results):
            curve = results.curves.get((form, people, label, measure))
            if curve is None or not np.isfinite(curve.value).any():
                continue
            drawn = True
            if bars:
                _point(ax, curve, number, form, experiment.forms.index(form))
            else:
                _line(ax, curve, number, label, form, log)
    n, keys = results.sizes.get(people, (0, 0))
    runs = results.plan.size.repeats
    size = f"{counted(experiment, n, keys)}, {many(runs, 'run')}" if n else ""
    ax.set_title(f"{people}\n", loc="left", fontsize=10, color=INK, parse_math=False)
    ax.annotate(
        size, (0, 1), xycoords="axes fraction", xytext=(0, 4), textcoords="offset points", fontsize=8, color=QUIET
    )
    if not drawn:
        ax.text(0.5, 0.5, "no results", transform=ax.transAxes, ha="center", color=QUIET)
    title = MEASURES[measure].title
    if bars:
        ax.set_yticks(range(len(labels)), labels)
        ax.invert_yaxis()
        ax.set_xlabel(title, color=INK)
        ax.margins(x=0.25, y=0.35 if len(labels) > 1 else 1)
        if log and drawn:
            ax.set_xscale("log")
            _log_labels(ax.xaxis)
        else:
            ax.ticklabel_format(axis="x", useOffset=False, style="plain")
            ax.locator_params(axis="x", nbins=4)
    else:
        ax.set_xlabel(experiment.axis.title, color=INK)
        ax.set_ylabel(title, color=INK)
        if log and drawn:
            ax.set_yscale("log")
            _log_labels(ax.yaxis)
        if experiment.axis.log:
            ax.set_xscale("log")
            _ticks(ax, results.plan.points)
    ax.grid(color=GRID, linewidth=0.7)
    ax.set_axisbelow(True)
    ax.tick_params(which="both", length=0, colors=INK, labelsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["bottom", "left"]].set_color(EDGE)


def counted(experiment: Experiment, n: int, keys: int) -> str:
    """How many people and keys there are; the most of them where that is what is varied."""
    words = many(n, "person", "people"), many(keys, "key")
    knob = experiment.axis.knob
    return ", ".join(f"up to {word}" if knob == name else word for word, name in zip(words, ("n", "keys"), strict=True))


def _line(ax: Axes, curve: Curve, number: int, label: str, form: str, log: bool) -> None:
    known = np.isfinite(curve.value) & ((curve.value > 0) | (not log))
    se = np.nan_to_num(curve.se[known])
    down = np.minimum(se, 0.9 * curve.value[known]) if log else se
    main = form == PUBLISHED
    ax.errorbar(
        curve.x[known],
        curve.value[known],
        yerr=np.array([down, se]),
        color=PALETTE[number % len(PALETTE)],
        marker=_MARKERS[number % len(_MARKERS)],
        markersize=4.5 if main else 3.5,
        markerfacecolor=PALETTE[number % len(PALETTE)] if main else "white",
        linestyle=_LINES[form] if number < len(PALETTE) or not main else "-.",
        linewidth=1.5 if main else 1.0,
        elinewidth=0.8,
        capsize=2,
        alpha=1 if main else 0.85,
        label=label if main else None,
        zorder=4 if main else 3,
    )


def _point(ax: Axes, curve: Curve, number: int, form: str, place: int) -> None:
    main = form == PUBLISHED
    ax.errorbar(
        curve.value[:1],
        [number + 0.18 * place],
        xerr=np.nan_to_num(curve.se[:1]),
        color=PALETTE[number % len(PALETTE)],
        marker=_MARKERS[number % len(_MARKERS)],
        markerfacecolor=PALETTE[number % len(PALETTE)] if main else "white",
        linestyle="none",
        capsize=2,
    )
    if main:
        told = f"{float(curve.value[0]):.4g}"
        ax.annotate(
            told, (float(curve.value[0]), number), (0, 5), textcoords="offset points", ha="center", fontsize=7.5
        )


def _log_labels(axis: Axis) -> None:
    """Plain numbers on a logarithmic axis, also between powers of ten where it spans less than two of them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    spans = ((4, (1, 1.5, 2, 3, 4, 5, 6, 8)), (12, (1, 2, 3, 5, 7)), (30, (1, 2, 5)), (100, (1, 3)))
    axis.set_major_locator(LogLocator(subs=next((marks for most, marks in spans if high / low < most), (1,))))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))
    axis.set_minor_formatter(NullFormatter())


def _plain(value: float) -> str:
    """0.02, 5 or 3·10⁻⁶."""
    if 1e-3 <= value < 1e5:
        return f"{value:,.6g}"
    power = math.floor(math.log10(value) + 1e-9)
    factor = f"{value / 10**power:.3g}"
    return f"$10^{{{power}}}$" if factor == "1" else f"${factor}\\cdot10^{{{power}}}$"


def _ticks(ax: Axes, points: Sequence[float]) -> None:
    from matplotlib.ticker import NullLocator

    shown = points if len(points) <= 9 else points[:: -(-len(points) // 9)]
    ax.set_xticks(list(shown), [_short(point) for point in shown])
    ax.xaxis.set_minor_locator(NullLocator())


def _short(point: float) -> str:
    return f"{point / 1e6:g}M" if point >= 1e6 else f"{point / 1e3:g}k" if point >= 1e4 else f"{point:g}"


def _legend(figure: Figure, grid: Any, results: Results) -> None:
    from matplotlib.lines import Line2D

    experiment = results.plan.experiment
    entries = {label: line for ax in grid.flat for line, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    handles, names = list(entries.values()), list(entries)
    if len(experiment.forms) > 1:
        for form in _told_apart(results):
            handles.append(Line2D([], [], color=QUIET, linestyle=_LINES[form]))
            names.append(_WORDS[form])
    if handles and (entries or len(experiment.forms) > 1):
        figure.legend(handles, names, loc="outside right center", frameon=False, labelcolor=INK, fontsize=8.5)


def _told_apart(results: Results) -> list[str]:
    """The forms that some series has a line of its own in: without a split to tighten, exact and tight are one."""
    places = {place[1:] for place in results.curves}
    shown: list[str] = []
    for form in results.plan.experiment.forms:
        lines = {place: results.curves[form, *place].pairing for place in places}
        if all(lines != {place: results.curves[old, *place].pairing for place in places} for old in shown):
            shown.append(form)
    return shown


def _caption(judged: Sequence[Verdict], wide: int) -> str:
    lines = []
    for one in judged:
        sign = _SIGNS.get(one.word, "✗")
        word = f"{one.word}, {one.standing}" if one.word == NOT_CONFIRMED else one.word
        lines += textwrap.wrap(f"{sign} {one.claim.text} ({word})", 62 * wide, subsequent_indent="    ")
    return "\n".join(lines)
