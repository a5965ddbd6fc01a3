"""What the categorical mechanisms share: everybody holds exactly one key, and the reports give frequencies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.records import Records
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.mechanisms.base import Mechanism, Pairs, record_refused
from keyveil.mechanisms.capabilities import Takes
from keyveil.mechanisms.effects import Effects, of_statistics
from keyveil.mechanisms.responses import Response, Spread
from keyveil.mechanisms.totals import Constraint

Floats = NDArray[np.float64]

REDUCED_KEYS = 4


class Categorical(Mechanism):
    """A mechanism for one key a person."""

    takes: ClassVar[Takes] = "one key"

    def validate(self) -> None:
        if self.schema.d < 2:
            raise MechanismError("mechanism/too-few-keys", f"{self.name} needs at least two keys to choose from.")

    @property
    def estimated(self) -> frozenset[str]:
        return frozenset({"frequency"})

    @abstractmethod
    def variance(self, frequency: Floats, n: int, population: bool = False) -> Floats:
        """Variance of the estimates of n people's true frequencies, known before anybody reports."""

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        """Of frequencies; means and sizes say nothing here, since everybody holds one key without a value."""
        unknown = np.full_like(frequency, np.nan)
        return Spread(self.variance(frequency, n, population), unknown, unknown)

    @property
    def no_mean(self) -> str:
        return f"{self.name} collects keys without values; kvue, pckv-ue or ssr give means."

    def constraint(self, estimates: Estimates) -> Constraint:
        """Everybody holds exactly one key."""
        return Constraint(total=1.0, most=1.0)

    # -- records ------------------------------------------------------------------------------------------------

    def read(self, record: Any) -> Pairs:
        """A key by name or number, or a mapping with exactly one known key (its value is not collected)."""
        if isinstance(record, str | Integral):
            pairs = self.schema.read({record: 0})
            if not pairs:
                raise record_refused("unknown-key", f"The schema has no key {record!r}.")
            return self.check(pairs)
        return self.check(self.schema.read(record))

    def check(self, pairs: Pairs) -> Pairs:
        if len(pairs) != 1:
            raise record_refused(
                "not-one-key",
                f"{self.name} takes exactly one key a person, not {len(pairs)}; for sets use a key-value mechanism.",
            )
        return [(pairs[0][0], 0)]

    def respond_for(self, keys: NDArray[np.int64], words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        """``respond_many`` for people who hold the given key each."""
        held, offsets = keys.astype(np.int32), np.arange(len(keys) + 1, dtype=np.int64)
        return self.respond_many(Records(offsets, held, np.zeros_like(held), self.schema.d), words, coins)

    def keys_of(self, records: Records) -> NDArray[np.int64]:
        """The one key of everybody."""
        odd = np.flatnonzero(records.sizes != 1)
        if len(odd):
            self.check(records.pairs(int(odd[0])))
        return records.keys.astype(np.int64)

    def people_by_key(self, records: Records) -> NDArray[np.int64]:
        """How many people hold each key."""
        return np.bincount(self.keys_of(records), minlength=self.schema.d)

    def every_record(self) -> Iterable[Pairs]:
        return ([(key, 0)] for key in range(self.schema.d))

    def reduced(self) -> Self:
        return self if self.schema.d <= REDUCED_KEYS else replace(self, schema=self.few_keys)

    @property
    def few_keys(self) -> Schema:
        """A schema small enough to enumerate."""
        return Schema(keys=min(self.schema.d, REDUCED_KEYS))


class FrequencyOracle(Categorical):
    """A report supports the true key with probability p and any other with probability q."""

    @property
    @abstractmethod
    def response(self) -> Response:
        """Support of the true key and of any other, from the channel."""

    def support_rates(self) -> tuple[Fraction, Fraction]:
        return self.response.rates

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (self.schema.d,)

    def supports(self, counts: NDArray[np.int64], n: int) -> NDArray[np.int64]:
        """How many reports support each key; the tally itself unless a mechanism counts something else."""
        return counts

    def report_effects(self, tally: Tally) -> list[Effects]:
        """A report supports a key or not."""
        return [of_statistics(self.response, (0, 1), None, np.full(self.schema.d, tally.reports))]

    def variance(self, frequency: Floats, n: int, population: bool = False) -> Floats:
        return self.response.predicted(frequency, np.zeros_like(frequency), n, population).frequency

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        counts = self._own(tally)
        return self.response.estimates(
            self.header(tally.reports, confidence, population),
            respondents=np.full(self.schema.d, tally.reports, dtype=np.int64),
            supports=self.supports(counts, tally.reports),
            signed=None,
            no_mean=self.no_mean,
        )


def option_refused(sentence: str) -> MechanismError:
    return MechanismError("mechanism/option", sentence)
