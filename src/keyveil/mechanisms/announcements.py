"""What the declarations of announced options share (``capabilities.Announced``): three bases and the list of forms.

A collector may set these options of a later round after it has seen the answers of earlier ones. So ε must hold
whatever it chooses, as long as a device accepts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any

from keyveil.core.channels import Ratio
from keyveil.core.epsilon import exp_floor
from keyveil.core.errors import MechanismError, ProtocolError
from keyveil.mechanisms.base import Mechanism


class NothingAnnounced(Mechanism):
    """All options are fixed before the first answer."""

    def announced(self) -> frozenset[str]:
        return frozenset()

    def announced_forms(self) -> Sequence[Mechanism]:
        return (self,)

    def announced_ratio(self) -> Ratio:
        return self.ratio

    def worst_announced(self) -> Mechanism:
        return self


class CalibratedOnDevice(Mechanism):
    """Whatever is announced, the device calibrates its channel to at most e^ε.

    A class that derives from this one says which options those are, and the forms that matter.
    """

    def announced_ratio(self) -> Ratio:
        """A collector may find the options that come closest to e^ε: so e^ε itself, rounded down as weights are."""
        return max(self.ratio, exp_floor(self.epsilon))

    def worst_announced(self) -> Mechanism:
        return self


class AnnouncedCap(CalibratedOnDevice):
    """The cap ``max_pairs`` may be announced. Members of a family may add options that follow from it."""

    def announced(self) -> frozenset[str]:
        return frozenset({"max_pairs"})

    def announced_forms(self) -> Sequence[Mechanism]:
        return accepted_forms(self, max_pairs=range(1, self.schema.d + 1))


def accepted_forms(mechanism: Mechanism, **announced: Iterable[Any]) -> list[Mechanism]:
    """The mechanism under all combinations of the announced values, without those that a device refuses."""
    forms: list[Mechanism] = []
    for values in product(*announced.values()):
        with suppress(MechanismError, ProtocolError):
            forms.append(replace(mechanism, **dict(zip(announced, values, strict=True))))
    return forms
