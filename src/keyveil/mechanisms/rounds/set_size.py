"""How many pairs do you hold? The first question to a pilot group, as a mechanism for the records that people have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio
from keyveil.core.codecs.symbols import Codec
from keyveil.core.coins import Coins
from keyveil.core.errors import ProtocolError
from keyveil.core.estimates import Column, Estimates
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.learn.sizes import SizeLaw, SizeSurvey
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.families.key_value import REDUCED_KEYS, KeyValue


@dataclass(frozen=True)
class SizeQuestion(KeyValue):
    """The number of pairs, ``most`` standing for itself and all above, through a frequency oracle with the whole ε."""

    most: int

    name: ClassVar[str] = "set-size"

    @property
    def estimated(self) -> frozenset[str]:
        return frozenset()

    def validate(self) -> None:
        if not 1 <= self.most <= self.schema.d:
            raise ProtocolError(
                "protocol/broadcast", f"{self.name} counts sets of up to 1 to {self.schema.d} pairs, not {self.most}."
            )

    @cached_property
    def survey(self) -> SizeSurvey:
        return SizeSurvey(self.epsilon, self.most)

    @cached_property
    def oracle(self) -> Mechanism:
        return self.survey.mechanism

    @property
    def codec(self) -> Codec:
        return self.oracle.codec

    @property
    def ratio(self) -> Ratio:
        return self.oracle.ratio

    @property
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "most": self.most}

    def reduced(self) -> Self:
        few = self.schema if self.schema.d <= REDUCED_KEYS else Schema(keys=REDUCED_KEYS)
        return replace(self, schema=few, most=min(self.most, REDUCED_KEYS))

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        return self.oracle.respond([(min(len(pairs), self.most), 0)], word, coins)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        return self.oracle.respond_many(self.survey.answers(records), words, coins)

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return self.oracle.tally_shape

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return self.oracle.fold(payloads, words)

    def law(self, tally: Tally) -> SizeLaw:
        """The law of set sizes behind the reports."""
        return self.survey.law(Tally(self.oracle.fingerprint, tally.reports, self._own(tally)))

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        self._own(tally)  # refuses a stranger's
        why = "This group was asked how many pairs people hold, not which."
        return Estimates(
            header=self.header(tally.reports, confidence, population),
            respondents=np.zeros(self.schema.d, dtype=np.int64),
            frequency=Column.unknown(self.schema, why),
            mean=Column.unknown(self.schema, why, scaled=True),
        )
