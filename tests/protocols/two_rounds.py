"""Two rounds of TopSel on the populations on which they were first measured, at full size, against what was found then.

A population of a million people over a thousand keys has 4·10⁸ pairs, so people are drawn block by block.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyveil.core.estimates import Estimates
from keyveil.core.records import Records
from keyveil.core.schema import Schema
from keyveil.lab import datasets
from keyveil.lab.datasets.crowds import populate
from keyveil.lab.rounds import ask
from keyveil.learn.shrinkage import bayes
from keyveil.protocols.topsel_project import TopSelProject

PEOPLE = {"gauss-beta": 10**6, "plaw-beta": 10**6, "lnr-beta": 10**6}  # the others are as large as their recipe says
FEW = 500_000  # people below which a tenth of them are the pilot; otherwise a twentieth

RUNS = {"linear-beta": 60, "gauss-beta": 3, "plaw-beta": 3, "lnr-beta": 1}  # of the others ten; fewer the larger
# For frequencies, frequencies of the top 20, means, and means of the top 20: the error of the best published mechanism,
# and the factor by which two rounds were better as they come out, and drawn together by empirical Bayes.
FIRST_MEASURED: dict[tuple[str, str], tuple[tuple[float, float, float], ...]] = {
    ("gauss-beta", "0.5"): ((7.06e-4, 0.95, 0.98), (7.11e-4, 0.94, 0.86), (1.15e-1, 1.31, 2.32), (5.13e-3, 1.28, 1.59)),
    ("gauss-beta", "1"): ((1.74e-4, 0.92, 0.94), (1.69e-4, 0.73, 0.73), (5.48e-2, 1.1, 1.68), (1.1e-3, 1.26, 1.52)),
    ("gauss-beta", "2"): ((4.78e-5, 1.12, 1.09), (5.18e-5, 0.85, 0.76), (3.3e-2, 0.79, 1.38), (1.95e-4, 1.21, 1.18)),
    ("gauss-beta", "4"): ((1.47e-5, 1.13, 1.11), (2.62e-5, 1.08, 1.01), (7.38e-3, 0.96, 1.49), (5.5e-5, 1.02, 1.09)),
    ("plaw-beta", "0.5"): ((7.63e-4, 1.18, 1.43), (7.71e-4, 0.98, 0.89), (5.58e-2, 2.08, 5.39), (2.51e-2, 6.89, 8.2)),
    ("plaw-beta", "1"): ((1.94e-4, 1.51, 1.52), (1.83e-4, 1.12, 1.04), (2.72e-2, 5.11, 6.98), (3.47e-3, 3.46, 3.34)),
    ("plaw-beta", "2"): ((2.74e-5, 1.14, 1.17), (3.93e-5, 1.1, 1.2), (2.85e-3, 1.12, 1.38), (4.97e-4, 1.01, 0.99)),
    ("plaw-beta", "4"): ((4.42e-6, 1.13, 1.22), (8.87e-6, 1.12, 1.21), (3.75e-4, 1.14, 1.18), (1.12e-4, 1.15, 1.1)),
    ("lnr-beta", "0.5"): ((7.48e-3, 0.84, 12.04), (6.75e-3, 0.81, 5.73), (1.05e-1, 1.69, 1.94), (7.5e-2, 1.4, 1.64)),
    ("lnr-beta", "1"): ((1.85e-3, 0.81, 4.31), (1.99e-3, 0.93, 1.97), (2.17e-2, 1.12, 1.18), (1.76e-2, 1.08, 1.24)),
    ("lnr-beta", "2"): ((5.47e-4, 0.95, 2.09), (5.64e-4, 0.93, 1.1), (3.69e-3, 1.05, 1.1), (3.04e-3, 1.03, 1.08)),
    ("lnr-beta", "4"): ((2.15e-4, 1.04, 1.52), (2.18e-4, 0.85, 0.91), (9.74e-4, 1.01, 1.04), (8.77e-4, 1.0, 1.04)),
    ("uniform-beta", "0.5"): ((6.6e-3, 0.9, 0.96), (4.9e-3, 0.96, 1.19), (1.41e-1, 0.82, 1.74), (2.61e-2, 1.52, 2.13)),
    ("uniform-beta", "1"): ((1.64e-3, 1.05, 1.08), (1.18e-3, 1.16, 1.33), (7.44e-2, 1.24, 1.9), (6.37e-3, 1.43, 1.64)),
    ("uniform-beta", "2"): ((4.59e-4, 1.09, 1.0), (2.74e-4, 0.94, 0.97), (1.86e-2, 1.62, 1.48), (1.26e-3, 1.48, 1.37)),
    ("uniform-beta", "4"): ((1.86e-4, 1.14, 1.19), (8.08e-5, 0.81, 0.72), (2.96e-3, 1.2, 1.28), (5.12e-4, 2.29, 2.69)),
    ("normal-beta", "0.5"): ((7.4e-3, 0.87, 1.1), (7.25e-3, 0.85, 0.92), (9.59e-2, 1.25, 2.48), (4.44e-2, 1.77, 2.01)),
    ("normal-beta", "1"): ((1.83e-3, 0.86, 0.95), (1.6e-3, 0.82, 0.78), (2.5e-2, 1.37, 1.85), (1.02e-2, 1.77, 1.79)),
    ("normal-beta", "2"): ((5.25e-4, 1.01, 1.05), (4.19e-4, 0.89, 0.83), (4.31e-3, 1.04, 1.04), (1.91e-3, 1.1, 1.09)),
    ("normal-beta", "4"): ((2.56e-4, 1.06, 1.11), (2.26e-4, 1.06, 1.03), (1.47e-3, 2.33, 2.26), (8.33e-4, 3.42, 3.28)),
    ("linear-beta", "0.5"): ((7.07e-3, 0.93, 1.1), (7.07e-3, 0.93, 1.1), (2.66e-1, 1.27, 1.64), (2.66e-1, 1.27, 1.64)),
    ("linear-beta", "1"): ((1.85e-3, 1.09, 1.1), (1.85e-3, 1.09, 1.1), (1.15e-1, 1.22, 1.96), (1.15e-1, 1.22, 1.96)),
    ("linear-beta", "2"): ((3.26e-4, 1.09, 1.16), (3.26e-4, 1.09, 1.16), (3.0e-2, 1.16, 1.68), (3.0e-2, 1.16, 1.68)),
    ("linear-beta", "4"): ((7.56e-5, 1.12, 1.1), (7.56e-5, 1.12, 1.1), (3.42e-3, 0.98, 1.78), (3.42e-3, 0.98, 1.78)),
}  # fmt: skip

_BLOCK = 20_000

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Crowd:
    """People in blocks, with the truth about all of them."""

    name: str
    schema: Schema
    blocks: list[Records]
    frequency: Floats
    mean: Floats

    @classmethod
    def of(cls, name: str, seed: int) -> Crowd:
        recipe = datasets.recipe(name)
        n, (shares, means) = PEOPLE.get(name, recipe.people), recipe.profile(seed)
        schema, blocks, held, totals = Schema(keys=len(shares)), [], np.zeros(len(shares)), np.zeros(len(shares))
        for start in range(0, n, _BLOCK):
            rng, people = np.random.default_rng((seed, start)), min(_BLOCK, n - start)
            users, keys = recipe.sets(people, shares, rng)
            values = recipe.values(means, users, keys, rng)
            blocks.append(populate(people, users, keys, values, len(shares)).records(schema))
            held += np.bincount(keys, minlength=len(shares))
            totals += np.bincount(keys, values, minlength=len(shares))
        return cls(name, schema, blocks, held / n, totals / held)

    @property
    def n(self) -> int:
        return sum(block.n for block in self.blocks)

    def protocol(self, epsilon: str) -> TopSelProject:
        """The protocol, told the law of set sizes."""
        counts = np.bincount(np.concatenate([block.sizes for block in self.blocks]))
        law = ",".join(f"{size}:{counts[size] / self.n:g}" for size in np.flatnonzero(counts))
        share = Fraction(1, 10) if self.n < FEW else Fraction(1, 20)
        return TopSelProject(self.schema, Fraction(epsilon), share=share, set_sizes=law)

    def estimates(self, epsilon: str, run: int) -> Estimates:
        protocol = self.protocol(epsilon)
        return protocol.estimate(ask(protocol, self.blocks, run))

    def errors(self, estimates: Estimates) -> Floats:
        """Squared errors by metric, as they come out and by empirical Bayes, [metric, decoder]."""
        top = np.argsort(-self.frequency, kind="stable")[:20]
        found = []
        for one in (estimates, bayes(estimates)):
            f = one.frequency.values - self.frequency
            m = np.nan_to_num(np.clip(one.mean.values, -1, 1)) - self.mean
            found.append([float(np.mean(part**2)) for part in (f, f[top], m, m[top])])
        return np.array(found).T


@dataclass(frozen=True)
class Row:
    """A population at one ε: how much better two rounds are than the best published mechanism, then and now."""

    name: str
    epsilon: str
    then: Floats  # [metric, decoder]
    now: Floats
    stated: float  # variance of frequencies in closed form, as a share of the error that was measured

    @property
    def agreed(self) -> list[bool]:
        """Whether the same side wins, for every cell that was no draw; with 20 keys the top 20 are all."""
        metrics = [0, 2] if self.name == "linear-beta" else slice(None)
        then, now = self.then[metrics].ravel(), self.now[metrics].ravel()
        decided = (then < 0.95) | (then > 1.05)
        return ((then > 1) == (now > 1))[decided].tolist()


def measured(name: str) -> list[Row]:
    """All rows of a population, averaged over runs, each with people of its own."""
    epsilons = [epsilon for where, epsilon in FIRST_MEASURED if where == name]
    errors: dict[str, list[Floats]] = {epsilon: [] for epsilon in epsilons}
    stated: dict[str, list[float]] = {epsilon: [] for epsilon in epsilons}
    for run in range(RUNS.get(name, 10)):
        crowd = Crowd.of(name, 1 + run)
        for epsilon in epsilons:
            estimates = crowd.estimates(epsilon, run)
            errors[epsilon].append(crowd.errors(estimates))
            stated[epsilon].append(float(np.mean(estimates.frequency.se**2)))
    rows = []
    for epsilon in epsilons:
        first, mean = np.array(FIRST_MEASURED[name, epsilon]), np.mean(errors[epsilon], axis=0)
        share = float(np.mean(stated[epsilon]) / mean[0, 0])
        rows.append(Row(name, epsilon, first[:, 1:], first[:, :1] / mean, share))
    return rows
