"""Estimates for the eye: a table for notebooks and a forest plot for papers and reports.

Both show the most frequent keys first, draw every interval, and grey out what the data cannot tell. Values and
intervals stay inside their range, and those of frequencies are right for keys that were chosen by their estimates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from keyveil.core.epsilon import decimal_text
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import FLAGS, Column, Estimates, Floats
from keyveil.core.extras import extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from keyveil.frames.truth import Truth

BLUE, ORANGE, GREY, INK = "#2b6cb0", "#c05621", "#9aa5b1", "#1f2933"
FAINT = "#697683"  # of words, which need more contrast than bars
TABLE_ROWS = 20
STYLES = {
    "numbers": "font-variant-numeric:tabular-nums",
    "told": "text-align:left",
    "doubtful": f"text-align:left;color:{FAINT}",
    "flagged": f"text-align:left;color:{ORANGE}",
}
ATTACKED = "what attackers could have done"

_BAR = 150  # pixels
_LABEL = 24  # characters of a key's name beside a plot


def table(estimates: Estimates, inline: bool = True) -> str:
    """An HTML table of the most frequent keys; names are escaped, nothing is loaded.

    It looks well by itself (``inline``), as in notebooks, or by the classes of ``STYLES`` on a page that has them.
    """
    shown = most_frequent(estimates, TABLE_ROWS)
    estimates = listed(estimates, len(shown))
    look = _look(inline)
    titles = [panel.title for panel in panels_of(estimates, estimates.truth)]
    head = "".join(f'<th colspan="2" {look["told"]}>{title}</th>' for title in titles)
    body = "".join(rows(estimates, shown, inline))
    hidden = estimates.schema.d - len(shown)
    more = f"<div>… and {hidden:,} more {'key' if hidden == 1 else 'keys'}, less frequent.</div>" if hidden else ""
    return (
        f"<div {look['numbers']}><div>{escape(caption(estimates))}</div><table>"
        f"<thead><tr><th {look['told']}>key</th>{head}<th {look['told']}>flag</th></tr></thead><tbody>{body}</tbody>"
        "</table>"
        f"{more}<div>{escape(remarks(estimates))}</div></div>"
    )


def rows(estimates: Estimates, shown: NDArray[np.intp], inline: bool = True) -> list[str]:
    """A row of HTML for each of some keys: its name, each kind of estimate as text and as a bar, and its flag.

    The bars have a common scale. Estimates come as they are to be shown (``listed``, ``Estimates.display``).
    """
    panels, flags, look = panels_of(estimates, estimates.truth), estimates.flag, _look(inline)
    limits = [panel.limits(shown) for panel in panels]
    return [
        f'<tr><th scope="row" {look["told"]}>{escape(estimates.schema.keys[at])}</th>'
        + "".join(_cells(panel, at, ends, look) for panel, ends in zip(panels, limits, strict=True))
        + f"<td {look['told' if flags[at] == 'ok' else 'flagged']}>{flags[at]}</td></tr>"
        for at in shown
    ]


def _look(inline: bool) -> dict[str, str]:
    return {name: f'style="{style}"' if inline else f'class="{name}"' for name, style in STYLES.items()}


def listed(estimates: Estimates, count: int) -> Estimates:
    """Estimates as a list of the ``count`` most frequent keys shows them: inside their range, chosen by frequency."""
    return estimates.chosen(count).display()


def more_people(estimates: Estimates) -> str:
    """One sentence on what more people would give; where a cap is seen to hide pairs, they do not make that less."""
    if not estimates.n:
        return "Nobody reported yet."
    doubtful = sum(flag in ("insufficient", "wide") for flag in estimates.flag)
    few = f"; {doubtful:,} of {estimates.schema.d:,} keys {'is' if doubtful == 1 else 'are'} not known well yet"
    few = few if doubtful else ""
    hidden = estimates.header.undercount
    if hidden is not None and hidden.seen:
        gain = "halve the noise in these intervals, but not what the cap hides, which takes a higher cap"
    else:
        gain = "make these intervals half as wide"
    return f"Four times as many people, {4 * estimates.n:,}, would {gain}{few}."


def remarks(estimates: Estimates) -> str:
    """What stands under every table: what more people would give, and what a cap on pairs hides."""
    hidden, moved = estimates.header.undercount, estimates.attacked
    told = more_people(estimates) + ("" if hidden is None or not estimates.n else f" {hidden}")
    return told if moved is None else f"{told} {moved}"


def forest(estimates: Estimates, ax: Axes | Sequence[Axes] | None, top: int, truth: Truth | None) -> Figure:
    """A row per key, its interval as a line: frequencies in one panel, means (if there are any) in the next."""
    shown = most_frequent(estimates, max(top, 1))
    estimates = listed(estimates, len(shown))
    panels = panels_of(estimates, truth)
    axes = _new_axes(len(panels), len(shown)) if ax is None else _given_axes(ax, len(panels))
    for place, panel in zip(axes, panels, strict=True):
        _draw(place, panel, shown)
    names = [_shortened(estimates.schema.keys[at]) for at in shown]
    axes[0].set_yticks(range(len(names)), names, parse_math=False)
    figure = cast("Figure", axes[0].figure)
    if ax is None:
        figure.suptitle(caption(estimates), fontsize="medium", color=INK)
        _legend(figure, axes)
    return figure


@dataclass(frozen=True, eq=False)
class Panel:
    """One kind of estimate as it is drawn, in the table and in the plot alike."""

    title: str
    axis: str  # the title with what a reader of the axis must know
    colour: str
    column: Column  # to read
    drawn: Column  # the same on the scale of the axis
    possible: tuple[float, float]
    truth: Floats | None
    attacked: tuple[Floats, Floats] | None = None  # limits of what crafted reports could lead to, on the same scale

    def doubtful(self, at: Any) -> Any:
        return self.column.flag[at] >= FLAGS.index("insufficient")

    def limits(self, shown: NDArray[np.intp]) -> tuple[float, float]:
        """The part of the possible range that the intervals of these keys need; doubtful ones do not widen it."""
        sure = shown[~self.doubtful(shown)]
        ends = [self.drawn.low[sure], self.drawn.high[sure], self.drawn.values[sure]]
        if self.truth is not None:
            ends.append(self.truth[shown])
        if self.attacked is not None:
            ends += [end[sure] for end in self.attacked]
        if self.title == "frequency":
            ends.append(np.zeros(1))  # frequencies are compared by their distance from nothing
        known = np.concatenate(ends)
        known = np.clip(known[np.isfinite(known)], *self.possible)
        if known.size == 0 or known.min() == known.max():
            return self.possible
        return float(known.min()), float(known.max())


def panels_of(estimates: Estimates, truth: Truth | None) -> list[Panel]:
    schema, frequency, mean, moved = estimates.schema, estimates.frequency, estimates.mean, estimates.attacked
    panels = []
    if not frequency.absent:
        true = None if truth is None else truth.frequency
        reach = None if moved is None else (moved.frequency_low, moved.frequency_high)
        panels.append(Panel("frequency", "frequency", BLUE, frequency, frequency, (0.0, 1.0), true, reach))
    if not mean.absent:
        true = None if truth is None else truth.mean
        reach = None if moved is None else (moved.mean_low, moved.mean_high)
        least, most = (schema.from_unit(np.full(schema.d, end)) for end in (-1.0, 1.0))
        if np.all(least == least[0]) and np.all(most == most[0]):
            possible = (float(least[0]), float(most[0]))
            true = None if true is None else schema.from_unit(true)
            reach = None if reach is None else (schema.from_unit(reach[0]), schema.from_unit(reach[1]))
            panels.append(Panel("mean", "mean", ORANGE, mean, mean.in_units, possible, true, reach))
        else:  # keys of different units share no other axis
            axis = "mean, each key’s range scaled to [−1, 1]"
            panels.append(Panel("mean", axis, ORANGE, mean, mean, (-1.0, 1.0), true, reach))
    return panels


def most_frequent(estimates: Estimates, top: int) -> NDArray[np.intp]:
    return np.argsort(-estimates.frequency.values, kind="stable")[:top]  # NaN sorts last


def caption(estimates: Estimates) -> str:
    """Mechanism, epsilon, reports and what the intervals are for."""
    whom = "the population" if estimates.population else "the people who reported"
    approximate = "approximate: drawn from a normal limit · " if estimates.header.approximate else ""
    return (
        f"{approximate}{estimates.mechanism} · ε = {decimal_text(estimates.epsilon)} · {estimates.n:,} reports · "
        f"{100 * estimates.confidence:g} % intervals for {whom}"
    )


def _shortened(key: str) -> str:
    """A name beside a plot: no font draws control characters."""
    shown = "".join(letter if letter.isprintable() else " " for letter in key[:_LABEL])
    return shown if len(key) <= _LABEL else shown[: _LABEL - 1] + "…"


# -- the table ------------------------------------------------------------------------------------------------------


def _cells(panel: Panel, at: int, limits: tuple[float, float], look: Mapping[str, str]) -> str:
    colour = GREY if panel.doubtful(at) else panel.colour
    text = str(replace(panel.column[panel.column.schema.keys[at]], flag="ok"))  # the flag has a cell of its own
    label = f"{panel.title} {text}"
    ink = look["doubtful" if panel.doubtful(at) else "told"]
    return f"<td {ink}>{text}</td><td>{_bar(panel, at, limits, colour, label)}</td>"


def _bar(panel: Panel, at: int, limits: tuple[float, float], colour: str, label: str) -> str:
    def x(number: float) -> float:
        share = (number - limits[0]) / (limits[1] - limits[0])
        return round(5 + (_BAR - 10) * min(max(float(share), 0.0), 1.0), 1)

    value, low, high = (float(array[at]) for array in (panel.drawn.values, panel.drawn.low, panel.drawn.high))
    true = np.nan if panel.truth is None else float(panel.truth[at])
    marks = f'<line x1="5" x2="{_BAR - 5}" y1="8" y2="8" stroke="currentColor" stroke-opacity=".15"/>'
    if panel.attacked is not None and not np.isnan([end[at] for end in panel.attacked]).any():
        first, last = (x(float(end[at])) for end in panel.attacked)
        wide = f'width="{max(last - first, 1.0):.1f}" height="10"'
        marks += f'<rect x="{first}" y="3" {wide} rx="2" fill="{colour}" fill-opacity=".15"/>'
    if not (np.isnan(low) or np.isnan(high)):
        width = max(x(high) - x(low), 1.0)
        marks += f'<rect x="{x(low)}" y="6" width="{width:.1f}" height="4" rx="2" fill="{colour}" fill-opacity=".45"/>'
    if not np.isnan(value):
        marks += f'<circle cx="{x(value)}" cy="8" r="3.5" fill="{colour}"/>'
    if not np.isnan(true):
        marks += f'<line x1="{x(true)}" x2="{x(true)}" y1="1" y2="15" stroke="currentColor" stroke-width="1.5"/>'
    return f'<svg width="{_BAR}" height="16" role="img" aria-label="{label}">{marks}</svg>'


# -- the plot -------------------------------------------------------------------------------------------------------


def _new_axes(panels: int, rows: int) -> list[Axes]:
    with extra("plots", "Plots"):
        from matplotlib import pyplot
    size = (1.6 + 3.8 * panels, 1.7 + 0.27 * rows)
    _, axes = pyplot.subplots(1, panels, figsize=size, squeeze=False, layout="constrained")
    return list(axes[0])


def _given_axes(ax: Axes | Sequence[Axes], panels: int) -> list[Axes]:
    axes: list[Axes] = list(np.ravel(np.asarray(ax, dtype=object)))
    if len(axes) != panels:
        raise MechanismError("estimate/axes", f"This plot needs {panels} axes side by side, not {len(axes)}.")
    return axes


def _draw(ax: Axes, panel: Panel, shown: NDArray[np.intp]) -> None:
    rows = np.arange(len(shown))
    doubtful = panel.doubtful(shown)
    for row in rows[::2]:
        ax.axhspan(row - 0.5, row + 0.5, color="#f5f7fa", zorder=0)
    bare = np.isnan(panel.drawn.low[shown]) | np.isnan(panel.drawn.high[shown])
    kinds = (
        (~doubtful & ~bare, panel.colour, "estimate and interval"),
        (~doubtful & bare, panel.colour, "estimate without interval"),
        (doubtful, GREY, "insufficient data"),
    )
    for some, colour, label in kinds:
        keys = shown[some]
        if keys.size:
            ax.hlines(rows[some], panel.drawn.low[keys], panel.drawn.high[keys], color=colour, alpha=0.5, linewidth=3)
            ax.scatter(panel.drawn.values[keys], rows[some], s=30, color=colour, linewidths=0, label=label, zorder=3)
    if panel.attacked is not None:
        low, high = (np.clip(end[shown], *panel.possible) for end in panel.attacked)
        ax.hlines(rows, low, high, color=panel.colour, alpha=0.15, linewidth=8, label=ATTACKED, zorder=1)
    if panel.truth is not None:
        ax.scatter(
            panel.truth[shown], rows, s=34, marker="D", facecolors="none", edgecolors=INK, label="truth", zorder=4
        )
    first, last = panel.limits(shown)
    margin = 0.06 * (last - first)
    ax.set_xlim(first - margin, last + margin)
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ax.set_xlabel(panel.axis, color=INK)
    ax.set_yticks([])
    ax.grid(axis="x", color="#d9e2ec", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.tick_params(length=0, colors=INK)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color("#bcccdc")


def _legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One entry per kind of mark; what the colours mean is said by the titles of the panels."""
    entries = {label: mark for ax in axes[::-1] for mark, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    kinds = ["estimate and interval", "estimate without interval", "insufficient data", "truth", ATTACKED]
    order = sorted(entries, key=kinds.index)
    figure.legend([entries[label] for label in order], order, loc="outside lower center", ncols=5, frameon=False)
