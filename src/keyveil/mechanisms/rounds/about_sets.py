"""Questions to a pilot group about sets as a whole: how many pairs, how large their values. They tell of no key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from keyveil.core.estimates import Column, Estimates
from keyveil.core.tally import Tally
from keyveil.mechanisms.announcements import NothingAnnounced
from keyveil.mechanisms.families.key_value import KeyValue


@dataclass(frozen=True)
class AboutSets(NothingAnnounced, KeyValue):
    """A question whose reports tell neither frequencies nor means of keys; ``tells`` says what instead."""

    tells: ClassVar[str]

    @property
    def estimated(self) -> frozenset[str]:
        return frozenset()

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        self._own(tally)  # refuses the tally of another mechanism
        why = f"This group tells {self.tells}."
        return Estimates(
            header=self.header(tally.reports, confidence, population),
            respondents=np.zeros(self.schema.d, dtype=np.int64),
            frequency=Column.unknown(self.schema, why),
            mean=Column.unknown(self.schema, why, scaled=True),
        )
