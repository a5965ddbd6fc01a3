"""Answers that are subsets of all symbols, of one size: what ``ssr`` and the presence group of ``apart`` share."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio, Subset, subset
from keyveil.core.codecs.members import DenseMembers, RealMembers, shortest_members
from keyveil.core.codecs.payloads import Flaws, Payloads
from keyveil.core.coins import Coins
from keyveil.core.epsilon import exp_floor
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.kernels.reading import count_members
from keyveil.kernels.subsets import count_symbols, draw_subsets
from keyveil.mechanisms.announcements import accepted_forms
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.families.answer_size import subset_size
from keyveil.mechanisms.families.key_value import refused
from keyveil.mechanisms.families.set_response import REDUCED_PAIRS, CappedSetResponse, Held, Keys, Odds
from keyveil.mechanisms.families.subset_moments import drawn_near, subset_moments
from keyveil.mechanisms.report_laws import SymbolLaws, Together, members_of
from keyveil.mechanisms.size_law import SizeLaw
from keyveil.mechanisms.tally_laws import LimitDraws

REDUCED_SIZE = 2
MOST_CELLS = 1 << 12  # of a tally whose covariance is written down: 128 MB


@dataclass(frozen=True)
class SubsetResponse(CappedSetResponse):
    """Weight e^ε on every subset that meets the held symbols, 1 on every other.

    ``size`` is the number of members. Unless given, it is the one of least variance: for rare keys, or, with the law
    ``set_sizes`` of how many pairs people hold, for keys of the mean frequency that follows from it.
    """

    size: int | None = None
    set_sizes: str | None = None

    unsaid: ClassVar[frozenset[str]] = frozenset({"set_sizes"})

    def validate(self) -> None:
        super().validate()
        if self.size is None:
            labels, e = self.labels.count, float(exp_floor(self.epsilon))
            best = subset_size(self.schema.d, labels, self.max_pairs, e, self._mean_frequency())
            object.__setattr__(self, "size", best)
        object.__setattr__(self, "set_sizes", None)  # what follows from it stands in the size
        if not 1 <= self.members < self.symbols:
            raise refused(f"{self.name} takes a size from 1 to {self.symbols - 1}, not {self.size}.")

    def _mean_frequency(self) -> float:
        """The frequency of a key, on average over keys, that set sizes give; 0 where nothing is known of them."""
        if self.set_sizes is None:
            return 0.0
        law = SizeLaw.read(self.set_sizes)
        return float(law.of_people @ np.minimum(law.sizes, self.max_pairs)) / self.schema.d

    @property
    def keys_at_once(self) -> int:
        return self.members

    @property
    def members(self) -> int:
        """How many symbols are drawn, dummies included."""
        assert self.size is not None
        return self.size

    @property
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "size": self.members}

    @cached_property
    def channel(self) -> Subset:
        return subset(self.symbols + self.max_pairs, self.members, held=self.max_pairs, epsilon=self.epsilon)

    @property
    def ratio(self) -> Ratio:
        return self.channel.ratio

    @property
    def variation(self) -> Fraction:
        return self.channel.variation

    @cached_property
    def codec(self) -> RealMembers | DenseMembers:
        return shortest_members(self.symbols, self.members, self.max_pairs)

    def answer(self, held: list[int], word: int, coins: Coins) -> Payload:
        symbols = self.symbols
        dummies = range(symbols, symbols + self.max_pairs - len(held))
        drawn = self.channel.draw([*held, *dummies], coins)
        return drawn[: bisect_left(drawn, symbols)]

    def answer_many(self, held: Held, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        padded = np.empty((held.n, self.max_pairs), dtype=np.int64)
        padded[:] = self.symbols + np.arange(self.max_pairs)
        padded[held.owners, held.places] = held.symbols
        hits = coins.choose_many(self.channel.hit_weights, held.n)
        return draw_subsets(padded, hits, self.channel.symbols, self.members, coins)

    @property
    def most_labels(self) -> int:
        return min(self.members, self.labels.count)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return self.by_label(count_symbols(payloads, self.channel.symbols))

    def count_encoded(self, payloads: Payloads, words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], Flaws]:
        """Straight from the bits to counts: rows of members would take far more memory than time."""
        counts, flaws = count_members(self.codec, payloads)
        return self.by_label(counts), flaws

    @cached_property
    def odds(self) -> Sequence[tuple[Keys, Odds]]:
        channel = self.channel
        return [(slice(None), Odds(*channel.chances))]

    def supported(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        return members_of(payloads, self.symbols)

    def symbol_laws(self) -> SymbolLaws | None:
        """Which symbols come together; those of one key are never held together."""
        if self.members == 1:
            return None
        own, other, one, none = (float(chance) for chance in self.channel.chances)
        keys = np.repeat(np.arange(self.schema.d), self.labels.count)
        return SymbolLaws(keys, None, Together.of_subsets(own, other, one, none), (own, other))

    # -- very many people ---------------------------------------------------------------------------------------

    def limit_known(self) -> bool:
        return self.symbols <= MOST_CELLS

    def count_moments(self, types: Records, people: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Mean and covariance of the flat counts of ``people[i]`` reports of everybody with the record i, exactly."""
        return subset_moments(self.channel, self.labels, self.max_pairs, types, people)

    def draw_limit(self, types: Records, people: NDArray[np.int64], draws: LimitDraws) -> NDArray[np.int64]:
        mean, covariance = self.count_moments(types, people)
        drawn = drawn_near(mean, covariance, int(people.sum()), draws.standard_normal(len(mean)))
        return drawn.reshape(self.tally_shape)

    # -- announcements ------------------------------------------------------------------------------------------

    def announced(self) -> frozenset[str]:
        return super().announced() | {"size"}  # which is chosen by the cap

    def announced_forms(self) -> Sequence[Mechanism]:
        return accepted_forms(self, max_pairs=range(1, self.schema.d + 1), size=range(1, REDUCED_SIZE + 2))

    def reduced(self) -> Self:
        return replace(self, **self.few)

    @property
    def few(self) -> dict[str, Any]:
        """The options of reduced sizes."""
        pairs, size = min(self.max_pairs, REDUCED_PAIRS), min(self.members, REDUCED_SIZE)
        return {"schema": self.few_keys, "max_pairs": pairs, "size": size}
