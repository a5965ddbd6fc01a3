"""The tables of docs/theory.md, empirical Bayes: squared errors of frequencies from drawn estimates.

python -m tests.learn.drawn_errors RUNS SEED POPULATION...

The truth are the frequencies of a population, cut to the 90 % quantile of set sizes for mechanisms with a cap; the
noise is normal with the errors that the mechanism foretells. "Plain" is empirical Bayes without limits, weights and
smooth tails, "peaked" all but the smooth tails.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from keyveil.core.estimates import Estimates
from keyveil.core.schema import Schema
from keyveil.lab import datasets
from keyveil.lab.simulate import simulate
from keyveil.learn import shrinkage
from keyveil.mechanisms.capabilities import PredictedVariance, need
from keyveil.mechanisms.registry import create
from tests.learn.shrunk_errors import CAP, CERTAIN, unlimited

Floats = NDArray[np.float64]

MECHANISMS, EPSILONS = ("ssr", "pckv-grr", "kvue", "wheel"), (0.5, 1, 2, 4)


@dataclass(frozen=True)
class Errors:
    """Of one cell, as ratios: certain keys and top 20 to unbiased ones, all keys to plain ones; and what is covered."""

    certain: float  # NaN without such keys
    top: float
    whole: float
    covered: float


def peaked(estimates: Estimates) -> Estimates:
    """Empirical Bayes whose laws have a peak for every frequent key."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shrinkage, "smooth_tail", lambda laws, *_: laws)
        return shrinkage.bayes(estimates)


WAYS: dict[str, Callable[[Estimates], Estimates]] = {"plain": unlimited, "peaked": peaked, "now": shrinkage.bayes}


def cell(f: Floats, se: Floats, frame: Estimates, runs: int, rng: np.random.Generator) -> dict[str, Errors]:
    """The errors of all ways on the same draws."""
    certain, top = f > CERTAIN * se, np.argsort(-f, kind="stable")[:20]
    sums, held = {way: np.zeros(3) for way in ("raw", *WAYS)}, dict.fromkeys(("raw", *WAYS), 0.0)
    for _ in range(runs):
        x = f + se * rng.normal(size=len(f))
        column = replace(frame.frequency, values=x, se=se, low=x - 1.96 * se, high=x + 1.96 * se)
        drawn = replace(frame, frequency=column, scores=x / se)
        for way, turned in (("raw", lambda one: one), *WAYS.items()):
            now = turned(drawn).frequency
            square = (now.values - f) ** 2
            sums[way] += square[certain].sum(), square[top].sum(), square.sum()
            held[way] += float(((now.low <= f) & (f <= now.high)).mean()) / runs
    with np.errstate(invalid="ignore"):
        found = {}
        for way in WAYS:
            certain_keys, most_frequent = (sums[way][:2] / sums["raw"][:2]).tolist()
            whole = float(sums[way][2] / sums["plain"][2])
            found[way] = Errors(certain_keys, most_frequent, whole, held[way])
    return found


def population(name: str, runs: int, seed: int) -> list[dict[str, Errors]]:
    """All cells of a population."""
    data = datasets.load(name, n=100_000, seed=seed)
    people, d = data.population.keyed(data.schema), data.schema.d
    found: list[dict[str, Errors]] = []
    cap = max(int(np.quantile(people.sizes, CAP, method="inverted_cdf")), 1)
    keep = np.repeat(np.minimum(1, cap / np.maximum(people.sizes, 1)), people.sizes)
    held, kept = (np.bincount(people.keys, weights, minlength=d) / people.n for weights in (None, keep))
    one_each = datasets.one_key(50, np.ones(d), np.zeros(d), 1)
    frame = simulate("oue", one_each, Schema(keys=d), 1, seed=1).estimates
    for mechanism in MECHANISMS:
        capped = mechanism != "kvue"
        sizes = np.bincount(np.minimum(people.sizes, cap if capped else d)) / people.n
        for epsilon in EPSILONS:
            made = create(mechanism, data.schema, epsilon, **({"max_pairs": cap} if capped else {}))
            f = kept if capped else held
            spread = need(made, PredictedVariance).predicted_spread(f, np.zeros(d), sizes, people.n)
            rng = np.random.default_rng([seed, len(found)])
            found.append(cell(f, np.sqrt(spread.frequency), frame, runs, rng))
    return found


def summary(cells: list[dict[str, Errors]]) -> str:
    """Geometric means and worst cells, for every way; how many cells are above the goals of 1.1 and 1.02."""
    parts = []
    for way in WAYS:
        mine = [one[way] for one in cells]
        told = []
        for name, goal in (("certain", 1.1), ("top", 1.6), ("whole", 1.02)):
            ratios = np.array([getattr(one, name) for one in mine])
            ratios = ratios[np.isfinite(ratios)]
            if len(ratios):
                average = float(np.exp(np.log(ratios).mean()))
                told.append(f"{name} {average:.2f}, worst {ratios.max():.2f}, {(ratios > goal).sum()}/{len(ratios)}")
        parts.append(f"  {way}: " + "; ".join(told) + f"; covered from {min(one.covered for one in mine):.3f}")
    return "\n".join(parts)


def main() -> None:
    runs, seed, *names = sys.argv[1:]
    every: list[dict[str, Errors]] = []
    for name in names:
        found = population(name, int(runs), int(seed))
        every += found
        sys.stdout.write(f"{name}\n{summary(found)}\n")
        sys.stdout.flush()
    sys.stdout.write(f"all\n{summary(every)}\n")


if __name__ == "__main__":
    main()
