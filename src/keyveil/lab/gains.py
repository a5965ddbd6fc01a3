"""What ``apart`` and ``block`` gain where values lie inside their range or sets are dense, and where they lose.

python -m keyveil.lab.gains docs/gains.md

A gain is the mean squared error of the older mechanism over that of the newer one, on the same people: above 1 the
newer one is better. The populations were defined after the mechanisms, and nothing was chosen on them.
"""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keyveil.core.estimates import Estimates
from keyveil.core.schema import GRID, Schema
from keyveil.frames.truth import Truth
from keyveil.lab.coins import SeededCoins
from keyveil.lab.datasets.crowds import Floats, Integers, product_sets
from keyveil.lab.datasets.lifelike import active_sets, leaning, sign_values, survey_sets, zipf_profile
from keyveil.lab.datasets.recipe import Recipe, fixed, normal, uniform
from keyveil.lab.public_options import collected_for
from keyveil.learn.postprocess import estimates as processed
from keyveil.protocols.registry import as_protocol

Contenders = Sequence[tuple[str, Mapping[str, Any]]]

PEOPLE, RUNS, SEED = 50_000, 16, 21
SPARSE_EPSILONS, DENSE_EPSILONS = ("0.5", "1", "2", "4"), ("3", "4", "6")
RARE = 0.2  # f·e^ε up to which a key is called rare: its holders change little in the noise
TOP = 20


def small_values(spread: float) -> Any:
    """Normal values of such a deviation around the level of the key; those of one person go together."""

    def values(means: Floats, users: Integers, keys: Integers, rng: np.random.Generator) -> Floats:
        return np.clip(means[keys] + spread * leaning(users, rng), -1, 1)

    return values


def seven_points(means: Floats, users: Integers, keys: Integers, rng: np.random.Generator) -> Floats:
    """Answers on seven points around the level of the key; those of one person go together."""
    return np.clip(np.rint(3 * (means[keys] + 0.5 * leaning(users, rng))) / 3, -1, 1)


SPARSE = {
    "errands": Recipe(
        PEOPLE, "300 keys, 6 a person", fixed(zipf_profile(300, 0.8, 6)), normal(0, 0.2, -0.9, 0.9, 300), active_sets,
        small_values(0.3),
    ),
    "tracks": Recipe(
        PEOPLE, "1000 keys, 8 a person", fixed(zipf_profile(1000, 0.9, 8)), uniform(-0.5, 0.5, 1000), active_sets,
        small_values(0.4),
    ),
    "clinic": Recipe(
        PEOPLE, "60 keys, 9 to 10 a person", uniform(0.02, 0.3, 60), normal(0, 0.25, -0.9, 0.9, 60), product_sets,
        small_values(0.25),
    ),
}  # fmt: skip
SIGNS = {
    "votes": Recipe(
        PEOPLE, "200 keys, 7 a person, values ±1", fixed(zipf_profile(200, 0.7, 7)), uniform(-0.9, 0.9, 200),
        active_sets, sign_values,
    ),
}  # fmt: skip
DENSE = {
    "panel": Recipe(
        PEOPLE, "14 questions on seven points", fixed(np.linspace(0.5, 0.95, 14)), uniform(-0.5, 0.5, 14), survey_sets,
        seven_points,
    ),
    "sensors": Recipe(
        PEOPLE, "40 readings near the middle of their range", uniform(0.5, 0.8, 40), normal(0, 0.2, -0.9, 0.9, 40),
        survey_sets, small_values(0.2),
    ),
}  # fmt: skip
SHOWN = ("f, rare keys", "f, top 20", "f·m", "m", "m, top 20", "m, top 20, empirical Bayes")
SHOWN_DENSE = ("f", "m")


class Gain(NamedTuple):
    """A ratio of mean squared errors, and its standard error over the runs."""

    ratio: float
    se: float

    def __str__(self) -> str:
        return "" if math.isnan(self.ratio) else f"{self.ratio:.2f} ± {self.se:.2f}"


