"""Predicted errors and price of a protocol before a collection: by closed form, or by simulation where there is none.

Unless the author describes the people, they are invented in one stated way, whatever the collection is about: the k-th
key is held by 1/(2k) of them, each key on its own, and means fall evenly over the middle 80 % of the range. Real people
differ; errors of frequencies hardly depend on that, errors of means grow where keys are rarer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
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
from keyveil.mechanisms.capabilities import PredictedVariance, can
from keyveil.mechanisms.questions import ASKABLE
from keyveil.mechanisms.size_law import SizeLaw
from keyveil.planning.people import TYPICAL, People, invented
from keyveil.planning.plan import CLOSED, TRIED
from keyveil.planning.predict import HALF_WIDTH, Prediction, predict
from keyveil.planning.trials import tried_people
from keyveil.protocols.base import Protocol, Round

MOST_INVENTED = 200_000  # errors of more are computed from these, by the square root of their number
SEED = 1
ONE_KEY = "everybody holds one key, the k-th with a weight of 1/k"
EVERY_KEY = "everybody has a value for every key"

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
    """The standard errors to expect from so many people, and the mechanism and price of each round.

    ``invented`` is how many people were simulated: none where there is a closed form, the ``prediction``.
    """

    people: int
    invented: int
    crowd: str
    rounds: tuple[ForecastRound, ...]
    spent: Decimal  # epsilon of the person who pays most
    frequency: Errors | None
    mean: Errors | None  # in the schema's units, over the keys whose mean is known
    keys: int
    means_known: int
    prediction: Prediction | None = None

    @property
    def method(self) -> str:
        """How the errors were found."""
        return TRIED if self.prediction is None else CLOSED

    def document(self) -> dict[str, Any]:
        def pair(errors: Errors | None) -> dict[str, float] | None:
            return None if errors is None else {"median": errors[0], "worst": errors[1]}

        return {
            "people": self.people,
            "invented": self.invented,
            "crowd": self.crowd,
            "method": self.method,
            "rounds": [one.document() for one in self.rounds],
            **exact_entries(self.spent),
            "frequency_se": pair(self.frequency),
            "mean_se": pair(self.mean),
            "keys": self.keys,
            "means_known": self.means_known,
        }


def forecast(
    protocol: Protocol, people: int, progress: Callable[[int], None] | None = None, described: People | None = None
) -> Forecast:
    """The errors for so many people, of whom the author may have ``described`` what they hold.

    Where there is no closed form the protocol is run over invented people; ``progress`` hears how many have answered.
    """
    if people < 1:
        raise ProtocolError("forecast/people", f"Errors can be forecast for one person or more, not for {people}.")
    first = protocol.next_round([])
    assert first is not None
    if has_closed_form(protocol):
        return _predicted(first, described or _assumed(first.mechanism, people))
    invented = min(people, MOST_INVENTED)
    if described is None:
        population, crowd = _crowd(first.mechanism, protocol.schema, invented)
    else:
        population, crowd = tried_people(described, protocol.schema, invented), described.about.rstrip(".")
    done = simulate(protocol, population, seed=SEED, progress=progress)
    scale = math.sqrt(population.n / people)
    frequency, mean, known = _errors(done.estimates)
    return Forecast(
        people=people,
        invented=population.n,
        crowd=crowd,
        rounds=tuple(ForecastRound(one.round, one.tally.reports * people // population.n) for one in done.history),
        spent=done.spent,
        frequency=frequency and (frequency[0] * scale, frequency[1] * scale),
        mean=mean and (mean[0] * scale, mean[1] * scale),
        keys=protocol.schema.d,
        means_known=known,
    )


def has_closed_form(protocol: Protocol) -> bool:
    """Whether errors are predicted, and nobody is simulated."""
    return protocol.single is not None and can(protocol.single, PredictedVariance) is not None


def _predicted(only: Round, people: People) -> Forecast:
    """The forecast of a single round by its closed form.

    A mean counts as known if its key can be told from absent, as in estimates.
    """
    told, asked = predict(only.mechanism, people), ForecastRound(only, people.n)
    unseen = people.frequency <= HALF_WIDTH * told.frequency_se
    known = np.isfinite(told.mean_se) & ~unseen
    in_units = told.mean_se * only.mechanism.schema.slope(people.mean)
    return Forecast(
        people=people.n,
        invented=0,
        crowd=people.about.removeprefix(f"{people.n:,} people: ").rstrip("."),
        rounds=(asked,),
        spent=asked.exact_epsilon,
        frequency=_median_and_worst(told.frequency_se) if ASKABLE["frequency"].answered(only.mechanism) else None,
        mean=_median_and_worst(in_units[known]),
        keys=people.d,
        means_known=int(np.count_nonzero(known)),
        prediction=told,
    )


def _assumed(mechanism: Mechanism, n: int) -> People:
    """The people of ``_crowd`` as numbers."""
    d = mechanism.schema.d
    frequency, mean = _shape(d)
    if mechanism.takes == "every set":
        people = invented(n, d, frequency=frequency, mean=mean, typical=_typical(frequency, mean))
        return replace(people, about=f"{n:,} people: {_any_set(people.pairs)}.")
    if mechanism.takes == "one key":
        frequency, law, held = frequency / frequency.sum(), SizeLaw.read("1"), ONE_KEY
    else:
        frequency, law, held = np.ones(d), SizeLaw.read(str(d)), EVERY_KEY
    return People(n, frequency, mean, law, _typical(frequency, mean) ** 2, f"{n:,} people: {held}.")


def _any_set(pairs: float) -> str:
    return f"the k-th key is held by 1/(2k) of the people, {pairs:.2g} pairs a person"


def _typical(frequency: NDArray[np.float64], mean: NDArray[np.float64]) -> float:
    return max(TYPICAL, math.sqrt(float(frequency @ mean**2) / float(frequency.sum())))


def _shape(d: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Frequencies and means of invented people."""
    return 0.5 / np.arange(1, d + 1), np.linspace(0.8, -0.8, d) if d > 1 else np.zeros(1)


def _crowd(mechanism: Mechanism, schema: Schema, n: int) -> tuple[Population, str]:
    """Invented people whom the mechanism can take, and a sentence about them."""
    names = list(schema.keys)
    frequencies, means = _shape(schema.d)
    if mechanism.takes == "one key":
        people, crowd = one_key(n, frequencies, means, SEED, names), ONE_KEY
    elif mechanism.takes == "every key":
        people, crowd = everyone(n, means, SEED, names), EVERY_KEY
    else:
        people = independent(n, frequencies, means, SEED, names)
        crowd = _any_set(people.pairs / n)
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
