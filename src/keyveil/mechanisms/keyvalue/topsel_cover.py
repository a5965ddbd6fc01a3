"""TopSel in cover mode: a public seed puts symbols into buckets, and those that hold one of the person are marked.

Derivation: docs/mechanisms/topsel.md.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.epsilon import levels
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.public import public_index, public_word
from keyveil.core.tally import Tally
from keyveil.kernels.arcs import Arcs
from keyveil.kernels.buckets import Partition
from keyveil.kernels.public_cells import PublicCells
from keyveil.kernels.sign_hash import SignHash
from keyveil.kernels.siphash import siphash_many
from keyveil.kernels.threads import threads_for
from keyveil.mechanisms.announcements import CalibratedOnDevice, accepted_forms
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.families.cover import Cover, Given, Scheme, best_cover, best_kappa
from keyveil.mechanisms.families.key_value import refused
from keyveil.mechanisms.families.set_response import Held, Integers, Keys, Odds
from keyveil.mechanisms.keyvalue.topsel import REDUCED_SEEDS, TopSel
from keyveil.mechanisms.responses import Floats, Solution, Spread
from keyveil.mechanisms.size_law import SizeLaw
from keyveil.mechanisms.totals import Constraint

if TYPE_CHECKING:
    from keyveil.mechanisms.effects import Effects
    from keyveil.mechanisms.reach import Reach, Reachable

MOST_COHORTS = 1 << 16
MOST_COUNTS = 1 << 23  # cohorts times buckets: a tally of 64 MB
MOST_STEPS = 1 << 14  # to count a report under a seed of its own: some twenty microseconds
SPARSE = 0.02  # mean size per key up to which keys are as good as independent of each other
REDUCED_BUCKETS, REDUCED_MARKS = 4, 2
HASHINGS = ("partition", "hash")
STEPS_OF_A_PERSON = 100  # hashes that take as long as a person in other bulk work, for the number of threads
STEPS = 3  # of the fixed point in ``refine``


@dataclass(frozen=True)
class TopSelCover(CalibratedOnDevice, TopSel):
    """Seeded buckets of symbols: those that hold a symbol of the person are marked. Sets are covered whole."""

    @classmethod
    def options_for_sizes(cls, law: SizeLaw, cap: int, keys: int) -> dict[str, Any]:
        """The law itself: where sets are dense, the padding follows from it."""
        return {"set_sizes": law.rounded}

    def chosen(self) -> dict[str, Any]:
        if self.set_sizes is None and not self.padding:
            raise refused("topsel needs the law of set sizes, such as sizes=5 or sizes=1:0.2,2:0.8, or a padding.")
        law = SizeLaw.read(self.padding if self.set_sizes is None else self.set_sizes)
        dense = len(law.shares) > 1 and law.mean > SPARSE * self.schema.d
        padding = self.padding if self.padding is not None else law.largest if dense else 0
        if not 0 <= padding <= self.schema.d or not 1 <= law.largest <= self.schema.d:
            raise refused(f"topsel takes sizes and a padding up to {self.schema.d}, the number of keys.")
        if dense and padding < law.largest:
            raise MechanismError(
                "mechanism/dense",
                f"Sets of several sizes with more than {SPARSE:.0%} of the keys on average must be padded to the "
                f"largest, {law.largest}, or topsel is biased: leave padding out, or take kvue, ssr or wheel.",
            )
        if self.buckets is not None and not 2 <= self.buckets <= self.symbols + padding:
            raise refused(f"topsel takes from 2 to {self.symbols + padding} buckets, not {self.buckets}.")
        if self.marked is not None and self.marked < 1:
            raise refused(f"topsel marks at least one bucket, not {self.marked}.")
        if self.hashing not in (None, *HASHINGS) or (self.kappa is not None and self.hashing == "partition"):
            raise refused(f"topsel takes hashing={'|'.join(HASHINGS)}, and kappa with a hash only.")
        if self.kappa is not None and not 0 <= self.kappa < 1:
            raise refused(f"topsel takes a kappa from 0 to below 1, not {self.kappa}.")
        way = Given(self.hashing if self.kappa is None else "hash", self.kappa)
        cover = best_cover(self.schema.d, padding, law, self._gain, self.buckets, self.marked, way)
        buckets, hashed = cover.scheme.buckets, isinstance(cover.scheme, SignHash)
        steps, cohorts = cover.scheme.steps(self.symbols), self.cohorts
        alone = steps == 1  # every symbol has its own bucket, and there is nothing to seed
        if cohorts is None:
            cohorts = 1 if alone else 0 if steps <= MOST_STEPS else min(MOST_COHORTS, MOST_COUNTS // buckets)
        if not 0 <= cohorts <= max(1, MOST_COUNTS // buckets) or (alone and not cohorts):
            raise refused(f"topsel takes up to {MOST_COUNTS // buckets} cohorts of {buckets} buckets, not {cohorts}.")
        return {
            "set_sizes": str(law),
            "padding": padding,
            "buckets": buckets,
            "marked": cover.marked,
            "hashing": HASHINGS[hashed],
            "kappa": (way.kappa if way.kappa is not None else best_kappa(buckets)) if hashed else None,
            "cohorts": cohorts,
            "refine": len(law.shares) > 1 and not padding if self.refine is None else self.refine,
        }

    def reduced(self) -> Self:
        buckets = min(self.channel.outputs, REDUCED_BUCKETS)
        return replace(
            self,
            schema=self.few_keys,
            set_sizes="1",
            padding=min(self.padded, REDUCED_MARKS),
            buckets=buckets,
            marked=min(self.channel.marked, REDUCED_MARKS, buckets - 1),
            cohorts=min(self.groups, REDUCED_SEEDS),
        )

    # -- announcements ------------------------------------------------------------------------------------------

    def announced(self) -> frozenset[str]:
        """The law of set sizes, and all that is chosen by it."""
        return frozenset({"set_sizes", "padding", "buckets", "marked", "hashing", "kappa", "cohorts", "refine"})

    def announced_forms(self) -> Sequence[Mechanism]:
        """Every number of buckets and marks, without padding and with most, for both ways into the buckets."""
        buckets = range(2, self.channel.outputs + 1)
        ways: list[dict[str, list[Any]]] = [
            {"hashing": ["partition"], "kappa": [None]},
            {"hashing": ["hash"], "kappa": [Fraction(9, 10)]},
        ]
        return [
            form
            for way in ways
            for form in accepted_forms(self, buckets=buckets, marked=buckets, padding=(0, self.schema.d), **way)
        ]

    # -- buckets ------------------------------------------------------------------------------------------------

    @cached_property
    def scheme(self) -> Scheme:
        """The way into the buckets."""
        (scheme,) = Given(self.hashing, self.kappa).schemes(self.channel.outputs, self.symbols + self.padded)
        return scheme

    @property
    def _gain(self) -> float:
        return float(Fraction(*levels(self.epsilon)) - 1)

    @cached_property
    def cover(self) -> Cover:
        return Cover(self.scheme, self.channel.marked, self.padded, SizeLaw.read(self.set_sizes), self._gain)

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

    @property
    def _apart(self) -> int:
        """From one dummy to the next: those that are hashed must not be two signs of a key."""
        return 2 if self.hashing == "hash" else 1

    def hits(self, held: list[int], word: int) -> list[int]:
        dummies = (self.symbols + self._apart * number for number in range(self.padded - len(held)))
        seed, scheme = self.seed_of(word), self.scheme
        return sorted({scheme.bucket(seed, symbol) for symbol in (*held, *dummies)})

    def hits_many(self, held: Held, words: NDArray[np.uint64]) -> Arcs:
        missing = np.maximum(self.padded - held.sizes, 0)
        owners = np.concatenate((held.owners, np.repeat(np.arange(held.n), missing)))
        numbers = np.arange(missing.sum()) - np.repeat(np.cumsum(missing) - missing, missing)
        order = np.argsort(owners, kind="stable")
        symbols = np.concatenate((held.symbols, self.symbols + self._apart * numbers))[order]
        offsets = np.concatenate(([0], np.cumsum(held.sizes + missing)))
        buckets = self.scheme.bucket_many(self.seeds_of(words)[owners[order]], symbols)
        return Arcs.of(buckets, offsets, self.channel.outputs, 1)

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return super().tally_shape if self.groups else (self.labels.count, self.schema.d)

    @property
    def public_cells(self) -> PublicCells | None:
        return super().public_cells if self.groups else None

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        if self.groups:
            return super().fold(payloads, words)
        return self.by_label(self.scheme.count_answers(words, payloads, self.symbols))

    def supports(self, tally: Tally) -> Integers:
        counts = self._own(tally)
        if not self.groups:
            return counts
        asked, known = self._last_supports.get("last", (None, None))
        if asked is None or asked() is not tally or known is None:
            threads = threads_for(self.groups * self.symbols // STEPS_OF_A_PERSON)
            known = self.by_label(self.scheme.count_tables(self.cohort_seeds, counts, self.symbols, threads))
            known.flags.writeable = False  # whoever asks again gets the same array
            self._last_supports["last"] = weakref.ref(tally), known
        return known

    @cached_property
    def _last_supports(self) -> dict[str, tuple[weakref.ref[Tally], Integers]]:
        """The supports of the tally that was asked about last: counts are read-only, so they stay what they are."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        """For another process, where that tally is not: a weak reference cannot be sent there."""
        return {name: value for name, value in vars(self).items() if name != "_last_supports"}

    @cached_property
    def odds(self) -> Sequence[tuple[Keys, Odds]]:
        return [(slice(None), self.cover.odds)]

    @property
    def exclusive(self) -> bool:
        return False

    @property
    def most_labels(self) -> int:
        """Both signs of a key may share a bucket, unless every symbol has its own or the hash keeps them apart."""
        alone = self.channel.outputs >= self.symbols + self.padded if self.hashing == "partition" else not self.kappa
        return 1 if alone else 2

    @property
    def title(self) -> str:
        return "topsel with padding" if self.padded else self.name

    def constraint(self, estimates: Estimates) -> Constraint:
        """The law of sizes has a mean; padded sets, of which the law may be a guess, only a largest size."""
        law = self.cover.law
        if self.padded:
            return Constraint(most=float(law.largest))
        return Constraint(total=law.mean, most=law.mean)

    def solve(self, tally: Tally, population: bool) -> Solution:
        solution = super().solve(tally, population)
        if not tally.reports:
            return solution
        if self.groups:
            spread, frequency, product = solution.spread, solution.frequency, solution.product
            squares = frequency**2 - spread.frequency + product**2 - spread.product
            solution = replace(solution, spread=self._with_cohorts(spread, frequency, squares))
        return _refined(solution, self.cover) if self.refine else solution

    def report_effects(self, tally: Tally) -> list[Effects]:
        """Refined estimates are scaled by what follows from the frequency itself."""
        plain = super().report_effects(tally)
        if not self.refine or not tally.reports:
            return plain
        unrefined = super().solve(tally, False)
        slope = _refined_slope(unrefined, self.cover)
        return [one.scaled(*slope, fixed=False) for one in plain]

    def reachable(self, tally: Tally, of: Callable[[Mechanism, Tally], Reachable]) -> Reachable | None:
        """Refined estimates follow step by step from those that were not; there is nothing else to say of these."""
        if not self.refine or not tally.reports:
            return None
        other = replace(self, refine=False)
        plain = of(other, Tally(other.fingerprint, tally.reports, tally.counts))
        return lambda leave, come: _refined_reach(plain(leave, come), self.cover)

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        """At the law of set sizes that the mechanism was given, which people's ``sizes`` should be."""
        spread = super().predicted_spread(frequency, mean, sizes, n, population)
        if self.groups:
            spread = self._with_cohorts(spread, frequency, frequency**2 * (1 + mean**2))
        if not self.refine:
            return spread
        _, own_gain = _of_own_people(self.cover, frequency)
        return _scaled(spread, _gain_of(self.cover) / own_gain)

    def _with_cohorts(self, spread: Spread, frequency: Floats, squares: Floats) -> Spread:
        """Adds the variance of shared seeds: symbols that meet in one report of a cohort meet in all of them.

        ``squares`` are f² + (f·m)² per key.
        """
        meeting, sharing = self.cover.meeting, self.cover.sharing
        held = float(frequency.sum())
        dummies = max(self.padded - held, 0.0)  # per person; at worst everybody has the same ones
        uneven = float(squares.sum()) / 2 + dummies
        if isinstance(self.scheme, Partition):  # in equal buckets, what one symbol meets more another meets less
            uneven -= (held + dummies) ** 2 / self.scheme.symbols
        common = 2 * max(uneven, 0.0) * meeting / self.groups
        return Spread(
            spread.frequency + common / (1 + sharing - 2 * meeting),
            spread.product + common / (1 - sharing),
            spread.covariance,
        )


