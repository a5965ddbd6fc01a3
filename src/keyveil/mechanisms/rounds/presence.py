"""Which keys do you hold? The question to the presence group of ``apart``: SSR over keys, without labels of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from keyveil.core.epsilon import exp_floor
from keyveil.mechanisms.capabilities import Cells, Histograms
from keyveil.mechanisms.encoders import Labels
from keyveil.mechanisms.families.answer_size import subset_size
from keyveil.mechanisms.families.key_value import FREQUENCIES, refused
from keyveil.mechanisms.families.set_response import CappedSetResponse
from keyveil.mechanisms.keyvalue.ssr import SSR


@dataclass(frozen=True)
class Presence(SSR):
    """Weight e^ε on every subset that meets the held keys, 1 on every other."""

    name: ClassVar[str] = "presence"
    examples: ClassVar = ({"max_pairs": 2},)

    def validate(self) -> None:
        CappedSetResponse.validate(self)
        if self.size is None:
            e = float(exp_floor(self.epsilon))
            object.__setattr__(self, "size", subset_size(self.schema.d, 1, self.max_pairs, e, "frequency"))
        if not 1 <= self.members < self.schema.d:
            raise refused(f"{self.name} takes a size from 1 to {self.schema.d - 1}, not {self.size}.")

    @property
    def labels(self) -> Labels:
        return Labels(bins=1)

    @property
    def estimated(self) -> frozenset[str]:
        return FREQUENCIES

    @property
    def lacks(self) -> frozenset[type]:
        return super().lacks | {Histograms, Cells}

    @property
    def no_mean(self) -> str:
        return "This group tells who holds keys, not their values."
