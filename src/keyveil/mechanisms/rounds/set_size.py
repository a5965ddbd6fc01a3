"""How many pairs do you hold? The first question to a pilot group, as a mechanism for the records that people have.

The group is disjoint from the rest and spends its whole ε on this one question, so nobody pays twice. From the reports
comes a law of set sizes. Its quantile is a good cap for everybody else (docs/theory.md); TopSel decodes with the law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio
from keyveil.core.codecs.symbols import Codec
from keyveil.core.coins import Coins
from keyveil.core.epsilon import exp_floor
from keyveil.core.errors import ProtocolError
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.kernels.simplex import nearest_with_sum
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.capabilities import KeyDependence, need
from keyveil.mechanisms.families.key_value import REDUCED_KEYS
from keyveil.mechanisms.overflow.undercount import Surplus
from keyveil.mechanisms.registry import create
from keyveil.mechanisms.rounds.about_sets import AboutSets
from keyveil.mechanisms.size_law import SizeLaw


@dataclass(frozen=True)
class SizeQuestion(AboutSets):
    """The number of pairs, ``most`` standing for itself and all above, through a frequency oracle with the whole ε."""

    most: int

    name: ClassVar[str] = "set-size"
    tells: ClassVar[str] = "how many pairs people hold, not which"

    @property
    def width(self) -> int:
        """How many sizes an answer above 0 stands for."""
        return 1

    def validate(self) -> None:
        if not 1 <= self.most <= self.schema.d:
            raise ProtocolError(
                "protocol/broadcast", f"{self.name} counts sets of up to 1 to {self.schema.d} pairs, not {self.most}."
            )

    @cached_property
    def oracle(self) -> Mechanism:
        """The better frequency oracle for so many sizes (docs/theory.md: GRR below 3·e^ε + 2)."""
        sizes = self.most + 1
        return create("grr" if sizes < 3 * exp_floor(self.epsilon) + 2 else "oue", Schema(keys=sizes), self.epsilon)

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

    # -- device and bulk ----------------------------------------------------------------------------------------

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        return self.oracle.respond([(min(-(-len(pairs) // self.width), self.most), 0)], word, coins)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        sizes = np.minimum(-(-records.sizes // self.width), self.most).astype(np.int32)
        own = Records(np.arange(records.n + 1, dtype=np.int64), sizes, np.zeros_like(sizes), self.most + 1)
        return self.oracle.respond_many(own, words, coins)

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return self.oracle.tally_shape

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return self.oracle.fold(payloads, words)

    def law(self, tally: Tally) -> SizeLaw:
        """The law of set sizes behind the reports: unbiased shares, made non-negative with the sum one."""
        if not tally.reports:
            raise ProtocolError("protocol/few", "Nobody has told how many pairs they hold.")
        estimates = self.oracle.estimate(Tally(self.oracle.fingerprint, tally.reports, self._own(tally)))
        shares = nearest_with_sum(estimates.frequency.values).tolist()
        return SizeLaw.read({self.stands_for(told): Fraction(share) for told, share in enumerate(shares)})

    def surplus(self, tally: Tally, cap: int) -> Surplus | None:
        """How far people exceed a cap; nothing if nobody answered, or if no answer tells that somebody does."""
        if not tally.reports or cap >= self.most:
            return None
        told = self.oracle.estimate(Tally(self.oracle.fingerprint, tally.reports, self._own(tally)), population=True)
        shares, errors = told.frequency.values, told.frequency.se
        constants = replace(need(self.oracle, KeyDependence).dependence(True), n=tally.reports)
        above = np.maximum(np.array([self.stands_for(told) for told in range(self.most + 1)], float) - cap, 0.0)
        (mean, se), over = (
            (float(weights @ shares), math.sqrt(constants.variance(weights, shares, errors)))
            for weights in (above, np.minimum(above, 1.0))
        )
        return Surplus(mean, se, *over, reach=math.inf if self.most == self.schema.d else self.most - cap)

    def stands_for(self, told: int) -> int:
        """The size that an answer stands for in the law."""
        return told


@dataclass(frozen=True)
class SizeClasses(SizeQuestion):
    """The same in few answers for many keys: 0, and up to ``most`` classes that part the sizes from 1 to d alike.

    Few answers are told more exactly; up to ``most`` keys every size has its own.
    """

    most: int = 16

    name: ClassVar[str] = "size-classes"

    @property
    def width(self) -> int:
        return -(-self.schema.d // self.most)

    def validate(self) -> None:
        if self.most > 0:
            object.__setattr__(self, "most", -(-self.schema.d // self.width))  # no class beyond the last key
        super().validate()

    def stands_for(self, told: int) -> int:
        """The middle of the class."""
        return min((told - 1) * self.width + self.width // 2 + 1, self.schema.d) if told else 0
