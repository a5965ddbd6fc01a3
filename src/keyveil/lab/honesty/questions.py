"""What else is asked of one run's reports: medians and quartiles, sums over sets of keys, and conditionals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keyveil.core.estimates import Estimates, Interval
from keyveil.core.tally import Tally
from keyveil.lab.honesty.truths import Facts
from keyveil.learn.comparisons import subset_sums
from keyveil.learn.conditionals import Conditionals
from keyveil.learn.distributions import distribution
from keyveil.mechanisms.base import Mechanism

MEDIANS, PAIRS, SETS = 100, 100, 14  # most keys, pairs and sets of a partition that one run asks about
PARTITIONS = (3, 8)  # at least and at most; more of them where keys are many, so that sums are not what takes most runs


@dataclass(frozen=True, eq=False)
class Source:
    """What further questions are asked of: the reports of one run, and the truth about the people."""

    mechanism: Mechanism
    tally: Tally
    estimates: Estimates
    facts: Facts
    rng: np.random.Generator
    population: bool


Answers = list[tuple[Interval, float]]


def _quantiles(source: Source) -> tuple[Answers, Answers]:
    """Medians, and lower and upper quartiles by turns, of some keys."""
    laws, facts = distribution(source.mechanism, source.tally, population=source.population), source.facts
    medians, quartiles = Answers(), Answers()
    for place, key in enumerate(source.rng.permutation(facts.schema.d)[:MEDIANS].tolist()):
        level = (0.25, 0.75)[place % 2]
        medians.append((laws.quantile(0.5, key), facts.quantile(0.5, key)))
        quartiles.append((laws.quantile(level, key), facts.quantile(level, key)))
    return medians, quartiles


def _sums(source: Source) -> tuple[Answers]:
    d, rng = source.facts.schema.d, source.rng
    sets = list[list[int]]()
    for _ in range(int(np.clip(d // SETS, *PARTITIONS))):  # its sets are apart: their errors have little in common
        cuts = np.sort(rng.permutation(d - 1)[: min(SETS, max(d // 3, 1)) - 1] + 1)
        sets += [part.tolist() for part in np.split(rng.permutation(d), cuts)]
    sums = subset_sums(source.estimates, sets, mechanism=source.mechanism, tally=source.tally)
    return ([(total, source.facts.total(keys)) for total, keys in zip(sums, sets, strict=True)],)


def _conditionals(source: Source) -> tuple[Answers]:
    asked = Conditionals(source.mechanism, source.tally, population=source.population)
    names, found = source.facts.schema.keys, Answers()
    for _ in range(min(PAIRS, len(names))):
        key, given = source.rng.permutation(len(names))[:2].tolist()
        share = asked.frequency(names[key], {names[given]: True})
        found.append((share, source.facts.share_given(key, given)))
    return (found,)


FURTHER: dict[tuple[str, ...], Callable[[Source], tuple[Answers, ...]]] = {
    ("median", "quartile"): _quantiles,
    ("sum",): _sums,
    ("conditional",): _conditionals,
}
