"""What PrivKVM and its relatives share: rounds of PrivKV with an announced mean for every key.

People without a key whose report supports it make up a value of the announced mean, which is the mean that the round
before found. The mean of a round mixes them with the holders, so it lies between the truth and the announced one; every
round removes the share θ of the bias (docs/protocols.md). The collector keeps the last possible mean of every key and
announces it. The published means are needed for nothing else: the "unbiased" estimator subtracts the made-up values in
closed form and adds all rounds up by inverse variance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from keyveil.core.errors import ProtocolError
from keyveil.core.estimates import Column, Estimates
from keyveil.core.schema import GRID
from keyveil.core.tally import Tally
from keyveil.mechanisms.evidence import combined
from keyveil.mechanisms.families.one_key import one_of
from keyveil.mechanisms.ratios import CLIPPED, SHRUNK, biased_means
from keyveil.mechanisms.responses import Floats
from keyveil.mechanisms.rounds.privkvm import broadcast
from keyveil.mechanisms.rounds.reading import PresenceAndSign
from keyveil.mechanisms.virtual import iterated_means
from keyveil.protocols.base import History, Protocol

ESTIMATORS = ("unbiased", "published")
MOST_VIRTUAL = 10_000
PRICE = Fraction(1, 5)  # of a round, where the protocol itself has none: that of PrivKVM+


@dataclass(frozen=True)
class Iterated(Protocol):
    """Rounds of PrivKV; ``estimator`` decides how their tallies are read; the rounds are the same.

    So many ``virtual`` iterations after the last round improve the published means; nobody is asked for them.
    """

    estimator: str = "unbiased"
    virtual: int | None = None

    unsaid: ClassVar[frozenset[str]] = frozenset({"virtual"})

    def round_price(self) -> Fraction:
        return PRICE

    def announced_means(self, finished: History) -> Floats:
        return self.means(finished)

    def validate(self) -> None:
        one_of(self.name, "estimator", self.estimator, ESTIMATORS)
        check_virtual(self.name, self.virtual)
        if self.virtual and self.estimator == "unbiased":
            raise ProtocolError(
                "protocol/option", "Virtual iterations improve published means: take estimator=published with them."
            )

    def estimate(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        rounds = rounds_of(finished)
        if not rounds:
            raise nothing_finished(self)
        n = max(tally.reports for _, tally in rounds)
        read = rounds if self.estimator == "unbiased" else rounds[:1]
        solution, respondents = combined([one.observed(tally) for one, tally in read], n, population)
        estimates = solution.estimates(self.header(n, confidence, population), respondents=respondents)
        if self.estimator == "unbiased":
            return estimates
        fresh = rounds[-1][0].mixed_means(rounds[-1][1])
        if self.virtual:
            mean = self.after_virtual(finished, fresh, estimates)
        else:
            flag = np.where(np.abs(fresh) <= 1, SHRUNK, CLIPPED)
            mean = biased_means(self.schema, self.means(finished), flag)
        return replace(estimates, mean=mean, product=None, product_se=None, covariance=None)

    def after_virtual(self, finished: History, mixed: Floats, estimates: Estimates) -> Column:
        """The published means of the last round after virtual iterations."""
        assert self.virtual is not None
        presence = float(rounds_of(finished)[-1][0].truths[0])
        fake = on_record(self.means(finished[:-1]))
        seen, respondents = estimates.frequency, estimates.respondents
        return iterated_means(mixed, fake, presence, seen, respondents, 1 + self.virtual)

    def means(self, finished: History) -> Floats:
        """The mean of every key as published, 0 before the first round.

        A count beyond what is possible is cut in the first round and later replaced by the mean on record.
        """
        recorded = np.zeros(self.schema.d)
        for number, (current, tally) in enumerate(rounds_of(finished)):
            fresh = current.mixed_means(tally)
            if number == 0:
                recorded = np.clip(np.nan_to_num(fresh), -1, 1)
            else:
                recorded = np.where(np.abs(fresh) <= 1, fresh, recorded)
        return recorded


def check_virtual(name: str, virtual: int | None) -> None:
    """Refuse a number of virtual iterations that makes no sense."""
    if virtual is not None and not 0 <= virtual <= MOST_VIRTUAL:
        raise ProtocolError(
            "protocol/option", f"{name} takes from 0 to {MOST_VIRTUAL:,} virtual iterations, not {virtual}."
        )


def on_record(means: Floats) -> Floats:
    """Means as they were announced: cut to what a device accepts, on its grid."""
    return np.asarray(broadcast(means), dtype=np.float64) / GRID


def rounds_of(finished: History) -> list[tuple[PresenceAndSign, Tally]]:
    """The rounds of PrivKV in a history, which may hold nothing else."""
    return [(one.seen_as(PresenceAndSign), one.tally) for one in finished]


def nothing_finished(protocol: Protocol) -> ProtocolError:
    return ProtocolError("protocol/empty", f"No round of {protocol.name} is finished, so there is nothing to estimate.")
