"""Errors by trial, for what has no closed form: distributions of values, how keys depend on each other, and protocols.

A few thousand people like those expected are drawn, and the mechanism collects from them once. Everything that rests on
a trial says so.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from keyveil.core.errors import PlanError
from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.lab.aggregate import aggregate
from keyveil.lab.coins import SeededCoins
from keyveil.lab.datasets import independent
from keyveil.lab.rounds import Blocks, ask, bits_per_person
from keyveil.lab.simulate import distribution_errors
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import JointStatistics, need
from keyveil.mechanisms.joint.statistics import share
from keyveil.planning.goals import Goal
from keyveil.planning.people import People
from keyveil.planning.predict import Prediction, Tried
from keyveil.protocols.base import Finished, Protocol, Round

MOST_TRIED = 20_000  # people of a trial; errors of more follow from the square root of their number
MOST_TRIED_KEYS = 2_000
SEED = 1
TRIALS = 3  # collections of a protocol
FEW = 5  # of the most frequent keys are asked about together


def tried_people(people: People, schema: Schema, most: int = MOST_TRIED) -> Population:
    """At most ``most`` people like those expected: of the sample, with repeats, or who hold keys independently.

    Of the latter every other value lies above the mean of its key by the standard deviation, the others below.
    """
    n = min(people.n, most)
    if people.sample is not None:
        some = SeededCoins(SEED).below_many(people.sample.n, n)
        starts, sizes = people.sample.offsets[:-1][some], people.sample.sizes[some]
        ends = np.cumsum(sizes)
        rows = np.repeat(starts - (ends - sizes), sizes) + np.arange(int(ends[-1]) if n else 0)
        offsets = np.concatenate(([0], ends)).astype(np.int64)
        names, keys, values = people.sample.names, people.sample.keys[rows], people.sample.values[rows]
        return Population(names, offsets, keys, values)
    drawn = independent(n, people.frequency, people.mean, SEED, list(schema.keys))
    sides = np.where(np.arange(drawn.pairs) % 2, 1.0, -1.0)
    values = people.mean[drawn.keys] + sides * people.spread[drawn.keys]
    return Population(drawn.names, drawn.offsets, drawn.keys, schema.from_unit(values, drawn.keys))


def tried_error(mechanism: Mechanism, people: People, crowd: Population, goal: Goal) -> float:
    """The error that a trial shows for a goal without closed form, for as many people as expected.

    For a distribution the distance between shares of values below any value, estimated and true, averaged over the
    range [-1, 1] and over keys (Wasserstein); for a conditional the standard error of the share of people who hold some
    of the most frequent keys together.
    """
    collected = aggregate(mechanism, crowd.records(mechanism.schema), SeededCoins(SEED))
    scale = math.sqrt(crowd.n / people.n)
    if goal.name == "distribution":
        found = distribution_errors([Finished(Round(1, mechanism), collected)], crowd)["wasserstein"]
        return float("inf") if found is None else float(found) * scale
    order = min(goal.size, people.d)
    most = np.argsort(-people.frequency, kind="stable")[: max(FEW, order)]
    rows = np.array([sorted(some) for some in combinations(most.tolist(), order)])
    together = share(dict.fromkeys(range(order), True))
    answers = need(mechanism, JointStatistics).answer_jointly(collected, rows, [together])
    variance = answers.covariance[:, 0, 0]
    if not np.isfinite(variance).all():
        raise PlanError("plan/trial", f"{mechanism.title} does not tell of every {order} keys together.")
    return scale * float(np.sqrt(variance.mean()))


def tried_protocol(protocol: Protocol, people: People, crowd: Population) -> Prediction:
    """The errors of a protocol in a few trials, for as many people as expected.

    Per key they are root mean squared errors of ``TRIALS`` collections, of which the bias is not told apart.
    """
    blocks, truth = Blocks.of(crowd, protocol.schema), crowd.truth(protocol.schema)
    histories = [ask(protocol, blocks, SEED, run, shortcut=True) for run in range(TRIALS)]
    found = [protocol.estimate(history) for history in histories]
    scale, nothing = math.sqrt(crowd.n / people.n), np.zeros(people.d)
    frequency = np.array([one.frequency.values - truth.frequency for one in found])
    mean = np.array([np.nan_to_num(np.clip(one.mean.values, -1, 1)) - truth.mean for one in found])
    frequency_se = scale * np.sqrt((np.nan_to_num(frequency, nan=1.0) ** 2).mean(axis=0))
    sampling = people.frequency * (1 - people.frequency) / people.n
    stated = [float(np.nanmin(one.frequency.se)) for one in found if np.isfinite(one.frequency.se).any()]
    columns = [one.frequency for one in found], [one.mean for one in found]
    widths = [scale * np.mean([(one.high - one.low) / 2 for one in some], axis=0) for some in columns]
    last = histories[0][-1].round.mechanism
    mean_errors = scale * np.sqrt((np.nan_to_num(mean, nan=1.0) ** 2).mean(axis=0))
    return Prediction(
        last,
        people,
        frequency_se,
        nothing,
        np.where(people.frequency > 0, mean_errors, np.nan),
        np.where(people.frequency > 0, nothing, np.nan),
        np.sqrt(frequency_se**2 + sampling),
        scale * min(stated, default=1.0),
        1.0,
        Tried(widths[0], widths[1], mean_errors),
        bits_per_person(histories[0], crowd.n),
        tuple(one.round.mechanism for one in histories[0]),
    )
