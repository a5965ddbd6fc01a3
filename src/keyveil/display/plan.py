"""Trade-offs of a plan, drawn: errors over epsilon, people and keys, with the place that was planned for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from keyveil.core.extras import extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Errors = Mapping[str, Sequence[float | None]]

EPSILONS = (0.25, 0.5, 1, 2, 4, 8)  # that are written at an axis
BARS = "▁▂▃▄▅▆▇█"


def trade_offs(
    curves: Sequence[tuple[str, Sequence[float], Errors, float]],
    what: str,
    wish: Sequence[tuple[str, Sequence[float], Sequence[float], float | None]] = (),
    wished: tuple[str, float] = ("", 0.0),
) -> Figure:
    """One panel a curve (what changes, where, errors of mechanisms, the place that was planned for), on log scales.

    Below them stand the curves of a ``wish`` (what changes, where, what is reached, where the wish is met), with what
    is ``wished`` in words and as a number.
    """
    with extra("plots", "Plots"):
        from matplotlib import pyplot
    rows, wide = bool(curves) + bool(wish), max(len(curves), len(wish))
    figure, panels = pyplot.subplots(rows, wide, figsize=(4.2 * wide, 3.4 * rows), squeeze=False, layout="constrained")
    for panel, (axis, places, errors, here) in zip(panels[0], curves, strict=False):
        for name, found in errors.items():
            panel.plot(places, [np.nan if one is None else one for one in found], marker="o", markersize=3, label=name)
        panel.axvline(here, color="0.6", linewidth=0.8, linestyle=":")
        panel.set(xscale="log", yscale="log", xlabel=axis)
    if curves:
        shown = panels[0][: len(curves)]
        limits = min(panel.get_ylim()[0] for panel in shown), max(panel.get_ylim()[1] for panel in shown)
        for panel in shown:
            panel.set_ylim(*limits)
        panels[0][0].set_ylabel(what)
        panels[0][len(curves) - 1].legend(frameon=False, fontsize="small")
    words, value = wished
    for panel, (axis, places, reached, solved) in zip(panels[-1], wish, strict=False):
        panel.plot(places, reached, marker="o", markersize=3, color="0.3")
        panel.axhline(value, color="tab:orange", linewidth=0.8, linestyle="--")
        if solved is not None:
            panel.plot([solved], [value], marker="o", markersize=8, color="tab:orange")
            told = f"{solved:,.0f}" if axis == "people" else f"{solved:g}"
            panel.annotate(told, (solved, value), xytext=(8, 8), textcoords="offset points", color="tab:orange")
        panel.set(xscale="log", yscale="log", xlabel=axis)
    if wish:
        panels[-1][0].set_ylabel(words)
    for panel in panels.flat:
        if panel.get_xlabel() == "epsilon":
            panel.set_xticks(EPSILONS, [f"{one:g}" for one in EPSILONS])
            panel.set_xticks([], minor=True)
        elif panel.get_xlabel() == "keys" and panel.lines:
            places = panel.lines[0].get_xdata()
            panel.set_xticks(places, [f"{one:,.0f}" for one in places])
            panel.set_xticks([], minor=True)
        if panel.lines:
            panel.grid(alpha=0.3, which="both", linewidth=0.4)
        else:
            panel.set_visible(False)
    return figure


def bars(numbers: Sequence[float | None]) -> str:
    """Numbers as bars of text on a log scale, the largest the tallest; a blank where one is not known."""
    known = [np.log(one) for one in numbers if one is not None and one > 0]
    if not known:
        return " " * len(numbers)
    low, span = min(known), max(max(known) - min(known), 1e-9)
    return "".join(
        " " if one is None or one <= 0 else BARS[round((len(BARS) - 1) * (np.log(one) - low) / span)] for one in numbers
    )
