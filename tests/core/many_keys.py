"""Long tails: of the keys told from absent, how many are absent, and how many chosen intervals miss; cell by cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from keyveil.core.estimates import Estimates
from keyveil.core.schema import Schema
from keyveil.lab.contenders import Contender
from keyveil.lab.datasets import Dataset
from keyveil.lab.datasets.crowds import product_sets, single_keys
from keyveil.lab.datasets.lifelike import skewed_values
from keyveil.lab.datasets.recipe import Recipe, fixed, normal, ranks
from keyveil.lab.rounds import Blocks, ask
from keyveil.mechanisms.overflow.beside import with_usual_group
from keyveil.protocols.registry import as_protocol

ABSENT = 0.1  # standard errors up to which a key counts as absent: no collection could tell it
CLEAR = 5.5  # standard errors from which on a key should be told


def same(estimates: Estimates) -> Estimates:
    return estimates


@dataclass(frozen=True)
class Rates:
    """Means over the runs of a cell."""

    false: tuple[float, ...]  # per run, the share of the told keys that are absent; 0 where none is told
    missed: tuple[float, ...]  # per run, the share of the told keys whose chosen interval misses the truth
    clear: int  # keys above ``CLEAR`` standard errors, over all runs
    clear_told: int
    told: int  # over all runs

    def __str__(self) -> str:
        power = f"{self.clear_told / self.clear:.3f} of {self.clear}" if self.clear else "none"
        return f"{np.mean(self.false):.3f} {np.mean(self.missed):.3f}; clear keys told {power}"


def fresh_tail(seed: int, n: int, least: int = 2000, most: int = 8000) -> Dataset:
    """A population with a long tail whose number of keys, exponent, set sizes and law of sets follow from the seed."""
    rng = np.random.default_rng(seed)
    d, exponent, size = int(rng.integers(least, most)), rng.uniform(1.1, 2), rng.uniform(1, 5)
    weights = ranks(d) ** -exponent
    sets = (product_sets, single_keys)[int(rng.integers(2))]
    frequencies = np.minimum((1 if sets is single_keys else size) * weights / weights.sum(), 0.7)
    about = f"{d} keys, exponent {exponent:.2f}, {float(frequencies.sum()):.1f} pairs, {sets.__name__}"
    law = Recipe(n, about, fixed(frequencies), normal(0, 0.4, -0.95, 0.95, d), sets, skewed_values)
    return Dataset("fresh tail", law.draw(n, seed), Schema(keys=d), about, f"tests:{seed}")


def rates(
    dataset: Dataset,
    name: str,
    epsilon: float,
    runs: int,
    seed: int,
    decided: Callable[[Estimates], Estimates] = same,
) -> Rates:
    """A mechanism on fixed people, as a campaign has it; ``decided`` may decide on keys in another way."""
    people = dataset.population.keyed(dataset.schema)
    contender = Contender.parse(name)
    options = with_usual_group(contender.name, dict(contender.options))
    protocol = as_protocol(contender.at(Fraction(str(epsilon)), dataset.schema, people.sizes, options))
    blocks, truth = Blocks.of(people, dataset.schema), people.truth(dataset.schema).frequency
    false, missed, clear, clear_told, all_told = [], [], 0, 0, 0
    for run in range(runs):
        found = decided(protocol.estimate(ask(protocol, blocks, seed, run, shortcut=True)))
        told, errors = found.told, found.frequency.se
        low, high = found.selected()
        count = max(int(told.sum()), 1)
        false.append(float((told & (truth <= ABSENT * errors)).sum() / count))
        missed.append(float((told & ~((low <= truth) & (truth <= high))).sum() / count))
        strong = truth >= CLEAR * errors
        clear, clear_told, all_told = (
            clear + int(strong.sum()),
            clear_told + int((strong & told).sum()),
            all_told + int(told.sum()),
        )
    return Rates(tuple(false), tuple(missed), clear, clear_told, all_told)
