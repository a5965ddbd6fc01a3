"""TopSel: mark exactly H of t public candidates that suit a person's set, and answer a marked one e^ε times as readily.

*Cover*, for sparse sets of any size over any number of keys: a public seed puts the symbols into buckets, and those
that hold a symbol of the person are marked. *Direct*: the candidates are the three states of one public key; this is
KVUE. Derivation: docs/mechanisms/topsel.md.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio, TwoLevel, two_level
from keyveil.core.codecs.symbols import Symbol
from keyveil.core.coins import Coins
from keyveil.core.public import public_indices, public_words_covering
from keyveil.core.report import Payload
from keyveil.kernels.arcs import Arcs, below_each
from keyveil.kernels.public_cells import PublicCells
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.families.key_value import refused
from keyveil.mechanisms.families.set_response import Held, Integers, SetResponse

REDUCED_SEEDS = 3


@dataclass(frozen=True)
class TopSel(SetResponse):
    """One of ``buckets``, of which ``marked`` suit the person; ``mode`` says what the buckets are.

    The options below are those of cover mode; direct mode has none.

    ``set_sizes`` is the law of set sizes ("5", or "1:0.2,2:0.8"). ``padding`` fills small sets up to that many symbols;
    where nobody holds more, the law need not be given. Sets of several sizes that are not sparse are padded to the
    largest by default, and a smaller padding is refused: estimates would be biased. ``hashing`` is the way into the
    buckets: a balanced "partition", or a "hash" that puts the two signs of a key into one bucket with probability
    ``kappa``: more for frequencies, less for values. ``cohorts`` is the number of seeds that reports share; 0 gives
    each its own, which is more precise where a large part of the people hold one key, and the default unless counting
    would take long. ``refine`` corrects popular keys for the smaller sets of those who lack them; by default where sets
    are sparse, vary in size, and are not padded. What is not given is chosen.
    """

    exhaustive: ClassVar[bool] = False  # words seed hashes

    mode: str = "cover"
    set_sizes: str | None = None
    padding: int | None = None
    buckets: int | None = None
    marked: int | None = None
    hashing: str | None = None
    kappa: Fraction | None = None
    cohorts: int | None = None
    refine: bool | None = None

    name: ClassVar[str] = "topsel"
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({"set_sizes": "2"}, {"padding": 2}, {"mode": "direct"})

    @classmethod
    def class_for(cls, options: Mapping[str, Any]) -> type[Mechanism]:
        """The class of the mode that is given; cover by default."""
        mode = str(options.get("mode", "cover"))
        if mode == "cover":
            from keyveil.mechanisms.keyvalue.topsel_cover import TopSelCover  # both of them derive from this class

            return TopSelCover
        if mode == "direct":
            from keyveil.mechanisms.keyvalue.topsel_direct import TopSelDirect

            return TopSelDirect
        raise refused(f"topsel has the modes cover and direct, not {mode!r}.")

    def validate(self) -> None:
        if self.mode != type(self).mode:
            raise refused(f"{type(self).__name__} has the mode {type(self).mode}, not {self.mode!r}.")
        for option, value in self.chosen().items():
            object.__setattr__(self, option, value)

    @abstractmethod
    def chosen(self) -> dict[str, Any]:
        """The options that were not given, after all of them were checked."""

    @abstractmethod
    def hits(self, held: list[int], word: int) -> list[int]:
        """The buckets that suit what is held, rising."""

    @abstractmethod
    def hits_many(self, held: Held, words: NDArray[np.uint64]) -> Arcs:
        """``hits`` of many people, as arcs of one bucket."""

    @property
    def padded(self) -> int:
        """The number of symbols up to which small sets are filled; 0 if they are not."""
        return self.padding or 0

    @property
    def groups(self) -> int:
        """How many groups of reports are counted apart: by shared seed, or by key; 0 if there are none."""
        assert self.cohorts is not None
        return self.cohorts

    def cohorts_of(self, words: NDArray[np.uint64]) -> Integers:
        """Which of the groups every report belongs to."""
        return public_indices(words, self.groups)

    # -- channel ------------------------------------------------------------------------------------------------

    @cached_property
    def channel(self) -> TwoLevel:
        assert self.buckets is not None and self.marked is not None
        return two_level(self.buckets, self.marked, self.epsilon)

    @property
    def ratio(self) -> Ratio:
        return self.channel.ratio

    @property
    def variation(self) -> Fraction:
        return self.channel.variation

    @property
    def sizes(self) -> dict[str, int]:
        own = {"buckets": self.channel.outputs, "marked": self.channel.marked, "cohorts": self.groups}
        return {**super().sizes, **own, "padding": self.padded}

    @property
    def codec(self) -> Symbol:
        return Symbol(self.channel.outputs)

    def every_word(self) -> list[int]:
        return public_words_covering(self.groups or REDUCED_SEEDS)

    # -- device and bulk ----------------------------------------------------------------------------------------

    def answer(self, held: list[int], word: int, coins: Coins) -> Payload:
        marked, hit = self.channel.marked, self.hits(held, word)
        others = [bucket for bucket in range(self.channel.outputs) if bucket not in hit]
        if len(hit) > marked:
            chosen = [hit[place] for place in coins.subset(marked, len(hit))]
        else:
            chosen = hit + [others[place] for place in coins.subset(marked - len(hit), len(others))]
        told, rank = self.channel.draw(coins)
        return chosen[rank] if told else [bucket for bucket in (*hit, *others) if bucket not in chosen][rank]

    def answer_many(self, held: Held, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        """The same law, without writing anybody's marks down: they are uniform among the hits, or among the rest."""
        outputs, marked = self.channel.outputs, self.channel.marked
        arcs = self.hits_many(held, words)
        taken = arcs.taken
        told, ranks = self.channel.draw_many(held.n, coins)
        inside = ranks < np.where(told, taken, taken - marked)
        return arcs.cells(inside, below_each(np.where(inside, taken, outputs - taken), coins))

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (self.groups, self.channel.outputs)

    @property
    def public_cells(self) -> PublicCells | None:
        return PublicCells(self.channel.outputs, self.groups, by_answer=1, by_index=self.channel.outputs)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        cells = self.cohorts_of(words) * self.channel.outputs + payloads
        return np.bincount(cells, minlength=self.groups * self.channel.outputs).reshape(self.tally_shape)
