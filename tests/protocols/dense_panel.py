"""A dense panel as a recipe, and how far cutting vectors moves what a projected round answers, without its noise.

The recipe was written from a description (fourteen questions, seven in ten answered, seven-point answers); no constant
of the planner was chosen on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyveil.core.records import Records
from keyveil.core.schema import GRID, Schema
from keyveil.frames.population import Population
from keyveil.lab import datasets
from keyveil.lab.coins import SeededCoins
from keyveil.lab.datasets.lifelike import survey_sets
from keyveil.lab.datasets.recipe import Recipe, fixed, uniform
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.rounds.topsel_project import Project
from keyveil.mechanisms.size_law import SizeLaw
from keyveil.protocols.base import Finished
from keyveil.protocols.second_round import PilotBeliefs
from keyveil.protocols.topsel_project import TopSelProject

Floats = NDArray[np.float64]

_COMMON = 0.4  # of the variance of answers, shared by all answers of a person


def seven_points(means: Floats, users: NDArray[np.int64], keys: NDArray[np.int64], rng: np.random.Generator) -> Floats:
    """Answers on seven points around the level of the question; those of a person go together."""
    person = rng.normal(size=int(users[-1]) + 1)
    noise = np.sqrt(_COMMON) * person[users] + np.sqrt(1 - _COMMON) * rng.normal(size=len(users))
    return np.asarray(np.clip(np.rint(3 * (means[keys] + 0.6 * noise)) / 3, -1, 1))


PANEL = Recipe(
    30_000,
    "fourteen questions of which seven in ten are answered, on seven points, answers of a person going together",
    fixed(np.linspace(0.55, 0.85, 14)),
    uniform(-0.5, 0.5, 14),
    survey_sets,
    seven_points,
)


def recipe(name: str) -> Recipe:
    return PANEL if name == "panel" else datasets.recipe(name)


def drawn(name: str, n: int, seed: int) -> tuple[Population, Schema]:
    return recipe(name).draw(n, seed), Schema(keys=len(recipe(name).profile()[0]))


def as_before(beliefs: PilotBeliefs) -> PilotBeliefs:
    """What was once assumed instead of learnt: values like Beta(8), and all people alike."""
    return replace(beliefs, spread=1 / 9, uneven=0.0, law=SizeLaw.read(max(round(float(beliefs.frequency.sum())), 1)))


@dataclass(frozen=True)
class Moved:
    """By how many standard errors the expected answers of a round differ from the truth, root mean square over keys."""

    frequency: float
    mean: float


def second_round(protocol: TopSelProject, records: Records, seed: int) -> tuple[Mechanism, Records]:
    """What the protocol plans after a pilot of its share of the people, and everybody else."""
    first, coins = protocol.next_round([]), SeededCoins(seed)
    assert first is not None
    asked = first.part.members(coins.words(records.n))
    tally = first.mechanism.tally(first.mechanism.perturb_many(records.those(asked), coins))
    following = protocol.next_round([Finished(first, tally)])
    assert following is not None
    return following.mechanism, records.those(~asked)


def moved(project: Project, records: Records) -> Moved:
    """How far cutting and rounding move frequencies and means, if noise were none."""
    d, n = project.schema.d, records.n
    held, owners = np.zeros((n, 2 * d)), np.repeat(np.arange(n), records.sizes)
    held[owners, records.keys], held[owners, d + records.keys] = 1.0, records.values / GRID
    truth, total = held.mean(axis=0), np.zeros(2 * d)
    for start in range(0, n, 1 << 14):
        some = records.slice(start, min(start + (1 << 14), n))
        total += project.vectors(some, np.zeros(some.n, dtype=np.uint64))[:, :-1].sum(axis=0)
    found = (project.origins + total / n / float(project.shrink)) / np.array(project.scales)
    f, m, off = truth[:d], truth[d:] / truth[:d], found - truth
    noise = replace(project, tilt=Fraction(0)).predicted_spread(f, m, np.zeros(1), n)
    var_m = noise.product + m**2 * noise.frequency - 2 * m * noise.covariance
    return Moved(
        float(np.sqrt(np.mean(off[:d] ** 2 / noise.frequency))),
        float(np.sqrt(np.mean((off[d:] - m * off[:d]) ** 2 / var_m))),
    )
