"""TopSel: mark exactly H of t public candidates that suit a person's set, and answer a marked one e^ε times as readily.

*Cover*, for sparse sets of any size over any number of keys: the candidates are buckets of a seeded partition of the
symbols, and those that hold a symbol of the person are marked. *Direct*: the candidates are the three states of one
seeded key; this is KVUE. Derivation: docs/mechanisms/topsel.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.bits import Symbol
from keyveil.core.channels import Ratio, TwoLevel, two_level
from keyveil.core.coins import Coins
from keyveil.core.epsilon import levels
from keyveil.core.public import public_index, public_indices, public_words_covering
from keyveil.core.report import Payload
from keyveil.core.tally import Tally
from keyveil.kernels.arcs import Arcs, below_each
from keyveil.kernels.buckets import Partition, bucket_many, bucket_one, count_answers, count_buckets
from keyveil.mechanisms.keyvalue.cover import Cover, SizeLaw, best_cover
from keyveil.mechanisms.keyvalue.set_response import Held, Integers, Keys, Odds, SetResponse, refused
from keyveil.mechanisms.responses import Solution, Spread

MOST_COHORTS = 1 << 16
FRESH = 1 << 32  # seeds when every report has its own
MOST_COUNTS = 1 << 23  # cohorts times buckets: a tally of 64 MB
SPARSE = 0.02  # mean size per key up to which keys are as good as independent of each other
REDUCED_BUCKETS, REDUCED_MARKS, REDUCED_COHORTS = 4, 2, 3
STEPS = 3  # of the fixed point in ``refine``


@dataclass(frozen=True)
class TopSel(SetResponse):
    """One of ``buckets``, of which ``marked`` suit the person; sets are covered whole, whatever their size.

    ``set_sizes`` is the law of set sizes ("5", or "1:0.2,2:0.8"). ``padding`` fills small sets of dense data up to that
    many symbols; where nobody holds more, the law need not be given. ``cohorts`` is the number of seeds that reports
    share; 0 gives each its own, for keys that a large part of the people hold: more precise, but slower to count.
    ``refine`` corrects popular keys for the smaller sets of those who lack them; by default where sets are sparse, vary
    in size, and are not padded. What is not given is chosen.
    """

    exhaustive: ClassVar[bool] = False  # words seed hashes

    mode: str = "cover"
    set_sizes: str | None = None
    padding: int = 0
    buckets: int | None = None
    marked: int | None = None
    cohorts: int | None = None
    refine: bool | None = None

    name: ClassVar[str] = "topsel"

    def validate(self) -> None:
        if self.mode not in ("cover", "direct"):
            raise refused(f"topsel has the modes cover and direct, not {self.mode!r}.")
        if self.direct:
            given = (self.set_sizes, self.padding or None, self.refine or None)
            sizes = zip((self.buckets, self.marked, self.cohorts), (3, 1, self.schema.d), strict=True)
            if given != (None, None, None) or any(size not in (None, fixed) for size, fixed in sizes):
                raise refused("topsel in direct mode has no options: a key is drawn, and its state is told.")
            chosen = {"buckets": 3, "marked": 1, "cohorts": self.schema.d, "refine": False}
        else:
            chosen = self._chosen()
        for option, value in chosen.items():
            object.__setattr__(self, option, value)

    def _chosen(self) -> dict[str, Any]:
        """All options of cover mode, checked and filled in."""
        if self.set_sizes is None and not self.padding:
            raise refused("topsel needs the law of set sizes, such as sizes=5 or sizes=1:0.2,2:0.8, or a padding.")
        law = SizeLaw.read(self.padding if self.set_sizes is None else self.set_sizes)
        if not 0 <= self.padding <= self.schema.d or not 1 <= law.largest <= self.schema.d:
            raise refused(f"topsel takes sizes and a padding up to {self.schema.d}, the number of keys.")
        if self.buckets is not None and not 2 <= self.buckets <= self.symbols + self.padding:
            raise refused(f"topsel takes from 2 to {self.symbols + self.padding} buckets, not {self.buckets}.")
        if self.marked is not None and self.marked < 1:
            raise refused(f"topsel marks at least one bucket, not {self.marked}.")
        cover = best_cover(self.schema.d, self.padding, law, self._gain, self.buckets, self.marked)
        buckets, alone = cover.partition.buckets, cover.partition.each == 1
        cohorts = (
            self.cohorts if self.cohorts is not None else 1 if alone else min(MOST_COHORTS, MOST_COUNTS // buckets)
        )
        if not 0 <= cohorts <= max(1, MOST_COUNTS // buckets) or (alone and not cohorts):
            raise refused(f"topsel takes up to {MOST_COUNTS // buckets} cohorts of {buckets} buckets, not {cohorts}.")
        sparse = len(law.shares) > 1 and not self.padding and law.mean <= SPARSE * self.schema.d
        return {
            "set_sizes": str(law),
            "buckets": buckets,
            "marked": cover.marked,
            "cohorts": cohorts,
            "refine": sparse if self.refine is None else self.refine,
        }

    # -- candidates ---------------------------------------------------------------------------------------------

    @property
    def direct(self) -> bool:
        return self.mode == "direct"

    @property
    def groups(self) -> int:
        """How many seeds there are, or keys to be asked about; 0 if every report has a seed of its own."""
        assert self.cohorts is not None
        return self.cohorts

    def cohorts_of(self, words: NDArray[np.uint64]) -> Integers:
        """Which seed, or which key, every report has."""
        return public_indices(words, self.groups or FRESH)

    @cached_property
    def channel(self) -> TwoLevel:
        assert self.buckets is not None and self.marked is not None
        return two_level(self.buckets, self.marked, self.epsilon)

    @cached_property
    def partition(self) -> Partition:
        buckets = self.channel.outputs
        return Partition(buckets, -(-(self.symbols + self.padding) // buckets))

    @property
    def _gain(self) -> float:
        return float(Fraction(*levels(self.epsilon)) - 1)

    @cached_property
    def cover(self) -> Cover:
        return Cover(self.partition, self.channel.marked, self.padding, SizeLaw.read(self.set_sizes), self._gain)

    @property
    def ratio(self) -> Ratio:
        return self.channel.ratio

    @property
    def sizes(self) -> dict[str, int]:
        own = {"buckets": self.channel.outputs, "marked": self.channel.marked, "cohorts": self.groups}
        return {**super().sizes, **own, "padding": self.padding}

    @property
    def codec(self) -> Symbol:
        return Symbol(self.channel.outputs)

    def every_word(self) -> list[int]:
        return public_words_covering(self.groups or REDUCED_COHORTS)

    def reduced(self) -> Self:
        if self.direct:
            return replace(self, schema=self.few_keys, buckets=None, marked=None, cohorts=None, refine=None)
        buckets = min(self.channel.outputs, REDUCED_BUCKETS)
        return replace(
            self,
            schema=self.few_keys,
            set_sizes="1",
            padding=min(self.padding, REDUCED_MARKS),
            buckets=buckets,
            marked=min(self.channel.marked, REDUCED_MARKS, buckets - 1),
            cohorts=min(self.groups, REDUCED_COHORTS),
        )

    # -- device and bulk ----------------------------------------------------------------------------------------

    def hits(self, held: list[int], cohort: int) -> list[int]:
        """The candidates that suit what is held."""
        if self.direct:
            return [next((1 + symbol % 2 for symbol in held if symbol // 2 == cohort), 0)]
        dummies = range(self.symbols, self.symbols + self.padding - len(held))
        return sorted({bucket_one(cohort, symbol, self.partition) for symbol in (*held, *dummies)})

    def answer(self, held: list[int], word: int, coins: Coins) -> Payload:
        marked, hit = self.channel.marked, self.hits(held, public_index(word, self.groups or FRESH))
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
        arcs = self._hits_many(held, self.cohorts_of(words))
        taken = arcs.taken
        told, ranks = self.channel.draw_many(held.n, coins)
        inside = ranks < np.where(told, taken, taken - marked)
        return arcs.cells(inside, below_each(np.where(inside, taken, outputs - taken), coins))

    def _hits_many(self, held: Held, cohorts: Integers) -> Arcs:
        """Everybody's hits, as arcs of one bucket."""
        outputs, n = self.channel.outputs, held.n
        if self.direct:
            states = np.zeros(n, dtype=np.int64)
            mine = np.flatnonzero(held.symbols // 2 == cohorts[held.owners])
            states[held.owners[mine]] = 1 + held.symbols[mine] % 2
            return Arcs.of(states, np.arange(n + 1), outputs, 1)
        missing = np.maximum(self.padding - held.sizes, 0)
        owners = np.concatenate((held.owners, np.repeat(np.arange(n), missing)))
        dummies = self.symbols + np.arange(missing.sum()) - np.repeat(np.cumsum(missing) - missing, missing)
        order = np.argsort(owners, kind="stable")
        symbols = np.concatenate((held.symbols, dummies))[order]
        offsets = np.concatenate(([0], np.cumsum(held.sizes + missing)))
        return Arcs.of(bucket_many(cohorts[owners[order]], symbols, self.partition), offsets, outputs, 1)

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (self.groups, self.channel.outputs) if self.groups else super().tally_shape

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        if not self.groups:
            return self.by_label(count_answers(self.cohorts_of(words), payloads, self.symbols, self.partition))
        cells = self.cohorts_of(words) * self.channel.outputs + payloads
        return np.bincount(cells, minlength=self.groups * self.channel.outputs).reshape(self.tally_shape)

    def supports(self, tally: Tally) -> Integers:
        counts = self._own(tally)
        if self.direct:
            return counts[:, 1:].T
        return self.by_label(count_buckets(counts, self.symbols, self.partition)) if self.groups else counts

    def asked(self, tally: Tally) -> Integers:
        return self._own(tally).sum(axis=1) if self.direct else super().asked(tally)

    @cached_property
    def odds(self) -> Sequence[tuple[Keys, Odds]]:
        alone = Odds(self.channel.hit, self.channel.miss, Fraction(0), Fraction(0))
        return [(slice(None), alone if self.direct else self.cover.odds)]

    def solve(self, tally: Tally, population: bool) -> Solution:
        solution = super().solve(tally, population)
        if self.direct or not tally.reports:
            return solution
        if self.groups:
            solution = self._with_cohorts(solution)
        return _refined(solution, self.cover) if self.refine else solution

    def _with_cohorts(self, solution: Solution) -> Solution:
        """Adds the variance of shared seeds: symbols that meet in one report of a cohort meet in all of them."""
        spread, shared = solution.spread, self.cover.shared
        held = float(solution.frequency.sum())
        dummies = max(self.padding - held, 0.0)  # per person; at worst everybody has the same ones
        squares = solution.frequency**2 - spread.frequency + solution.product**2 - spread.product
        uneven = float(squares.sum()) / 2 + dummies - (held + dummies) ** 2 / self.partition.symbols
        common = 2 * max(uneven, 0.0) * shared * (1 - shared) / self.groups
        wider = Spread(spread.frequency + common, spread.product + common, spread.covariance)
        return replace(solution, spread=wider)


def _refined(solution: Solution, cover: Cover) -> Solution:
    """Estimates with the constants of a key's own people: those of others are smaller by the key, if it is common."""
    plain, moved = cover.supports(), cover.supports(moved=1)
    gain = plain.own - plain.other
    reported = solution.frequency * gain + 2 * plain.other
    frequency = solution.frequency
    for _ in range(STEPS):
        common = np.clip(frequency, 0, 1)
        other = plain.other + common * (moved.other - plain.other)
        own_gain = plain.own + common * (moved.own - plain.own) - other
        frequency = (reported - 2 * other) / own_gain
    scale = gain / own_gain
    spread = Spread(*(part * scale**2 for part in solution.spread))
    return Solution(frequency, solution.product * scale, spread)
