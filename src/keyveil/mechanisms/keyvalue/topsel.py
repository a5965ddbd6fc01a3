"""TopSel: mark exactly H of t public candidates that suit a person's set, and answer a marked one e^ε times as readily.

*Cover*, for sparse sets of any size over any number of keys: a public seed puts the symbols into buckets, and those
that hold a symbol of the person are marked. *Direct*: the candidates are the three states of one seeded key; this is
KVUE. Derivation: docs/mechanisms/topsel.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio, Table, TwoLevel, two_level
from keyveil.core.codecs.symbols import Symbol
from keyveil.core.coins import Coins
from keyveil.core.epsilon import levels
from keyveil.core.estimates import Estimates
from keyveil.core.public import public_index, public_indices, public_word, public_words_covering
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.tally import Tally
from keyveil.kernels.arcs import Arcs, below_each
from keyveil.kernels.buckets import Partition
from keyveil.kernels.sign_hash import SignHash
from keyveil.kernels.siphash import siphash_many
from keyveil.mechanisms.capabilities import CountDraws, KnownTotal, PredictedVariance, TallyLaw
from keyveil.mechanisms.dependence import ONE_KEY, Dependence
from keyveil.mechanisms.families.cover import Cover, Given, Scheme, SizeLaw, best_cover, best_kappa
from keyveil.mechanisms.families.set_response import Held, Integers, Keys, Odds, SetResponse, refused
from keyveil.mechanisms.responses import Solution, Spread
from keyveil.mechanisms.tally_laws import draw_outputs, states_by_key
from keyveil.mechanisms.totals import Constraint

MOST_COHORTS = 1 << 16
MOST_COUNTS = 1 << 23  # cohorts times buckets: a tally of 64 MB
MOST_STEPS = 1 << 14  # to count a report under a seed of its own: some twenty microseconds
SPARSE = 0.02  # mean size per key up to which keys are as good as independent of each other
REDUCED_BUCKETS, REDUCED_MARKS, REDUCED_SEEDS = 4, 2, 3
HASHINGS = ("partition", "hash")
STEPS = 3  # of the fixed point in ``refine``


@dataclass(frozen=True)
class TopSel(SetResponse):
    """One of ``buckets``, of which ``marked`` suit the person; sets are covered whole, whatever their size.

    ``set_sizes`` is the law of set sizes ("5", or "1:0.2,2:0.8"). ``padding`` fills small sets of dense data up to that
    many symbols; where nobody holds more, the law need not be given. ``hashing`` is the way into the buckets: a
    balanced "partition", or a "hash" that puts the two signs of a key into one bucket with probability ``kappa``: more
    for frequencies, less for values. ``cohorts`` is the number of seeds that reports share; 0 gives each its own, which
    is more precise where a large part of the people hold one key, and the default unless counting would take long.
    ``refine`` corrects popular keys for the smaller sets of those who lack them; by default where sets are sparse, vary
    in size, and are not padded. What is not given is chosen.
    """

    exhaustive: ClassVar[bool] = False  # words seed hashes

    mode: str = "cover"
    set_sizes: str | None = None
    padding: int = 0
    buckets: int | None = None
    marked: int | None = None
    hashing: str | None = None
    kappa: Fraction | None = None
    cohorts: int | None = None
    refine: bool | None = None

    name: ClassVar[str] = "topsel"
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({"set_sizes": "1:0.6,2:0.4"}, {"padding": 2}, {"mode": "direct"})

    @property
    def lacks(self) -> frozenset[type]:
        own: frozenset[type] = frozenset({PredictedVariance, KnownTotal if self.direct else TallyLaw})
        return super().lacks | own

    def validate(self) -> None:
        if self.mode not in ("cover", "direct"):
            raise refused(f"topsel has the modes cover and direct, not {self.mode!r}.")
        if self.direct:
            given = (self.set_sizes, self.padding or None, self.hashing, self.kappa, self.refine or None)
            sizes = zip((self.buckets, self.marked, self.cohorts), (3, 1, self.schema.d), strict=True)
            if any(one is not None for one in given) or any(size not in (None, fixed) for size, fixed in sizes):
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
        if self.hashing not in (None, *HASHINGS) or (self.kappa is not None and self.hashing == "partition"):
            raise refused(f"topsel takes hashing={'|'.join(HASHINGS)}, and kappa with a hash only.")
        if self.kappa is not None and not 0 <= self.kappa < 1:
            raise refused(f"topsel takes a kappa from 0 to below 1, not {self.kappa}.")
        way = Given(self.hashing if self.kappa is None else "hash", self.kappa)
        cover = best_cover(self.schema.d, self.padding, law, self._gain, self.buckets, self.marked, way)
        buckets, hashed = cover.scheme.buckets, isinstance(cover.scheme, SignHash)
        steps, cohorts = cover.scheme.steps(self.symbols), self.cohorts
        alone = steps == 1  # every symbol has its own bucket, and there is nothing to seed
        if cohorts is None:
            cohorts = 1 if alone else 0 if steps <= MOST_STEPS else min(MOST_COHORTS, MOST_COUNTS // buckets)
        if not 0 <= cohorts <= max(1, MOST_COUNTS // buckets) or (alone and not cohorts):
            raise refused(f"topsel takes up to {MOST_COUNTS // buckets} cohorts of {buckets} buckets, not {cohorts}.")
        sparse = len(law.shares) > 1 and not self.padding and law.mean <= SPARSE * self.schema.d
        return {
            "set_sizes": str(law),
            "buckets": buckets,
            "marked": cover.marked,
            "hashing": HASHINGS[hashed],
            "kappa": (way.kappa if way.kappa is not None else best_kappa(buckets)) if hashed else None,
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
        """Which of the shared seeds, or which key, every report has."""
        return public_indices(words, self.groups)

    def seed_of(self, word: int) -> int:
        """The seed of a report: its own word, or a keyed hash of its cohort, which no other collection has."""
        if not self.groups:
            return word
        return public_word(public_index(word, self.groups).to_bytes(16, "little"), self.fingerprint[16:])

    @cached_property
    def cohort_seeds(self) -> NDArray[np.uint64]:
        """The seeds of all cohorts."""
        numbers = np.zeros((self.groups, 2), dtype="<u8")
        numbers[:, 0] = np.arange(self.groups)
        return siphash_many(self.fingerprint[16:], numbers.view(np.uint8))

    def seeds_of(self, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """``seed_of`` for many reports."""
        return self.cohort_seeds[self.cohorts_of(words)] if self.groups else words

    @cached_property
    def channel(self) -> TwoLevel:
        assert self.buckets is not None and self.marked is not None
        return two_level(self.buckets, self.marked, self.epsilon)

    @cached_property
    def scheme(self) -> Scheme:
        """The way into the buckets."""
        (scheme,) = Given(self.hashing, self.kappa).schemes(self.channel.outputs, self.symbols + self.padding)
        return scheme

    @property
    def _gain(self) -> float:
        return float(Fraction(*levels(self.epsilon)) - 1)

    @cached_property
    def cover(self) -> Cover:
        return Cover(self.scheme, self.channel.marked, self.padding, SizeLaw.read(self.set_sizes), self._gain)

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
        return public_words_covering(self.groups or REDUCED_SEEDS)

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
            cohorts=min(self.groups, REDUCED_SEEDS),
        )

    # -- device and bulk ----------------------------------------------------------------------------------------

    @property
    def _apart(self) -> int:
        """From one dummy to the next: those that are hashed must not be two signs of a key."""
        return 2 if self.hashing == "hash" else 1

    def hits(self, held: list[int], word: int) -> list[int]:
        """The candidates that suit what is held."""
        if self.direct:
            key = public_index(word, self.groups)
            return [next((1 + symbol % 2 for symbol in held if symbol // 2 == key), 0)]
        dummies = (self.symbols + self._apart * number for number in range(self.padding - len(held)))
        seed, scheme = self.seed_of(word), self.scheme
        return sorted({scheme.bucket(seed, symbol) for symbol in (*held, *dummies)})

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
        arcs = self._hits_many(held, words)
        taken = arcs.taken
        told, ranks = self.channel.draw_many(held.n, coins)
        inside = ranks < np.where(told, taken, taken - marked)
        return arcs.cells(inside, below_each(np.where(inside, taken, outputs - taken), coins))

    def _hits_many(self, held: Held, words: NDArray[np.uint64]) -> Arcs:
        """Everybody's hits, as arcs of one bucket."""
        outputs, n = self.channel.outputs, held.n
        if self.direct:
            states = np.zeros(n, dtype=np.int64)
            mine = np.flatnonzero(held.symbols // 2 == self.cohorts_of(words)[held.owners])
            states[held.owners[mine]] = 1 + held.symbols[mine] % 2
            return Arcs.of(states, np.arange(n + 1), outputs, 1)
        missing = np.maximum(self.padding - held.sizes, 0)
        owners = np.concatenate((held.owners, np.repeat(np.arange(n), missing)))
        numbers = np.arange(missing.sum()) - np.repeat(np.cumsum(missing) - missing, missing)
        order = np.argsort(owners, kind="stable")
        symbols = np.concatenate((held.symbols, self.symbols + self._apart * numbers))[order]
        offsets = np.concatenate(([0], np.cumsum(held.sizes + missing)))
        return Arcs.of(self.scheme.bucket_many(self.seeds_of(words)[owners[order]], symbols), offsets, outputs, 1)

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (self.groups, self.channel.outputs) if self.groups else super().tally_shape

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        if not self.groups:
            return self.by_label(self.scheme.count_answers(words, payloads, self.symbols))
        cells = self.cohorts_of(words) * self.channel.outputs + payloads
        return np.bincount(cells, minlength=self.groups * self.channel.outputs).reshape(self.tally_shape)

    def draw_tally(self, records: Records, coins: Coins, draws: CountDraws) -> Integers:
        """Direct mode only: one of three states of a key is marked and told, as in KVUE, with a row for every key."""
        channel, keys = self.channel, self.cohorts_of(coins.words(records.n))
        rows = (tuple(channel.high if out == state else channel.low for out in range(3)) for state in range(3))
        return draw_outputs(Table(tuple(rows)), states_by_key(records, keys, self.labels, coins), draws).T

    def supports(self, tally: Tally) -> Integers:
        counts = self._own(tally)
        if self.direct:
            return counts[:, 1:].T
        if not self.groups:
            return counts
        return self.by_label(self.scheme.count_tables(self.cohort_seeds, counts, self.symbols))

    def respondents(self, tally: Tally) -> Integers:
        return self._own(tally).sum(axis=1) if self.direct else super().respondents(tally)

    @cached_property
    def odds(self) -> Sequence[tuple[Keys, Odds]]:
        alone = Odds(self.channel.hit, self.channel.miss, Fraction(0), Fraction(0))
        return [(slice(None), alone if self.direct else self.cover.odds)]

    @property
    def exclusive(self) -> bool:
        return self.direct

    @property
    def title(self) -> str:
        return "topsel in direct mode" if self.direct else "topsel with padding" if self.padding else self.name

    def dependence(self, population: bool = False) -> Dependence:
        return ONE_KEY.of_sets(population) if self.direct else super().dependence(population)

    def constraint(self, estimates: Estimates) -> Constraint:
        """The law of sizes has a mean; padded sets, of which the law may be a guess, only a largest size."""
        law = self.cover.law
        if self.padding:
            return Constraint(most=float(law.largest))
        return Constraint(total=law.mean, most=law.mean)

    def solve(self, tally: Tally, population: bool) -> Solution:
        solution = super().solve(tally, population)
        if self.direct or not tally.reports:
            return solution
        if self.groups:
            solution = self._with_cohorts(solution)
        return _refined(solution, self.cover) if self.refine else solution

    def _with_cohorts(self, solution: Solution) -> Solution:
        """Adds the variance of shared seeds: symbols that meet in one report of a cohort meet in all of them."""
        spread, meeting, sharing = solution.spread, self.cover.meeting, self.cover.sharing
        held = float(solution.frequency.sum())
        dummies = max(self.padding - held, 0.0)  # per person; at worst everybody has the same ones
        squares = solution.frequency**2 - spread.frequency + solution.product**2 - spread.product
        uneven = float(squares.sum()) / 2 + dummies
        if isinstance(self.scheme, Partition):  # in equal buckets, what one symbol meets more another meets less
            uneven -= (held + dummies) ** 2 / self.scheme.symbols
        common = 2 * max(uneven, 0.0) * meeting / self.groups
        wider = Spread(
            spread.frequency + common / (1 + sharing - 2 * meeting),
            spread.product + common / (1 - sharing),
            spread.covariance,
        )
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
