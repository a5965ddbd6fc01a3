"""What to expect of a campaign before anybody is asked: errors on invented people, prices, and what looks unwise.

The people are invented in one stated way, whatever the campaign is about: the k-th key is held by a share of 1/(2k) of
them, each key on its own, and means fall evenly over the middle 80 % of the range. Real people differ; errors of
shares hardly depend on that, errors of means grow where keys are rarer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.core.epsilon import decimal_text, exact_entries, realised
from keyveil.core.estimates import FLAGS, Estimates
from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.lab.datasets import everyone, independent, one_key
from keyveil.lab.simulate import simulate
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.families.categorical import Categorical
from keyveil.mechanisms.families.numeric import Numeric

USUAL_PEOPLE = 10_000  # where the campaign does not say how many are enough
MOST_INVENTED = 200_000  # more are computed from these, by the square root of their number
MOST_EPSILON = 8  # beyond it a report says more about its sender than anybody should promise
SEED = 1

INSUFFICIENT = FLAGS.index("insufficient")


@dataclass(frozen=True)
class Warning:
    """Something that is allowed and probably not meant."""

    code: str
    sentence: str


@dataclass(frozen=True)
class Forecast:
    """The standard errors to expect, round by round what is asked, and how many people that is about."""

    people: int
    invented: int
    crowd: str
    rounds: tuple[dict[str, Any], ...]
    spent: Fraction  # epsilon of the person who pays most
    frequency: tuple[float, float] | None  # median and worst standard error
    mean: tuple[float, float] | None  # in the schema's units, over the keys whose mean is known
    keys: int
    means_known: int

    def document(self) -> dict[str, Any]:
        def pair(errors: tuple[float, float] | None) -> dict[str, float] | None:
            return None if errors is None else {"median": errors[0], "worst": errors[1]}

        return {
            "people": self.people,
            "invented": self.invented,
            "crowd": self.crowd,
            "rounds": list(self.rounds),
            **exact_entries(self.spent),
            "frequency_se": pair(self.frequency),
            "mean_se": pair(self.mean),
            "keys": self.keys,
            "means_known": self.means_known,
        }


def enough_people(campaign: Campaign) -> int | None:
    """The largest number of reports that a round of the campaign waits for."""
    return max((window.enough for window in campaign.rounds if window.enough is not None), default=None)


def forecast(campaign: Campaign, people: int | None = None, progress: Callable[[int], None] | None = None) -> Forecast:
    """Run the campaign over invented people; ``progress`` hears how many have answered."""
    wanted = people or enough_people(campaign) or USUAL_PEOPLE
    invented = min(wanted, MOST_INVENTED)
    first = campaign.protocol.next_round([])
    assert first is not None
    population, crowd = _crowd(first.mechanism, campaign.schema, invented)
    done = simulate(campaign.protocol, population, seed=SEED, progress=progress)
    scale = math.sqrt(invented / wanted)
    frequency, mean, known = _errors(done.estimates)
    return Forecast(
        people=wanted,
        invented=invented,
        crowd=crowd,
        rounds=tuple(
            {
                "round": one.round.number,
                "mechanism": one.round.mechanism.name,
                "part": [decimal_text(one.round.part.start), decimal_text(one.round.part.stop)],
                **exact_entries(realised(one.round.mechanism.ratio, one.round.mechanism.epsilon)),
                "bits": one.round.mechanism.bits_per_report,
                "report_bytes": RoundDocument.of(campaign, one.round).report_bytes,
                "reports": one.tally.reports * wanted // invented,
            }
            for one in done.history
        ),
        spent=done.spent,
        frequency=frequency and (frequency[0] * scale, frequency[1] * scale),
        mean=mean and (mean[0] * scale, mean[1] * scale),
        keys=campaign.schema.d,
        means_known=known,
    )


def warnings(campaign: Campaign, today: date, found: Forecast | None = None) -> list[Warning]:
    """What is allowed and probably not meant."""
    enough, last, listed = enough_people(campaign), campaign.rounds[-1], []

    def warn(unwise: bool, code: str, sentence: str) -> None:
        if unwise:
            listed.append(Warning(f"unwise/{code}", sentence))

    warn(
        enough is not None and campaign.min_reports > enough,
        "min-reports",
        f"Rounds close at {enough} reports, but nothing is shown below {campaign.min_reports}.",
    )
    warn(last.closes is None and last.enough is None, "endless", "The last round closes only when somebody closes it.")
    for number, window in enumerate(campaign.rounds, start=1):
        over = window.closes is not None and window.closes < today
        warn(over, "over", f"Round {number} closes on {window.closes}, which is over.")
    epsilon = campaign.protocol.epsilon
    warn(epsilon > MOST_EPSILON, "epsilon", f"An epsilon of {decimal_text(epsilon)} hides hardly anything.")
    warn(not campaign.contact, "contact", "Nobody is named whom people can ask.")
    warn(
        campaign.enrolment == "none",
        "enrolment",
        "Anybody can send any number of reports; enrolment by token bounds that.",
    )
    if found is not None:
        planned = len(found.rounds)
        warn(
            planned > len(campaign.rounds),
            "rounds",
            f"The protocol asks {planned} rounds; those after round {len(campaign.rounds)} have no dates.",
        )
        warn(
            found.frequency is not None and found.frequency[0] > 0.1,
            "noise",
            "Half of the shares are off by more than 0.1: ask more people, fewer keys, or a larger epsilon.",
        )
    return listed


def _crowd(mechanism: Mechanism, schema: Schema, n: int) -> tuple[Population, str]:
    """Invented people whom the mechanism can take, and a sentence about them."""
    d, names = schema.d, list(schema.keys)
    shares, means = 0.5 / np.arange(1, d + 1), np.linspace(0.8, -0.8, d) if d > 1 else np.zeros(1)
    if isinstance(mechanism, Categorical):
        people, crowd = one_key(n, shares, means, SEED, names), "everybody holds one key, the k-th with a weight of 1/k"
    elif isinstance(mechanism, Numeric):
        people, crowd = everyone(n, means, SEED, names), "everybody has a value for every key"
    else:
        people = independent(n, shares, means, SEED, names)
        crowd = f"the k-th key is held by 1/(2k) of the people, {people.pairs / n:.2g} pairs a person"
    values = schema.from_unit(people.values, people.keys)
    return Population(people.names, people.offsets, people.keys, values), crowd


def _errors(estimates: Estimates) -> tuple[tuple[float, float] | None, tuple[float, float] | None, int]:
    """Median and worst standard error of shares and of means, and how many means are known."""
    mean = estimates.mean.in_units
    known = np.isfinite(mean.se) & (mean.flag < INSUFFICIENT)
    shares = None if estimates.frequency.absent else _spread(estimates.frequency.se)
    return shares, None if estimates.mean.absent else _spread(mean.se[known]), int(np.count_nonzero(known))


def _spread(errors: NDArray[np.float64]) -> tuple[float, float] | None:
    known = errors[np.isfinite(errors)]
    return (float(np.median(known)), float(known.max())) if len(known) else None
