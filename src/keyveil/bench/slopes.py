"""How time grows with people, keys and set size: the slope of a straight line through log time over log size.

A slope of 1 is linear. R² says how well a line fits; below 0.99 the work is not a power of the size in this range,
which is usual where a fixed cost still counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from keyveil.bench.rows import seconds
from keyveil.core.coins import Coins
from keyveil.core.schema import Schema
from keyveil.lab.datasets import independent, one_key
from keyveil.mechanisms.options import option_names
from keyveil.mechanisms.registry import create, find

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Size = tuple[int, int, int]  # people, keys, pairs a person
KEY_VALUE = ("kvue", "pckv-grr", "wsr", "ssr", "pckv-ue", "kv-sw")
ONE_KEY = ("grr", "oue", "olh", "hr", "ss")


@dataclass(frozen=True)
class Growth:
    """Times of one kind of work over one size, and the line through them."""

    name: str  # mechanism and verb
    of: str  # n, d or set size
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    @property
    def line(self) -> tuple[float, float]:
        """Slope and R² of log time over log size."""
        x, y = np.log(self.sizes), np.log(self.seconds)
        slope, level = np.polyfit(x, y, 1)
        rest, spread = float(((y - slope * x - level) ** 2).sum()), float(((y - y.mean()) ** 2).sum())
        return float(slope), 1.0 if spread == 0 else 1 - rest / spread

    def document(self) -> dict[str, Any]:
        """The growth as JSON."""
        slope, fit = self.line
        return {
            "name": self.name,
            "of": self.of,
            "sizes": list(self.sizes),
            "seconds": list(self.seconds),
            "slope": round(slope, 3),
            "r2": round(fit, 4),
        }


def growths(quick: bool = False) -> Iterator[Growth]:
    """Perturbation and tally of the usual mechanisms over people, keys and set sizes."""
    step = 4 if quick else 1
    people = tuple(n // step for n in (16_384, 32_768, 65_536, 131_072, 262_144))
    keys, pairs = (64, 128, 256, 512, 1024), (2, 4, 8, 16, 32)
    few = 32_768 // step
    for name in (*ONE_KEY, *KEY_VALUE):
        for verb in ("perturb", "tally"):
            yield _grown(f"{name} {verb}", "n", people, [work(name, verb, (n, 100, 3)) for n in people])
            yield _grown(f"{name} {verb}", "d", keys, [work(name, verb, (few, d, 3)) for d in keys])
        if name in KEY_VALUE:
            sets = [work(name, "perturb", (few, 256, size)) for size in pairs]
            yield _grown(f"{name} perturb", "set size", pairs, sets)


def work(name: str, verb: str, size: Size) -> Callable[[], object]:
    """One call of the verb over so many people, keys and pairs."""
    n, d, pairs = size
    schema, coins = Schema(keys=d), Coins()
    single = name in ONE_KEY
    mechanism: Any = create(
        name, schema, 1, **({"max_pairs": pairs} if "max_pairs" in option_names(find(name)) else {})
    )
    people = one_key(n, np.ones(d), np.zeros(d), 1) if single else independent(n, np.full(d, pairs / d), np.zeros(d), 1)
    records = people.records(schema)
    if verb == "perturb":
        return lambda: mechanism.perturb_many(records, coins)
    reports = mechanism.perturb_many(records, coins)
    return lambda: mechanism.tally(reports)


def _grown(name: str, of: str, sizes: Sequence[int], works: Sequence[Callable[[], object]], turns: int = 5) -> Growth:
    """The best of some turns for every size; sizes take turns, so that a busy moment meets all of them."""
    for one in works:
        one()  # compiles
    times = np.array([[seconds(one) for one in works] for _ in range(turns)]).min(axis=0)
    return Growth(name, of, tuple(sizes), tuple(times.tolist()))


def picture(found: Sequence[Growth]) -> Figure:
    """Time over size on two logarithmic scales, one panel for people, keys and set size."""
    from matplotlib.figure import Figure

    kinds = list(dict.fromkeys(one.of for one in found))
    figure = Figure(figsize=(5 * len(kinds), 4.5), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(kinds), sharey=True))
    for panel, kind in zip(panels, kinds, strict=True):
        for one in (growth for growth in found if growth.of == kind):
            panel.loglog(one.sizes, one.seconds, marker=".", label=f"{one.name} {one.line[0]:.2f}")
        panel.set_xlabel(kind)
        panel.legend(fontsize=5)
    panels[0].set_ylabel("processor seconds")
    return figure