@dataclass(frozen=True)
class Row:
    """What the newer mechanism gains on one population at one epsilon, by what is estimated."""

    population: str
    square: float  # mean square of a value
    epsilon: str
    gains: Mapping[str, Gain]


def row(name: str, recipe: Recipe, epsilon: str, contenders: Contenders, runs: int = RUNS) -> Row:
    """The errors of two mechanisms on the same people, the older one first, as a campaign would collect them.

    An option ``typical`` gets the root mean square of these people's values, to one digit.
    """
    people = recipe.draw(recipe.people, SEED)
    schema = Schema(keys=len(recipe.profile(SEED)[0]))
    keyed = people.keyed(schema)
    records, truth = keyed.records(schema), keyed.truth(schema)
    square = float(np.mean((records.values / GRID) ** 2))
    found: list[dict[str, Floats]] = []
    for contender, given in contenders:
        options = {**given, "typical": f"{max(math.sqrt(square), 0.1):.1f}"} if "typical" in given else given
        mechanism = as_protocol(collected_for(contender, schema, epsilon, keyed.sizes, options)[0]).course[0].mechanism
        errors = [
            squared_errors(
                mechanism.estimate(mechanism.tally(mechanism.perturb_many(records, SeededCoins(SEED, run)))),
                truth,
                float(epsilon),
            )
            for run in range(runs)
        ]
        found.append({what: np.array([one[what] for one in errors]) for what in errors[0]})
    return Row(name, square, epsilon, {what: _gain(found[0][what], found[1][what]) for what in found[0]})


def squared_errors(estimates: Estimates, truth: Truth, epsilon: float) -> dict[str, float]:
    """Mean squared errors; means are cut to [-1, 1], and 0 where there is none."""
    held, product = truth.count > 0, estimates.product
    assert product is not None
    shrunk = processed("bayes", estimates)
    top = np.argsort(-truth.frequency, kind="stable")[:TOP]
    rare = truth.frequency * math.exp(epsilon) <= RARE
    of_f = (estimates.frequency.values - truth.frequency) ** 2
    of_u = (product - np.nan_to_num(truth.frequency * truth.mean)) ** 2
    of_m, of_shrunk = (
        (np.nan_to_num(np.clip(one.mean.values, -1, 1)) - np.nan_to_num(truth.mean)) ** 2 for one in (estimates, shrunk)
    )
    return {
        "f": float(of_f.mean()),
        "f, rare keys": float(of_f[rare].mean()) if rare.any() else math.nan,
        "f, top 20": float(of_f[top].mean()),
        "f·m": float(of_u.mean()),
        "m": float(of_m[held].mean()),
        "m, top 20": float(of_m[top].mean()),
        "m, top 20, empirical Bayes": float(of_shrunk[top].mean()),
    }


def _gain(older: Floats, newer: Floats) -> Gain:
    ratio = float(older.mean() / newer.mean())
    relative = [one.std(ddof=1) / one.mean() / math.sqrt(len(one)) for one in (older, newer)]
    return Gain(ratio, ratio * math.hypot(*relative))


def sparse_rows(
    recipes: Mapping[str, Recipe], epsilons: Sequence[str] = SPARSE_EPSILONS, runs: int = RUNS
) -> list[Row]:
    """``apart`` against ``ssr``."""
    contenders: Contenders = (("ssr", {}), ("apart", {"expected": PEOPLE, "typical": None}))
    return [row(name, one, epsilon, contenders, runs) for name, one in recipes.items() for epsilon in epsilons]


def dense_rows(epsilons: Sequence[str] = DENSE_EPSILONS, runs: int = 3 * RUNS) -> list[Row]:
    """``block`` against ``kvue``."""
    contenders: Contenders = (("kvue", {}), ("block", {}))
    return [row(name, one, epsilon, contenders, runs) for name, one in DENSE.items() for epsilon in epsilons]


# -- what is claimed ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """At least such a gain in some rows."""

    text: str
    what: str
    least: float
    rows: Sequence[Row]

    @property
    def lowest(self) -> Gain:
        return min((one.gains[self.what] for one in self.rows), key=lambda gain: gain.ratio)

    @property
    def broken(self) -> list[Row]:
        """The rows that are below by more than two standard errors."""
        gains = [(one, one.gains[self.what]) for one in self.rows]
        return [one for one, gain in gains if gain.ratio + 2 * gain.se < self.least]


