"""Which keys do you hold? The question to the presence group of ``apart``: SSR over keys, without labels of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from keyveil.mechanisms.encoders import Labels
from keyveil.mechanisms.families.key_value import FREQUENCIES
from keyveil.mechanisms.families.subset_response import SubsetResponse


@dataclass(frozen=True)
class PresenceGroup(SubsetResponse):
    """Weight e^ε on every subset that meets the held keys, 1 on every other."""

    name: ClassVar[str] = "presence-group"

    @property
    def labels(self) -> Labels:
        return Labels(bins=1)

    @property
    def estimated(self) -> frozenset[str]:
        return FREQUENCIES

    @property
    def no_mean(self) -> str:
        return "This group tells who holds keys, not their values."