def _refined(solution: Solution, cover: Cover) -> Solution:
    """Estimates with the constants of a key's own people: those of others are smaller by the key, if it is common."""
    gain = _gain_of(cover)
    reported = solution.frequency * gain + 2 * cover.supports().other
    frequency = solution.frequency
    for _ in range(STEPS):
        other, own_gain = _of_own_people(cover, np.clip(frequency, 0, 1))
        frequency = (reported - 2 * other) / own_gain
    scale = gain / own_gain
    return Solution(frequency, solution.product * scale, _scaled(solution.spread, scale))


def _refined_slope(solution: Solution, cover: Cover) -> tuple[Floats, Floats]:
    """By how much refined f and f·m move where those that were not refined move a little."""
    little = 1e-6
    here, there = (
        _refined(replace(solution, frequency=solution.frequency + step), cover) for step in (-little / 2, little / 2)
    )
    own_gain = _of_own_people(cover, np.clip(here.frequency, 0, 1))[1]
    return (there.frequency - here.frequency) / little, _gain_of(cover) / own_gain


def _refined_reach(plain: Reach, cover: Cover) -> Reach:
    """The limits of refined estimates: in every step both numbers are monotone in the clipped frequency."""
    from keyveil.mechanisms.reach import Interval  # devices do not need it

    gain, other = _gain_of(cover), cover.supports().other
    frequency, scales = plain.frequency, np.ones((2, len(plain.frequency.low)))
    for _ in range(STEPS):
        ends, scaled = [], []
        for before in frequency:
            others, own_gain = _of_own_people(cover, np.clip(before, 0, 1))
            ends += [(edge * gain + 2 * other - 2 * others) / own_gain for edge in plain.frequency]
            scaled.append(gain / own_gain)
        frequency, scales = Interval(np.min(ends, axis=0), np.max(ends, axis=0)), np.array(scaled)
    corners = np.array([edge * scale for edge in plain.product for scale in scales])
    error, product_error = (one * scales.max(axis=0) for one in plain.errors)
    product, total = Interval(corners.min(axis=0), corners.max(axis=0)), (frequency.low.sum(), frequency.high.sum())
    made = replace(
        plain,
        frequency=frequency,
        product=product,
        means=lambda: made.quotient(),
        total=(float(total[0]), float(total[1])),
        errors=(error, product_error),
    )
    return made


def _of_own_people(cover: Cover, frequency: Floats) -> tuple[Floats, Floats]:
    """How often a symbol is supported by others, and how much more often by its holders, at a key's frequency."""
    plain, moved = cover.supports(), cover.supports(moved=1)
    other = plain.other + frequency * (moved.other - plain.other)
    return other, plain.own + frequency * (moved.own - plain.own) - other


def _gain_of(cover: Cover) -> float:
    own, other = cover.supports()
    return own - other


def _scaled(spread: Spread, scale: Floats) -> Spread:
    return Spread(*(part * scale**2 for part in spread))
