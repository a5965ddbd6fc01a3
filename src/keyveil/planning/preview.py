"""What an epsilon means for a person, and what an analyst will see: both in words, from the mechanism itself."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from keyveil.core.epsilon import log_ceiling
from keyveil.core.errors import PlanError
from keyveil.core.schema import Schema
from keyveil.lab.aggregate import aggregate
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import SupportRates, can
from keyveil.planning.people import Floats, People
from keyveil.planning.trials import SEED, tried_people
from keyveil.privacy.words import at_most, worst_pair

POSSIBLE = 20  # results that are shown side by side
MOST_PEOPLE = 100_000  # of a preview; more are shown as results of so many, with errors to scale


def epsilon_in_words(mechanism: Mechanism, rounds: int = 1) -> str:
    """One sentence for a person: the exact chances of what tells most about them, and the ceiling on any odds.

    From the rates at which a report speaks for a key where the mechanism has them, otherwise from its certificate.
    """
    ratio = math.exp(log_ceiling(mechanism.ratio))
    ceiling = f"Whatever is sent, it changes the odds of anything about its sender by a factor of at most {_up(ratio)}."
    if rounds > 1:
        ceiling = "That is one round of several; keyveil certify says what all of them spend."
    rates = can(mechanism, SupportRates)
    if rates is not None:
        holds, lacks = map(_chance, rates.support_rates())
        return (
            f"A report about a key speaks for it with probability {holds} if its sender holds the key, and with "
            f"probability {lacks} if not. {ceiling}"
        )
    certificate = mechanism.certificate()
    likely, unlikely = map(_chance, certificate.worst.chances)
    one, other = worst_pair(certificate)
    return (
        f"The report that tells most has probability {likely} if its sender has {one}, and probability {unlikely} if "
        f"they have {other}. {ceiling}"
    )


def privacy_in_words(mechanism: Mechanism) -> tuple[str, str]:
    """What epsilon means for the people who answered, and who proved it."""
    certificate = mechanism.certificate()
    how = {
        "enumeration": "all its outcomes were enumerated",
        "closed-form": "by a closed form that was checked against all outcomes at small sizes",
    }[certificate.method]
    spent = at_most(certificate.exact_epsilon)
    return epsilon_in_words(mechanism), f"The program that devices run spends at most {spent}: {how}."


class Preview(NamedTuple):
    """Possible results for one key, in ascending order of frequency: estimates, intervals, and the assumed truth."""

    key: str
    truth: float
    true_mean: float
    frequency: Floats
    low: Floats
    high: Floats
    mean: Floats  # NaN where the mean would not be shown
    n: int

    def document(self) -> dict[str, Any]:
        """The same as JSON; unknown means are null."""
        columns = (self.frequency, self.low, self.high, self.mean)
        names = ("frequency", "low", "high", "mean")
        rows = (
            {name: None if np.isnan(value) else float(value) for name, value in zip(names, row, strict=True)}
            for row in zip(*columns, strict=True)
        )
        return {"key": self.key, "frequency": float(self.truth), "people": self.n, "results": list(rows)}


def preview(mechanism: Mechanism, people: People, schema: Schema, key: str) -> Preview:
    """Twenty results that an analyst may see for a key, each from all people with new coins."""
    place = _place(schema, key)
    crowd = tried_people(people, schema, MOST_PEOPLE)
    records, truth = crowd.records(schema), crowd.truth(schema)
    rows = []
    for run in range(POSSIBLE):
        found = mechanism.estimate(aggregate(mechanism, records, SeededCoins(SEED, run)))
        frequency = found.frequency
        rows.append((frequency.values[place], frequency.low[place], frequency.high[place], found.mean.values[place]))
    values, low, high, mean = np.array(sorted(rows)).T
    return Preview(key, truth.frequency[place], truth.mean[place], values, low, high, mean, crowd.n)


def _place(schema: Schema, key: str) -> int:
    names = list(schema.keys)
    if key not in names:
        raise PlanError("plan/key", f"There is no key {key!r} among those that are planned for.")
    return names.index(key)


def _chance(exact: Fraction) -> str:
    """A probability in per cent, to four digits."""
    return f"{100 * float(exact):.4g} %"


def _up(number: float) -> str:
    """A number to three digits, rounded up."""
    if number >= 1e4:
        return f"{number:,.0f}"
    unit = 10 ** (2 - math.floor(math.log10(number)))
    return f"{math.ceil(number * unit - 1e-9) / unit:g}"
