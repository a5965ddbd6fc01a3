"""The tables of docs/theory.md, empirical Bayes: squared errors of frequencies from drawn estimates.

python -m tests.learn.drawn_errors RUNS SEED POPULATION...

The truth are the frequencies of a population, cut to the 90 % quantile of set sizes for mechanisms with a cap; the
noise is normal with the errors that the mechanism foretells. "Plain" is empirical Bayes without limits, weights and
smooth tails. "Oracle" is the rule that knows all true frequencies, though not whose they are: weights of certain and of
the 20 most frequent keys in its posterior mean give the least error of all keys that goes with an error of those.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from keyveil.core.estimates import Estimates
from keyveil.core.schema import Schema
from keyveil.lab import datasets
from keyveil.lab.simulate import simulate
from keyveil.learn import shrinkage
from keyveil.mechanisms.capabilities import PredictedVariance, need
from keyveil.mechanisms.registry import create
from tests.learn.shrunk_errors import CAP, CERTAIN, unlimited, without_limits

Floats = NDArray[np.float64]

CERTAIN_GOAL, TOP_GOAL, WHOLE_GOAL = 1.1, 1.6, 1.02
MECHANISMS, EPSILONS = ("ssr", "pckv-grr", "kvue", "wheel"), (0.5, 1, 2, 4)


WEIGHTS = (0, 0.5, 1, 2, 4, 8, 16, 64, 256)


@dataclass(frozen=True)
class Errors:
    """Of one cell, as ratios with standard errors: certain keys and top 20 to unbiased ones, all keys to plain ones."""

    certain: tuple[float, float]  # NaN without such keys
    top: tuple[float, float]
    whole: tuple[float, float]
    covered: float

    def __str__(self) -> str:
        told = (f"{ratio:.2f} ±{error:.2f}" for ratio, error in (self.certain, self.top, self.whole))
        return ", ".join(told) + f"; covered {self.covered:.3f}"


WAYS: dict[str, Callable[[Estimates], Estimates]] = {"plain": unlimited, "now": shrinkage.bayes}


def draws(f: Floats, se: Floats, frame: Estimates, runs: int, rng: np.random.Generator) -> Iterator[Estimates]:
    for _ in range(runs):
        x = f + se * rng.normal(size=len(f))
        column = replace(frame.frequency, values=x, se=se, low=x - 1.96 * se, high=x + 1.96 * se)
        yield replace(frame, frequency=column, scores=x / se)


def kinds(f: Floats, se: Floats) -> NDArray[np.bool_]:
    """Certain keys, the 20 most frequent ones, and all, [3, d]."""
    top = np.zeros(len(f), dtype=np.bool_)
    top[np.argsort(-f, kind="stable")[:20]] = True
    return np.array([f > CERTAIN * se, top, np.ones(len(f), dtype=np.bool_)])


def ratio(mine: Floats, reference: Floats) -> tuple[float, float]:
    """Of two sums over runs, and its standard error."""
    if not reference.any():
        return float("nan"), float("nan")
    found = float(mine.sum() / reference.sum())
    return found, float(np.std(mine - found * reference) / np.sqrt(len(mine)) / reference.mean())


def cell(f: Floats, se: Floats, frame: Estimates, runs: int, rng: np.random.Generator) -> dict[str, Errors]:
    """The errors of all ways on the same draws."""
    groups, held = kinds(f, se), dict.fromkeys(("raw", *WAYS), 0.0)
    sums = {way: np.zeros((runs, 3)) for way in ("raw", *WAYS)}
    for run, drawn in enumerate(draws(f, se, frame, runs, rng)):
        for way, turned in (("raw", lambda one: one), *WAYS.items()):
            now = turned(drawn).frequency
            sums[way][run] = groups @ (now.values - f) ** 2
            held[way] += float(((now.low <= f) & (f <= now.high)).mean()) / runs
    found = {}
    for way in WAYS:
        of_certain, of_top = (ratio(sums[way][:, at], sums["raw"][:, at]) for at in (0, 1))
        found[way] = Errors(of_certain, of_top, ratio(sums[way][:, 2], sums["plain"][:, 2]), held[way])
    return found


def oracle(f: Floats, se: Floats, x: Floats, weights: Floats) -> Floats:
    """The posterior mean of every key where all true frequencies are known, and errors of some count more, [key]."""
    cells, at = np.unique(np.rint(10 * f / np.median(se)), return_inverse=True)
    total = np.bincount(at, weights, minlength=len(cells))
    points = np.bincount(at, weights * f) / total
    chances = np.exp(-0.5 * ((x[:, None] - points) / se[:, None]) ** 2) * total
    near = chances.sum(axis=1) > 0
    found: Floats = np.where(near, chances @ points / np.maximum(chances.sum(axis=1), 1e-300), x)
    return found


def frontier(f: Floats, se: Floats, runs: int, rng: np.random.Generator) -> list[tuple[float, float, float]]:
    """Errors of certain keys and top 20 to unbiased ones, and of all keys to plain ones, for all pairs of weights."""
    groups, x = kinds(f, se), f + se * rng.normal(size=(runs, len(f)))
    raw = np.sum([groups @ (one - f) ** 2 for one in x], axis=0)
    reference = float(sum(((plain_values(one, se) - f) ** 2).sum() for one in x))
    found = []
    for certain, top in product(WEIGHTS if groups[0].any() else (0,), WEIGHTS):
        weights = 1 + certain * groups[0] + top * groups[1]
        squares = [groups @ (oracle(f, se, one, weights) - f) ** 2 for one in x]
        of_certain, of_top, of_all = np.sum(squares, axis=0).tolist()
        found.append((of_certain / raw[0] if raw[0] else 0.0, of_top / raw[1], of_all / reference))
    return found


def plain_values(x: Floats, se: Floats) -> Floats:
    with without_limits():
        return shrinkage._frequencies(x, se).mean


def truths(name: str, seed: int) -> Iterator[tuple[str, Floats, Floats]]:
    """Every cell of a population: its name, the true frequencies and their standard errors."""
    data = datasets.load(name, n=100_000, seed=seed)
    people, d = data.population.keyed(data.schema), data.schema.d
    cap = max(int(np.quantile(people.sizes, CAP, method="inverted_cdf")), 1)
    keep = np.repeat(np.minimum(1, cap / np.maximum(people.sizes, 1)), people.sizes)
    held, kept = (np.bincount(people.keys, weights, minlength=d) / people.n for weights in (None, keep))
    for mechanism, epsilon in product(MECHANISMS, EPSILONS):
        capped = mechanism != "kvue"
        sizes = np.bincount(np.minimum(people.sizes, cap if capped else d)) / people.n
        made = create(mechanism, data.schema, epsilon, **({"max_pairs": cap} if capped else {}))
        f = kept if capped else held
        spread = need(made, PredictedVariance).predicted_spread(f, np.zeros(d), sizes, people.n)
        yield f"{name} {mechanism} {epsilon:g}", f, np.sqrt(spread.frequency)


def population(name: str, runs: int, seed: int, tell: Callable[[str], object] = str) -> list[dict[str, Errors]]:
    """All cells of a population, each told as it is done; the oracle's beside what misses a goal."""
    found: list[dict[str, Errors]] = []
    for title, f, se in truths(name, seed):
        d, rng = len(f), np.random.default_rng([seed, len(found)])
        one_each = datasets.one_key(50, np.ones(d), np.zeros(d), 1)
        frame = simulate("oue", one_each, Schema(keys=d), 1, seed=1).estimates
        found.append(cell(f, se, frame, runs, rng))
        now = found[-1]["now"]
        tell(f"{title}, {np.count_nonzero(f > CERTAIN * se)} certain: {now}")
        if tell is not str and (now.certain[0] > CERTAIN_GOAL or now.top[0] > TOP_GOAL):
            points = frontier(f, se, max(runs // 4, 1), rng)
            goal = min((p[2] for p in points if p[0] <= CERTAIN_GOAL and p[1] <= TOP_GOAL), default=np.inf)
            least = min((p[1] for p in points if p[2] <= WHOLE_GOAL), default=np.inf)
            tell(f"  oracle: all keys {goal:.2f} where both goals are met; top {least:.2f} at {WHOLE_GOAL} of all keys")
    return found


def summary(cells: list[dict[str, Errors]]) -> str:
    """Geometric means and worst cells, for every way; how many cells are above the goals of 1.1 and 1.02."""
    parts = []
    for way in WAYS:
        mine = [one[way] for one in cells]
        told = []
        for name, goal in (("certain", CERTAIN_GOAL), ("top", TOP_GOAL), ("whole", WHOLE_GOAL)):
            ratios = np.array([getattr(one, name)[0] for one in mine])
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
        found = population(name, int(runs), int(seed), lambda line: sys.stdout.write(line + "\n"))
        every += found
        sys.stdout.write(f"{name}\n{summary(found)}\n")
        sys.stdout.flush()
    sys.stdout.write(f"all\n{summary(every)}\n")


if __name__ == "__main__":
    main()
