"""PrivKVM with the value perturbation of others: the baselines of its paper (docs/protocols.md).

Both are read as published only; their means are biased, and flagged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from keyveil.core.errors import ProtocolError
from keyveil.core.estimates import Estimates
from keyveil.mechanisms.ratios import SHRUNK, biased_means
from keyveil.mechanisms.responses import Floats
from keyveil.mechanisms.rounds.privkvm import broadcast
from keyveil.mechanisms.rounds.privkvm_meanest import FilledVector, Presence
from keyveil.mechanisms.rounds.reading import MixedMeans
from keyveil.mechanisms.virtual import iterated_means
from keyveil.protocols.base import History, Protocol, Round, cost_of, part_of, refuse_tiny_rounds
from keyveil.protocols.privkv_rounds import PRICE, check_virtual, nothing_finished, on_record, rounds_of
from keyveil.protocols.privkvm import PrivKVM


@dataclass(frozen=True)
class PrivKVMHarmony(PrivKVM):
    """A mean is the sum of signs over the expected number of reports that support the key; impossible means stay.

    As in Harmony that number is not counted: of the n/d reports about a key, the share p₁f + (1 - p₁)(1 - f) is
    expected to support it. Only announced means are cut to what is possible, since devices refuse anything else.
    """

    estimator: str = "published"

    name: ClassVar[str] = "privkvm-harmony"

    def validate(self) -> None:
        super().validate()
        if self.estimator != "published":
            raise ProtocolError("protocol/option", f"{self.name} has the published estimator only; see privkvm.")

    def means(self, finished: History) -> Floats:
        rounds = rounds_of(finished)
        if not rounds:
            return np.zeros(self.schema.d)
        frequency = np.clip(np.nan_to_num(finished[0].estimates().frequency.values), 0, 1)
        last, tally = rounds[-1]
        presence, sign = (float(truth) for truth in last.truths)
        speaking = presence * frequency + (1 - presence) * (1 - frequency)
        _, minus, plus = tally.counts
        expected = np.maximum(tally.reports, 1) / self.schema.d * speaking
        means: Floats = (plus - minus) / ((2 * sign - 1) * expected)
        return means

    def estimate(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        estimates = super().estimate(finished, confidence, population)
        means = self.means(finished)
        if self.virtual:
            return replace(estimates, mean=self.after_virtual(finished, means, estimates))
        return replace(estimates, mean=biased_means(self.schema, means, _shrunk(self)))


@dataclass(frozen=True)
class PrivKVMMeanEst(Protocol):
    """Half of ε on who holds a key, then ``rounds`` vectors of all values, gaps filled with the mean before.

    So many ``virtual`` iterations follow the last vectors; nobody is asked for them.
    """

    rounds: int = 6
    virtual: int | None = None

    name: ClassVar[str] = "privkvm-meanest"
    unsaid: ClassVar[frozenset[str]] = frozenset({"virtual"})

    def validate(self) -> None:
        check_virtual(self.name, self.virtual)
        if not 1 <= self.rounds <= 100:
            raise ProtocolError("protocol/option", f"{self.name} takes from 1 to 100 rounds, not {self.rounds}.")
        refuse_tiny_rounds(self, Fraction(1, 2 * self.rounds))
        _ = FilledVector(self.schema, self.epsilon)  # refuses too many keys now

    def plan(self, finished: History) -> Round | None:
        number = len(finished) + 1
        if number > self.rounds + 1:
            return None
        if number == 1:
            keys = Presence(self.schema, part_of(self.epsilon, Fraction(1, 2)))
            return Round(number, keys, cost=cost_of(keys.ratio))
        fake = broadcast(self.means(finished)) if number > 2 else ()
        values = FilledVector(self.schema, part_of(self.epsilon, Fraction(1, 2 * self.rounds)), fake)
        return Round(number, values, cost=cost_of(values.ratio))

    def round_price(self) -> Fraction:
        return PRICE

    def announced_means(self, finished: History) -> Floats:
        """Nothing before the first vectors: then 0."""
        return np.nan_to_num(self.means(finished))

    def means(self, finished: History) -> Floats:
        """The mean of the last vectors."""
        if len(finished) < 2:
            return np.full(self.schema.d, np.nan)
        return finished[-1].seen_as(MixedMeans).mixed_means(finished[-1].tally)

    def estimate(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        if not finished:
            raise nothing_finished(self)
        estimates = finished[0].estimates(confidence, population)
        mean = biased_means(self.schema, self.means(finished), _shrunk(self))
        if self.virtual and len(finished) > 1:  # gaps are filled for all who lack a key: θ = 1 - f, as with fair coins
            fake, seen = on_record(self.means(finished[:-1])), estimates.frequency
            iterations = 1 + self.virtual
            mean = iterated_means(self.means(finished), fake, 0.5, seen, estimates.respondents, iterations)
        return replace(estimates.under(self.header(estimates.n, confidence, population)), mean=mean)


def _shrunk(protocol: Protocol) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.full(protocol.schema.d, SHRUNK, dtype=np.int64)
