"""How many pairs do people hold? Asked privately of a pilot group, to set the cap of everybody else.

The group is disjoint from the rest and spends its whole ε on this one question, so nobody pays twice. The answer is a
law of set sizes: its quantile is a good cap (docs/theory.md), and TopSel decodes with the law itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from keyveil.core.epsilon import Number, exp_floor, parse_epsilon
from keyveil.core.errors import MechanismError
from keyveil.core.records import Records
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.learn.consistency import norm_sub
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import create


@dataclass(frozen=True)
class SizeLaw:
    """The share of people who hold 0, 1, 2, … pairs; the last size stands for itself and all above."""

    shares: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.dot(self.shares, np.arange(len(self.shares))))

    def quantile(self, share: float = 0.9) -> int:
        """The smallest size that at least this share of people do not exceed; as a cap never below one."""
        if not 0 < share <= 1:
            raise MechanismError("learn/quantile", f"A share of people lies between 0 and 1, not {share}.")
        reached = np.flatnonzero(np.cumsum(self.shares) >= share - 1e-12)
        return max(1, int(reached[0]) if len(reached) else len(self.shares) - 1)


@dataclass(frozen=True)
class SizeSurvey:
    """The question to the pilot group: how many pairs do you hold, ``most`` standing for all above?"""

    epsilon: Number
    most: int

    def __post_init__(self) -> None:
        if self.most < 1:
            raise MechanismError("mechanism/option", f"A size survey counts up to at least 1, not {self.most}.")

    @property
    def mechanism(self) -> Mechanism:
        """The better frequency oracle for so many sizes (docs/theory.md: GRR below 3·e^ε + 2)."""
        epsilon, sizes = parse_epsilon(self.epsilon), self.most + 1
        return create("grr" if sizes < 3 * exp_floor(epsilon) + 2 else "oue", Schema(keys=sizes), epsilon)

    def answer(self, record: Mapping[Any, Any]) -> str:
        """What a person's device takes as the record of the survey."""
        return str(min(len(record), self.most))

    def answers(self, records: Records) -> Records:
        """The same for many people."""
        sizes = np.minimum(records.sizes, self.most).astype(np.int32)
        return Records(np.arange(records.n + 1, dtype=np.int64), sizes, np.zeros_like(sizes), self.most + 1)

    def law(self, tally: Tally) -> SizeLaw:
        """The law of sizes behind the pilot group's reports, made non-negative with sum one."""
        estimates = self.mechanism.estimate(tally)
        return SizeLaw(tuple(norm_sub(estimates.frequency.values).tolist()))
