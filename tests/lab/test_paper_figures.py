"""Every table and figure of the five papers can be set up as it was run: 43 of them, each at a few people.

A row names who takes part, on which people, at which budgets, and what is read off. Data that only their owners may
pass on (MovieLens, Amazon, clothing, films, emoji) are stood in for by a recipe with keys of that kind; the loaders of
those files have tests of their own. Nothing is said here about errors: a row fails if a set-up is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from keyveil.core.schema import Schema
from keyveil.lab.contenders import Contender
from keyveil.lab.datasets.recipes import load
from keyveil.lab.simulate import Simulation, simulate
from keyveil.learn.comparisons import correlation, subset_sum
from keyveil.learn.conditionals import Conditionals
from keyveil.learn.postprocess import METHODS, choose
from keyveil.learn.postprocess import estimates as processed
from keyveil.mechanisms.base import Mechanism
from keyveil.privacy.composition import square_wave_total

PEOPLE = 300
ENOUGH = 3000  # people of whom somebody reports each key
Reading = Callable[[Simulation], object]


@dataclass(frozen=True)
class SetUp:
    """Who is run on whom at which epsilons; ``read`` has what the figure shows."""

    who: tuple[str, ...]
    people: tuple[str, ...]
    epsilons: tuple[str, ...]
    read: tuple[Reading, ...] = ()
    keys: tuple[int, ...] = (0,)  # how many of the keys; 0 for all
    sizes: tuple[int, ...] = (PEOPLE,)
    options: dict[str, Any] = field(default_factory=dict)  # of the recipe


def metric(name: str) -> Reading:
    def value(found: Simulation) -> object:
        number = found.metrics[name]
        assert number is not None and np.isfinite(number), f"{name} is {number}"
        return number

    return value


def after(method: str) -> Reading:
    """A method of consistency that keeps every frequency finite."""

    def value(found: Simulation) -> object:
        single = found.mechanism if isinstance(found.mechanism, Mechanism) else None
        frequencies = processed(method, found.estimates, mechanism=single).frequency.values
        assert np.isfinite(frequencies).all()
        return frequencies

    return value


def set_sum(share: float) -> Reading:
    """The sum over a share of the keys; of protocols, whose sums have no interval, its error."""

    def value(found: Simulation) -> object:
        if not isinstance(found.mechanism, Mechanism):
            return metric("mse_subset")(found)
        d = found.protocol.schema.d
        keys = np.random.default_rng(1).permutation(d)[: max(int(share * d), 2)].tolist()
        return subset_sum(found.estimates, keys, mechanism=found.mechanism, tally=found.tally)

    return value


def conditional(found: Simulation) -> object:
    asked = Conditionals(found.history[0].round.mechanism, found.tally)
    first, second = found.protocol.schema.keys[:2]
    return asked.frequency(first, {second: True}), asked.mean(first, {second: True})


def amplified(found: Simulation) -> object:
    """Key and value together spend less than the sum of their budgets."""
    assert square_wave_total(1, 2) < 3
    return found.spent


def best_method(found: Simulation) -> object:
    """The method of consistency for sets of emoji, chosen on synthetic people."""
    sets = [[0, 1, 2], [10, 20, 30, 40]]
    mechanism = found.history[0].round.mechanism
    return choose(found.estimates, sets, mechanism=mechanism, methods=("base", "norm-sub"), repeats=2)


def pearson(found: Simulation) -> object:
    """The coefficient: a number at every ε. Freed of noise it is one, or insufficient."""
    seen = correlation(found.estimates)
    assert np.isfinite(seen.plain) and -1 <= seen.plain <= 1
    assert np.isfinite(seen.corrected.value) or seen.corrected.flag == "insufficient"
    return seen


def bits(found: Simulation) -> object:
    assert found.bits_per_report > 0
    return found.bits_per_report


def cost(found: Simulation) -> object:
    assert found.cost(len(found.history)) is not None
    return found.cheapest


MEANS, FREQUENCIES = metric("mse_mean"), metric("mse_frequency")
FIVE = "rounds=1,virtual=5"
VIRTUAL = (
    f"privkvm:{FIVE},estimator=published",
    f"privkvm-harmony:{FIVE},estimator=published",
    f"privkvm-meanest:{FIVE}",
)
ORACLES = ("krr-harmony:values=false", "shist-harmony:values=false", "rappor-meanest:values=false")
YE = ("gauss", "plaw", "lnr")
ITERATED = tuple(f"privkvm:rounds={rounds}" for rounds in (1, 3, 10))
SUN = (
    "privkv:split=paper,estimator=published",
    "privkv:split=paper",
    "privkvm:rounds=10",
    "f2m:split=paper,default=1",
    "kvue",
    "kvoh",
)
LI = ("kv-sw:max_pairs=3", "pckv-ue:max_pairs=3,split=paper", "pckv-grr:max_pairs=3,split=paper", "privkvm:rounds=1")
LI_SETS = ("linear-s", "uniform")
LAWS = ("kv-sw:max_pairs=3,cells=1024", "privkvm-star")
FAIR = ("adaptive:max_pairs=5", "pckv-grr:max_pairs=5,split=paper")
CONSISTENT = tuple(after(method) for method in METHODS if method not in ("post-pos", "mle", "gauss", "gauss-ns"))

SET_UPS: dict[str, SetUp] = {
    # Ye et al. 2019
    "Ye Table III": SetUp(("kvue",), YE, ("1",)),
    "Ye Table IV": SetUp(
        ("krr-harmony", "shist-harmony", "rappor-meanest", "privkv", "privkvm:rounds=10"), ("plaw",), ("1",), (bits,)
    ),
    "Ye Fig. 3": SetUp(VIRTUAL, YE, ("0.1", "6.4"), (MEANS,)),
    "Ye Fig. 4": SetUp((*ORACLES, VIRTUAL[0]), ("gauss", "plaw"), ("0.1",), (FREQUENCIES,)),
    "Ye Fig. 5": SetUp(("krr-harmony:values=false", *VIRTUAL[:2]), ("gauss",), ("1",), sizes=(100, 1000)),
    "Ye Fig. 6": SetUp(("krr-harmony:values=false", *VIRTUAL[:2]), ("lnr",), ("1",), keys=(20, 500)),
    "Ye Fig. 7": SetUp(("krr-harmony", VIRTUAL[0]), YE[1:2], ("0.1", "6.4"), (pearson,), sizes=(20_000,)),
    "Ye Fig. 8": SetUp(("krr-harmony", VIRTUAL[0]), YE[1:], ("0.1", "6.4"), (MEANS,)),
    "Ye Fig. 9": SetUp(ITERATED, YE[:2], ("0.5", "6.4"), (MEANS,)),
    "Ye Fig. 10": SetUp(
        tuple(f"{one}:rounds={rounds}" for one in ("privkvm-harmony", "privkvm-meanest") for rounds in (1, 10)),
        ("plaw",),
        ("0.5", "6.4"),
        (MEANS,),
    ),
    "Ye Fig. 11": SetUp(
        ("privkvm:rounds=3", "privkvm:rounds=6", "privkvm-plus:decay=2"), YE[:2], ("0.5", "6.4"), (cost,)
    ),
    "Ye Fig. 12": SetUp((VIRTUAL[0], "privkvm:rounds=6"), YE, ("0.05", "6.4"), (MEANS,)),
    # Sun et al. 2019
    "Sun Table IV": SetUp(("privkv", "f2m", "kvue", "kvoh"), ("uniform",), ("1",), (bits,)),
    "Sun Fig. 1": SetUp(SUN, ("uniform", "gaussian"), ("0.1", "5"), (FREQUENCIES, MEANS)),
    "Sun Fig. 2": SetUp(SUN, ("grid",), ("0.1", "5"), (FREQUENCIES,), options={"frequency": 0.05, "mean": -0.8}),
    "Sun Fig. 3": SetUp(SUN, ("grid",), ("0.1", "5"), (MEANS,), options={"frequency": 0.8, "mean": 0.8}),
    "Sun Fig. 4": SetUp(SUN, ("uniform",), ("0.1", "5"), (FREQUENCIES, MEANS)),
    "Sun Fig. 5": SetUp(tuple(f"f2m:default={value}" for value in ("-1", "0", "1/2", "1")), ("uniform",), ("1",)),
    "Sun Fig. 6": SetUp(
        ("ioh",), ("grid",), ("0.1", "5"), (conditional,), (2, 4, 8), options={"frequency": 0.8, "mean": -0.8}
    ),
    "Sun Fig. 7": SetUp(
        ("ioh",), ("grid",), ("1",), (conditional,), (2, 4, 8), options={"frequency": 0.8, "mean": -0.8}
    ),
    # Li et al. 2022
    "Li Fig. 2": SetUp(
        ("kv-sw:max_pairs=3,split=paper", "kv-sw:max_pairs=3,split=tight"), ("linear-s",), ("1",), (amplified,)
    ),
    "Li Fig. 3": SetUp(LI, LI_SETS, ("0.1", "6"), (FREQUENCIES, after("norm-sub")), sizes=(ENOUGH,)),
    "Li Fig. 4": SetUp(LI, LI_SETS, ("0.1", "6"), (metric("mse_frequency_top"), after("norm-sub")), sizes=(ENOUGH,)),
    "Li Fig. 5": SetUp(LI, LI_SETS, ("0.1", "6"), (set_sum(0.3),), sizes=(ENOUGH,)),
    "Li Fig. 6": SetUp(LI, LI_SETS, ("1",), (metric("mse_frequency_top"),), sizes=(ENOUGH,)),
    "Li Fig. 7": SetUp(LI, LI_SETS, ("1",), (set_sum(0.1), set_sum(0.9)), sizes=(ENOUGH,)),
    "Li Fig. 8": SetUp(LAWS, LI_SETS[:1], ("0.1", "6"), (metric("wasserstein"),)),
    "Li Fig. 9": SetUp((*LI, *LAWS), LI_SETS[:1], ("0.1", "6")),
    "Li Fig. 10": SetUp(LAWS, LI_SETS[:1], ("0.1", "6"), (metric("mse_variance"),)),
    # Dong et al. 2023
    "Dong Fig. 1": SetUp(
        (*(f"{FAIR[0]},theta={theta}" for theta in (0, 1, 2)), FAIR[1]),
        ("linear-s",),
        ("2", "16"),
        options={"slope": 1},
    ),
    "Dong Fig. 2": SetUp(
        tuple(f"{FAIR[0]},theta=1,key_to_value={share}" for share in ("1/32", "1", "4")), ("linear-s",), ("6",)
    ),
    "Dong Fig. 3": SetUp(tuple(f"{FAIR[0]},theta={theta}" for theta in (0, 4, 12)), ("linear-s",), ("6",)),
    "Dong Fig. 4": SetUp(FAIR, ("linear-s",), ("6",), options={"slope": 5}),
    # Wang et al. 2020
    **{
        f"Wang Fig. {number}": SetUp(("olh",), ("zipf",), epsilons, (*CONSISTENT, *more))
        for number, epsilons, more in (
            (1, ("1",), ()),
            (2, ("1",), ()),
            (3, ("1",), ()),
            (4, ("0.2", "4"), ()),
            (5, ("1",), ()),
            (6, ("1",), (set_sum(0.1), set_sum(0.9))),
            (7, ("1",), (set_sum(0.01),)),
            (8, ("0.2", "4"), (set_sum(0.01),)),
            (9, ("1",), (best_method,)),
            (10, ("1",), ()),
        )
    },
}


def test_there_is_a_row_for_every_table_and_figure() -> None:
    papers = [figure.split()[0] for figure in SET_UPS]
    assert {paper: papers.count(paper) for paper in papers} == {"Ye": 12, "Sun": 8, "Li": 9, "Dong": 4, "Wang": 10}


@pytest.mark.parametrize("figure", SET_UPS)
def test_a_set_up_of_the_papers_is_accepted(figure: str) -> None:
    one = SET_UPS[figure]
    for people in one.people:
        for n in one.sizes:
            data = load(people, n=n, seed=1, **one.options)
            for keys in one.keys:
                schema = Schema(keys=data.schema.keys[:keys]) if keys else data.schema
                for label in one.who:
                    for epsilon in one.epsilons:
                        contender = Contender.parse(label)
                        options = dict(contender.options)
                        found = simulate(
                            contender.name, data.population, schema, Fraction(epsilon), seed=1, shortcut=True, **options
                        )
                        for reading in one.read:
                            reading(found)
