"""The page docs/fairness.md and its picture, from the study of ``lab.fairness``.

python -m keyveil.lab.fairness_page docs/fairness.md
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keyveil.core.extras import extra
from keyveil.display.colours import GRID, INK, QUIET
from keyveil.lab.fairness import (
    CONTENDERS,
    EPSILONS,
    PAIRS,
    PEOPLE,
    SCHEMA,
    SLOPES,
    Cell,
    FairnessScore,
    study,
    weighted,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RUNS, SWEEP_RUNS, SEED = 200, 500, 1
EXPONENTS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
LARGE = 4  # the ε of the trade-off
PICTURE = "pictures/fairness.png"

_COLOURS = {"wsr": "#2b6cb0", "pckv-grr": "#c05621", "adaptive, repaired": "#2f855a", "pilot, then wsr": "#6b46c1"}
_MARKERS = {"pckv-grr": "s", "adaptive, repaired": "D", "pilot, then wsr": "^"}

_OPENING = f"""\
# Fair errors

Rare keys have larger errors than frequent ones. Weights can even that out, at a price; this page says who pays it.
The people are linear-s: {PEOPLE:,} of them with exactly {PAIRS} of {SCHEMA.d} keys each, frequencies linear in the
key with slope s (the rarest key is held by 13 % of the people at s = 0.1, by 2.4 % at s = 1 and by 0.5 % at s = 5).
Every run draws new people with new means; the table shows {RUNS} runs (seed {SEED}). All contenders have the same
true ε (the published *adaptive* tells three quarters of what its phases add up to, and is given 4/3 of ε) and the
same treatment: means are cut to [−1, 1], and count as 0 where there is none. *Fairness* is Jain's index of the mean
squared errors over keys: 1 if all keys have the same error, 1/{SCHEMA.d} if one has all of it. It is blind to the
size of errors, so it stands beside them.

The page and the picture are written by"""

_CONTENDERS = """\
* **wsr** has weights β ∝ max(f, τ)^(−½) for frequencies that are known, say from an earlier collection. The floor τ is
  the standard error of a frequency of zero: a key below it is out of reach whatever its weight, and a larger one only
  makes the others pay. **No floor** shows what happens with τ = 0.
* **pilot, then wsr** learns the weights from a twentieth of the people (θ = ¼), who are merged with the others.
* **adaptive** samples rare keys more often: as published, where everybody answers two phases with half of ε each;
  parted, where half of the people answer each of these phases with all of it; and [repaired](protocols-groups.md).
* **pckv-grr** has its tight budget and no weights.

## Errors and fairness

Mean squared error of means (its standard error in the last digits) / fairness. The least error of each row and the
best fairness are **bold**. That the published form of *adaptive* is fair means that all its means are equally bad."""

_SPLITTING = """\
## Splitting people against splitting the budget

The published phases with a budget that is split, with people who are split, and what the repair adds; mean squared
error of frequencies / of means. *Pilot, then wsr* splits people, too."""

_TRADE = f"""\
## The trade-off at ε = {LARGE}

With a large ε rare keys can be seen, and weights are a choice. The line goes through WSR with β ∝ max(f, τ)^(−x) for x
from 0 (no weights) to 1, {SWEEP_RUNS} runs each over the same people; bars are two standard errors. Up and to the left
is better. The table has the error ± its standard error / fairness.

