"""What a run would cost before it is begun: a run of a few cells is timed, and the rest is extrapolated from it.

CPU seconds of one processor, on this machine. Cells of a figure differ, so a forecast from few of them is rough; the
largest and the least are told with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from keyveil.lab.experiments.cells import Cell, measure, people_of
from keyveil.lab.experiments.plan import Plan
from keyveil.lab.store import Finished

SAMPLES = 2  # cells of a figure that are timed


@dataclass(frozen=True)
class Cost:
    """What is left of a figure, and the CPU seconds that it would take."""

    id: str
    cells: int  # not finished yet
    runs: int
    seconds: float
    least: float  # if all runs were as cheap as the cheapest that was timed
    most: float


def cost(plan: Plan, finished: Finished, samples: int = SAMPLES) -> Cost:
    """Time one run of ``samples`` cells that are not finished, spread evenly over the figure."""
    left = [cell for cell in {cell.key: cell for cell in plan.cells}.values() if cell.key not in finished]
    if not left:
        return Cost(plan.experiment.id, 0, 0, 0.0, 0.0, 0.0)
    places = np.unique(np.linspace(0, len(left) - 1, min(samples, len(left)) + 2).round().astype(int)[1:-1])
    timed = [_timed(plan, left[place]) for place in places]
    runs = sum(cell.last - cell.first for cell in left)
    crowds = len({(people_of(cell.people), cell.n) for cell in left})
    drawing = max(one for one, _ in timed) * crowds  # people are drawn once for all of their cells
    each = [one for _, one in timed]
    least, middle, most = (float(drawing + runs * one) for one in (min(each), np.mean(each), max(each)))
    return Cost(plan.experiment.id, len(left), runs, middle, least, most)


def _timed(plan: Plan, cell: Cell) -> tuple[float, float]:
    """CPU seconds to draw the people, and of one run on them."""
    one = replace(cell, last=cell.first + 1)
    file = plan.files[cell.people.title]
    first = measure(one, file)["seconds"]
    if cell.people.fresh or cell.formula:  # every run draws people of its own
        return 0.0, float(first)
    again = measure(one, file)["seconds"]
    return max(float(first) - float(again), 0.0), float(again)
