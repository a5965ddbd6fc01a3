"""Key-value mechanisms whose report is that of a frequency oracle, about the cell that a record falls into."""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction

from keyveil.core.channels import Ratio
from keyveil.core.codecs.symbols import Codec
from keyveil.mechanisms.families.categorical import FrequencyOracle
from keyveil.mechanisms.families.key_value import KeyValue


class ThroughOracle(KeyValue):
    """Privacy and form of a report are those of ``inner``."""

    @property
    @abstractmethod
    def inner(self) -> FrequencyOracle:
        """The oracle, whose keys are the cells."""

    @property
    def ratio(self) -> Ratio:
        return self.inner.ratio

    @property
    def variation(self) -> Fraction:
        return self.inner.variation

    @property
    def codec(self) -> Codec:
        return self.inner.codec