![Fairness of means against their mean squared error at ε = {LARGE}, one panel for each slope]({PICTURE})
"""


_CLAIMS = """\
Error and fairness of a contender divided by those of its rival. A difference in error within two standard errors is a
draw."""


def page(cells: Sequence[Cell], sweeps: Mapping[float, Sequence[FairnessScore]], path: Path) -> str:
    """The whole page, with the command that writes it to ``path``."""
    command = f"```console\n$ python -m keyveil.lab.fairness_page {shlex.quote(str(path))}\n```"
    names = list(CONTENDERS)
    rows = ["| s | ε | " + " | ".join(names) + " |", "|---|---|" + "---|" * len(names)]
    rows += [
        f"| {cell.slope:g} | {cell.epsilon} | {' | '.join(_shown(cell, name) for name in names)} |" for cell in cells
    ]
    return "\n\n".join(
        [
            _OPENING,
            command,
            _CONTENDERS,
            "\n".join(rows),
            "## Who wins and who loses",
            _verdicts(cells),
            _SPLITTING,
            _split(cells),
            _TRADE + _swept(sweeps),
        ]
    )


def _split(cells: Sequence[Cell]) -> str:
    names = ["adaptive, published", "adaptive, parted", "adaptive, repaired", "pilot, then wsr"]
    rows = ["| s | ε | " + " | ".join(names) + " |", "|---|---|" + "---|" * len(names)]
    for cell in cells:
        scores = (cell.scores[name] for name in names)
        told = " | ".join(f"{score.of_frequency.mean():.1e} / {score.mse:.4f}" for score in scores)
        rows.append(f"| {cell.slope:g} | {cell.epsilon} | {told} |")
    return "\n".join(rows)


def _shown(cell: Cell, name: str) -> str:
    score = cell.scores[name]
    error, fairness = f"{score.mse:.4f}({round(1e4 * score.noise)})", f"{score.fairness:.2f}"
    if name == cell.least_error:
        error = f"**{error}**"
    if name == cell.fairest:
        fairness = f"**{fairness}**"
    return f"{error} / {fairness}"


def _verdicts(cells: Sequence[Cell]) -> str:
    """Every claim with the cells in which it holds, is open, or fails; a table for each rival."""
    claims = {
        "pckv-grr": ("wsr", "wsr, no floor", "pilot, then wsr"),
        "adaptive, published": ("adaptive, repaired", "adaptive, parted"),
    }
    told = [_CLAIMS]
    for rival, names in claims.items():
        rows = [f"| s | ε | {' | '.join(names)} |", "|---|---|" + "---|" * len(names)]
        for cell in cells:
            said = (_against(cell.scores[name], cell.scores[rival]) for name in names)
            rows.append(f"| {cell.slope:g} | {cell.epsilon} | {' | '.join(said)} |")
        told += [f"Against *{rival}*:", "\n".join(rows)]
    return "\n\n".join(told)


def _against(one: FairnessScore, rival: FairnessScore) -> str:
    noise = (one.noise**2 + rival.noise**2) ** 0.5
    gap = one.mse - rival.mse
    error = "draw" if abs(gap) < 2 * noise else "less error" if gap < 0 else "more error"
    fairer = "fairer" if one.fairness > rival.fairness else "less fair"
    return f"{error} (× {one.mse / rival.mse:.2f}), {fairer} (× {one.fairness / rival.fairness:.2f})"


def _swept(sweeps: Mapping[float, Sequence[FairnessScore]]) -> str:
    head = ["| x | " + " | ".join(f"s = {slope:g}" for slope in sweeps) + " |", "|---|" + "---|" * len(sweeps)]
    rows = [
        f"| {x:g} | " + " | ".join(_measured(scores[at]) for scores in sweeps.values()) + " |"
        for at, x in enumerate(EXPONENTS)
    ]
    return "\n" + "\n".join(head + rows) + "\n"


def _measured(score: FairnessScore) -> str:
    return f"{score.mse:.5f} ± {score.noise:.5f} / {score.fairness:.2f}"


def trade_off(cells: Sequence[Cell], sweeps: Mapping[float, Sequence[FairnessScore]]) -> Figure:
    """Fairness against error, one panel for each slope."""
    with extra("plots", "Plots"):
        from matplotlib import pyplot
    figure, panels = pyplot.subplots(1, len(sweeps), figsize=(4 * len(sweeps), 4.2), layout="constrained")
    for ax, (slope, scores) in zip(panels, sweeps.items(), strict=True):
        (cell,) = (one for one in cells if (one.slope, one.epsilon) == (slope, LARGE))
        _panel(ax, cell, scores)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, labelcolor=INK, fontsize=9
    )
    return figure


def _panel(ax: Axes, cell: Cell, scores: Sequence[FairnessScore]) -> None:
    from matplotlib.ticker import MaxNLocator

    _point(ax, scores, _COLOURS["wsr"], "o-", "wsr, β ∝ max(f, τ)^(−x)", 4.5)
    for x, score in zip(EXPONENTS, scores, strict=True):
        if x in (EXPONENTS[0], EXPONENTS[-1]):
            ax.annotate(
                f"x = {x:g}", (score.mse, score.fairness), (7, 6), textcoords="offset points", fontsize=8.5, color=INK
            )
    for name, marker in _MARKERS.items():
        _point(ax, [cell.scores[name]], _COLOURS[name], marker, name, 7)
    ax.set_xlim(0)
    ax.set_ylim(0, 1.05)
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.set_xlabel("mean squared error of means", color=INK)
    ax.set_ylabel("fairness (Jain)", color=INK)
    ax.set_title(f"slope s = {cell.slope:g}", loc="left", fontsize=10.5, color=INK)
    ax.grid(color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.tick_params(length=0, colors=INK, labelsize=8.5)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["bottom", "left"]].set_color(QUIET)


def _point(ax: Axes, scores: Sequence[FairnessScore], colour: str, style: str, label: str, size: float) -> None:
    ax.errorbar(
        [score.mse for score in scores],
        [score.fairness for score in scores],
        xerr=[2 * score.noise for score in scores],
        fmt=style,
        color=colour,
        markersize=size,
        elinewidth=1,
        label=label,
    )


def main() -> None:
    """Measure everything, and write the page that the command line names and its picture."""
    path = Path(sys.argv[1])
    cells = [study(CONTENDERS, slope, epsilon, RUNS, SEED) for slope in SLOPES for epsilon in EPSILONS]
    sweeps = {}
    for slope in SLOPES:
        swept = study({f"{x:g}": weighted(x) for x in EXPONENTS}, slope, LARGE, SWEEP_RUNS, SEED)
        sweeps[slope] = list(swept.scores.values())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(cells, sweeps, path), encoding="utf-8")
    picture = path.parent / PICTURE
    picture.parent.mkdir(parents=True, exist_ok=True)
    trade_off(cells, sweeps).savefig(picture, dpi=150, bbox_inches="tight")


if __name__ == "__main__":
    main()
