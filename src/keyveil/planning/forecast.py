"""Predicted errors and price of a protocol before a collection, from a simulation on invented people.

The people are invented in one stated way, whatever the collection is about: the k-th key is held by 1/(2k) of
them, each key on its own, and means fall evenly over the middle 80 % of the range. Real people differ; errors of
frequencies hardly depend on that, errors of means grow where keys are rarer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.epsilon import decimal_text, exact_entries, realised
from keyveil.core.errors import ProtocolError
from keyveil.core.estimates import FLAGS, Estimates
from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.lab.datasets import everyone, independent, one_key
from keyveil.lab.simulate import simulate
from keyveil.mechanisms.base import Mechanism
from keyveil.protocols.base import Protocol, Round

MOST_INVENTED = 200_000  # errors of more are computed from these, by the square root of their number
SEED = 1

INSUFFICIENT = FLAGS.index("insufficient")

Errors = tuple[float, float]  # median and worst standard error over keys


@dataclass(frozen=True)
class ForecastRound:
    """One round, and how many people will answer it."""

    round: Round
    reports: int

    @property
    def exact_epsilon(self) -> Decimal:
        mechanism = self.round.mechanism
        return realised(mechanism.ratio, mechanism.epsilon)

    @property
    def bits(self) -> float:
        return self.round.mechanism.bits_per_report

    def document(self) -> dict[str, Any]:
        part = self.round.part
        return {
            "round": self.round.number,
            "mechanism": self.round.mechanism.name,
            "part": [decimal_text(part.start), decimal_text(part.stop)],
            **exact_entries(self.exact_epsilon),
            "bits": self.bits,
            "n": self.reports,
            "reports": self.reports,
        }


@dataclass(frozen=True)
class Forecast:
    """The standard errors to expect from so many people, and the mechanism and price of each round."""

    people: int
    invented: int
    crowd: str
    rounds: tuple[ForecastRound, ...]
    spent: Decimal  # epsilon of the person who pays most
    frequency: Errors | None
    mean: Errors | None  # in the schema's units, over the keys whose mean is known
    keys: int
    means_known: int

    def document(self) -> dict[str, Any]:
        def pair(errors: Errors | None) -> dict[str, float] | None:
            return None if errors is None else {"median": errors[0], "worst": errors[1]}

        return {
            "people": self.people,
            "invented": self.invented,
            "crowd": self.crowd,
            "rounds": [one.document() for one in self.rounds],
            **exact_entries(self.spent),
            "frequency_se": pair(self.frequency),
            "mean_se": pair(self.mean),
            "keys": self.keys,
            "means_known": self.means_known,
        }


def forecast(protocol: Protocol, people: int, progress: Callable[[int], None] | None = None) -> Forecast:
    """Run the protocol over invented people; ``progress`` hears how many have answered."""
    if people < 1:
        raise ProtocolError("forecast/people", f"Errors can be forecast for one person or more, not for {people}.")
    invented = min(people, MOST_INVENTED)
    first = protocol.next_round([])
    assert first is not None
    population, crowd = _crowd(first.mechanism, protocol.schema, invented)
    done = simulate(protocol, population, seed=SEED, progress=progress)
    scale = math.sqrt(invented / people)
    frequency, mean, known = _errors(done.estimates)
    return Forecast(
        people=people,
        invented=invented,
        crowd=crowd,
        rounds=tuple(ForecastRound(one.round, one.tally.reports * people // invented) for one in done.history),
        spent=done.spent,
        frequency=frequency and (frequency[0] * scale, frequency[1] * scale),
        mean=mean and (mean[0] * scale, mean[1] * scale),
        keys=protocol.schema.d,
        means_known=known,
    )


def _crowd(mechanism: Mechanism, schema: Schema, n: int) -> tuple[Population, str]:
    """Invented people whom the mechanism can take, and a sentence about them."""
    d, names = schema.d, list(schema.keys)
    frequencies, means = 0.5 / np.arange(1, d + 1), np.linspace(0.8, -0.8, d) if d > 1 else np.zeros(1)
    if mechanism.takes == "one key":
        people, crowd = (
            one_key(n, frequencies, means, SEED, names),
            "everybody holds one key, the k-th with a weight of 1/k",
        )
    elif mechanism.takes == "every key":
        people, crowd = everyone(n, means, SEED, names), "everybody has a value for every key"
    else:
        people = independent(n, frequencies, means, SEED, names)
        crowd = f"the k-th key is held by 1/(2k) of the people, {people.pairs / n:.2g} pairs a person"
    values = schema.from_unit(people.values, people.keys)
    return Population(people.names, people.offsets, people.keys, values), crowd


def _errors(estimates: Estimates) -> tuple[Errors | None, Errors | None, int]:
    """Median and worst standard error of frequencies and of means, and how many means are known."""
    mean = estimates.mean.in_units
    known = np.isfinite(mean.se) & (mean.flag < INSUFFICIENT)
    frequencies = None if estimates.frequency.absent else _median_and_worst(estimates.frequency.se)
    return (
        frequencies,
        None if estimates.mean.absent else _median_and_worst(mean.se[known]),
        int(np.count_nonzero(known)),
    )


def _median_and_worst(errors: NDArray[np.float64]) -> Errors | None:
    known = errors[np.isfinite(errors)]
    return (float(np.median(known)), float(known.max())) if len(known) else None
