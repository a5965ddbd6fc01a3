"""What an attacker wants: the frequency, the mean or the rank of one key, up or down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from keyveil.core.attacked import Attacked
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates

Quantity = Literal["frequency", "mean", "rank"]
QUANTITIES: tuple[Quantity, ...] = ("frequency", "mean", "rank")


@dataclass(frozen=True)
class Goal:
    """To move one quantity of the key at place ``target``."""

    target: int
    quantity: Quantity = "frequency"
    up: bool = True

    @property
    def sign(self) -> int:
        return 1 if self.up else -1

    def value(self, estimates: Estimates) -> float:
        """The quantity as people read it: frequencies as estimated, means cut to [-1, 1], ranks from 1 downwards."""
        if self.quantity == "mean":
            return float(np.clip(estimates.mean.values[self.target], -1, 1))
        frequency = estimates.frequency.values
        if self.quantity == "frequency":
            return float(frequency[self.target])
        return -float(1 + np.count_nonzero(frequency > frequency[self.target]))

    def worth(self, estimates: Estimates) -> float:
        """What an attacker makes larger: for a rank, the frequency; for an unknown number, nothing is worse."""
        goal = Goal(self.target, "frequency", self.up) if self.quantity == "rank" else self
        value = goal.value(estimates)
        return -np.inf if np.isnan(value) else self.sign * value

    def gain(self, before: Estimates, after: Estimates) -> float:
        """By how much the quantity moved in the wanted direction; NaN where it was not known before or after."""
        return self.sign * (self.value(after) - self.value(before))

    def bound(self, before: Estimates, limits: Attacked) -> float:
        """The most that ``gain`` can be, by the limits of all estimates that can come out."""
        if self.quantity == "rank":
            best, worst = limits.ranks(before.frequency.values)
            return self.sign * (-float((best if self.up else worst)[self.target]) - self.value(before))
        ends = {
            "frequency": (limits.frequency_low, limits.frequency_high),
            "mean": (limits.mean_low, limits.mean_high),
        }
        return self.sign * (float(ends[self.quantity][self.up][self.target]) - self.value(before))


def usual_target(estimates: Estimates) -> int:
    """The least frequent key that is told from absent; the most frequent if none is; the first without frequencies."""
    if estimates.frequency.absent:
        return 0
    frequency = np.nan_to_num(estimates.frequency.values, nan=-np.inf)
    if not estimates.told.any():
        return int(frequency.argmax())
    return int(np.where(estimates.told, frequency, np.inf).argmin())


def possible(estimates: Estimates, quantity: Quantity) -> bool:
    """Whether these estimates have the quantity at all."""
    return not (estimates.mean.absent if quantity == "mean" else estimates.frequency.absent)


def need_possible(estimates: Estimates, quantity: Quantity) -> None:
    if not possible(estimates, quantity):
        told = "means" if quantity == "mean" else "frequencies"
        raise MechanismError("attack/quantity", f"{estimates.mechanism} gives no {told}, so none can be moved.")
