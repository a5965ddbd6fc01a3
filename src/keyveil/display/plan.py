"""Trade-offs of a plan, drawn: errors over epsilon, people and keys, with the place that was planned for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from keyveil.core.extras import extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Errors = Mapping[str, Sequence[float | None]]

BARS = "▁▂▃▄▅▆▇█"


def trade_offs(curves: Sequence[tuple[str, Sequence[float], Errors, float]], what: str) -> Figure:
    """One panel a curve (what changes, where, errors of mechanisms, the place that was planned for), on log scales."""
    with extra("plots", "Plots"):
        from matplotlib import pyplot
    size = (4.2 * len(curves), 3.4)
    figure, panels = pyplot.subplots(1, len(curves), figsize=size, sharey=True, squeeze=False, layout="constrained")
    for panel, (axis, places, errors, here) in zip(panels[0], curves, strict=True):
        for name, found in errors.items():
            panel.plot(places, [np.nan if one is None else one for one in found], marker="o", markersize=3, label=name)
        panel.axvline(here, color="0.6", linewidth=0.8, linestyle=":")
        panel.set(xscale="log", yscale="log", xlabel=axis)
        panel.grid(alpha=0.3, which="both", linewidth=0.4)
    panels[0][0].set_ylabel(what)
    panels[0][-1].legend(frameon=False, fontsize="small")
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
