"""Gains of attacks over the share of attackers, beside the most that so many reports can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from keyveil.core.extras import extra
from keyveil.display.estimates import BLUE, GREY, INK, ORANGE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {
    "maximal": ORANGE,
    "bare": "#975a16",
    "hidden": BLUE,
    "random pairs": "#2f855a",
    "random messages": "#805ad5",
}


def gains_over_shares(rows: Sequence[dict[str, Any]], title: str) -> Figure:
    """One panel for each quantity and direction; ``rows`` are the ``gains`` of ``keyveil attack --json``."""
    with extra("plots", "Plots"):
        from matplotlib import pyplot
    panels = list(dict.fromkeys((row["quantity"], row["direction"]) for row in rows))
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(1.2 + 3.8 * len(panels), 3.6), squeeze=False, layout="constrained"
    )
    for ax, (quantity, direction) in zip(axes[0], panels, strict=True):
        own = [row for row in rows if (row["quantity"], row["direction"]) == (quantity, direction)]
        for kind in dict.fromkeys(row["attack"] for row in own):
            points = [(row["share"], row["gain"]) for row in own if row["attack"] == kind and row["gain"] is not None]
            if points:
                shares, gains = zip(*sorted(points), strict=True)
                ax.plot(shares, gains, marker="o", color=COLOURS.get(kind, INK), label=kind)
        limits = sorted({(row["share"], row["bound"]) for row in own if row["bound"] is not None})
        if limits:
            proved = all(row["bound_kind"] == "bound" for row in own if row["bound"] is not None)
            told = "bound" if proved else "largest found"
            ax.plot(*zip(*limits, strict=True), color=GREY, linestyle="--", label=told)
        ax.set_xlabel("share of attackers", color=INK)
        ax.set_ylabel(f"gain: {quantity} {direction}", color=INK)
        ax.spines[["top", "right"]].set_visible(False)
    labels = {label: line for ax in axes[0] for line, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(labels.values(), labels.keys(), loc="outside lower center", ncols=5, frameon=False)
    figure.suptitle(title, fontsize="medium", color=INK)
    return figure
