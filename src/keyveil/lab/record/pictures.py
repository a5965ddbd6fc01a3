"""Heat maps of regret: a row for each contender with its decoder, a column for each setting.

One colour, darker where the regret is larger, on a logarithmic scale; the number stands in the cell, so nobody needs to
read the colour. A ring marks the best, a thin one who shares the first place; an empty cell was not measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from keyveil.core.extras import extra
from keyveil.display.colours import INK, QUIET
from keyveil.lab.record.measures import MEASURES
from keyveil.lab.record.table import Record, Row, setting_of, typical

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = ("mse_frequency", "mse_mean", "kl_frequency", "l1_frequency")
"""Of these there are heat maps, where anybody estimates them."""

_MOST_ROWS, _MOST_COLUMNS = 60, 48
_WORST = 100.0  # a regret from which on the colour is the darkest


def ranked_measures(record: Record) -> list[str]:
    """The measures that have a heat map here."""
    return [name for name in SHOWN if any(row[name] is not None for row in record.rows)]


def heat(record: Record, measure: str) -> Figure:
    """The regrets of one measure. Many rows are cut to those with the least typical regret, and the title says so."""
    with extra("plots", "Plots"):
        from matplotlib import pyplot
    rows = [row for row in record.rows if row[f"regret_{measure}"] is not None]
    settings = list(dict.fromkeys(map(setting_of, rows)))[:_MOST_COLUMNS]
    names = by_regret(rows, measure)
    shown = names[:_MOST_ROWS]
    cells = {(row["mechanism"], row["decoder"], *setting_of(row)): row for row in rows}
    table = np.full((len(shown), len(settings)), np.nan)
    figure, ax = pyplot.subplots(figsize=(3.6 + 0.46 * len(settings), 1.9 + 0.24 * len(shown)), layout="constrained")
    for y, name in enumerate(shown):
        for x, setting in enumerate(settings):
            row = cells.get((*name, *setting))
            if row is not None:
                table[y, x] = row[f"regret_{measure}"]
                _cell(ax, x, y, row, measure)
    ax.imshow(np.log10(np.minimum(table, _WORST)), cmap="Blues", vmin=0, vmax=np.log10(_WORST), aspect="auto")
    ax.set_yticks(range(len(shown)), [_label(*name) for name in shown], fontsize=7, color=INK)
    ax.set_xticks(range(len(settings)), [_column(*one) for one in settings], fontsize=7, rotation=90, color=INK)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    left = "" if len(shown) == len(names) else f", the {len(shown)} best of {len(names)}"
    ax.set_title(f"Regret: {MEASURES[measure].about.partition(':')[0]}{left}", loc="left", fontsize=9, color=INK)
    ax.set_xlabel("1 is the best of a column; a box marks it, a thin one who shares the place", fontsize=7, color=QUIET)
    return figure


def by_regret(rows: list[Row], measure: str) -> list[tuple[str, str]]:
    """Contenders with their decoders, the least typical regret first."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row["mechanism"], row["decoder"]), []).append(row)
    return sorted(found, key=lambda name: typical(found[name], f"regret_{measure}") or np.inf)


def _cell(ax: object, x: int, y: int, row: Row, measure: str) -> None:
    from matplotlib.axes import Axes
    from matplotlib.patches import Rectangle

    assert isinstance(ax, Axes)
    regret = row[f"regret_{measure}"]
    text = f"{regret:.2f}" if regret < 9.995 else f"{regret:.0f}" if regret < 1000 else "≫"
    ax.text(x, y, text, ha="center", va="center", fontsize=6, color="white" if regret > 12 else INK)
    if row[f"best_{measure}"] or row[f"tied_{measure}"]:
        width = 1.6 if row[f"best_{measure}"] else 0.7
        ax.add_patch(Rectangle((x - 0.47, y - 0.45), 0.94, 0.9, fill=False, edgecolor="#D55E00", linewidth=width))


def _label(mechanism: str, decoder: str) -> str:
    return mechanism if decoder == "raw" else f"{mechanism}, {decoder}"


def _column(data: str, epsilon: str) -> str:
    return f"{data.removeprefix('synthetic:')}  ε = {epsilon}"