def claims(sparse: Sequence[Row], dense: Sequence[Row]) -> list[Claim]:
    """The gains that the mechanisms are there for."""
    low = [one for one in sparse if float(one.epsilon) <= 2]
    four = [one for one in dense if float(one.epsilon) >= 4]
    six = [one for one in dense if float(one.epsilon) >= 6]
    apart, block = "apart, values of mean square up to 0.3, ε up to 2", "block, ε from 4 on"
    return [
        Claim(apart, "f·m", 1.6, low),
        Claim(apart, "m, top 20", 1.5, low),
        Claim(apart, "m, top 20, empirical Bayes", 1.1, low),
        Claim(apart, "f, rare keys", 0.95, [one for one in low if not math.isnan(one.gains["f, rare keys"].ratio)]),
        Claim(block, "f", 1.0, four),
        Claim(block, "m", 1.4, four),
        Claim("block, ε = 6", "f", 1.7, six),
        Claim("block, ε = 6", "m", 2.7, six),
    ]


# -- the page -------------------------------------------------------------------------------------------------------

_OPENING = f"""\
# Gains and losses of apart and block

Mean squared errors of the older mechanism over those of the newer one, on the same {PEOPLE:,} people: above 1 the
newer one is better. ± is one standard error over the runs. All are collected as a campaign would: with a cap at the
90 % quantile of set sizes and its overflow group, and with the root mean square of values declared to one digit. Means
are cut to [−1, 1] and count as 0 where there is none; *rare* keys have f·e^ε ≤ {RARE:g}. The people were defined
after the mechanisms, and nothing was chosen on them.

The page is written by"""

_APART = """\
## apart against ssr

It gains with small values, most at ε up to 2; at ε = 4 little is left of it, or nothing. It loses frequencies of
frequent keys, which only half of the people tell."""


def page(sparse: Sequence[Row], signs: Sequence[Row], dense: Sequence[Row], path: Path) -> str:
    """The whole page, with the command that writes it to ``path``."""
    people = [f"| {name} | {one.about} |" for name, one in {**SPARSE, **SIGNS, **DENSE}.items()]
    verdicts = [
        f"| {one.text} | {one.what} | {one.least:g} | {one.lowest} | {_verdict(one)} |" for one in claims(sparse, dense)
    ]
    sections = [
        _OPENING,
        f"```console\n$ python -m keyveil.lab.gains {shlex.quote(str(path))}\n```",
        "\n".join(["| people | |", "|---|---|", *people]),
        "## What is claimed\n\nA claim fails where a row lies below it by more than two standard errors.",
        "\n".join(["| where | error of | at least | lowest | holds |", "|---|---|---|---|---|", *verdicts]),
        _APART,
        _table(sparse, SHOWN),
        "With values at ±1, where rounding them to signs costs nothing, it loses:",
        _table(signs, SHOWN),
        "## block against kvue",
        _table(dense, SHOWN_DENSE),
    ]
    return "\n\n".join(sections) + "\n"


def _verdict(claim: Claim) -> str:
    broken = [f"{one.population} at ε = {one.epsilon}" for one in claim.broken]
    return "yes" if not broken else f"not on {', '.join(broken)}"


def _table(rows: Sequence[Row], shown: Sequence[str]) -> str:
    head = f"| people | mean square of values | ε | {' | '.join(shown)} |"
    lines = [
        f"| {one.population} | {one.square:.2f} | {one.epsilon} | {' | '.join(map(str, map(one.gains.get, shown)))} |"
        for one in rows
    ]
    return "\n".join([head, "|---|---|---|" + "---|" * len(shown), *lines])


def main() -> None:
    """Measure everything, and write the page that the command line names."""
    path = Path(sys.argv[1])
    path.write_text(page(sparse_rows(SPARSE), sparse_rows(SIGNS), dense_rows(), path), encoding="utf-8")


if __name__ == "__main__":
    main()
