"""Block: the states of a few neighbouring keys at once, by randomised response over all their combinations.

A key is absent or at one of some levels of its value. For collections in which most people hold most keys: from ε = 3
on one report tells more about several keys together than about one, and it tells how these keys depend on each other.
With a width of one and three states it is KVUE. Derivation: docs/mechanisms/block.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.public import public_index, public_indices, public_words_covering
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.schema import GRID, Schema
from keyveil.core.tally import Tally
from keyveil.kernels.held import values_of
from keyveil.kernels.public_cells import PublicCells
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.capabilities import CountDraws, JointStatistics, KeyDependence
from keyveil.mechanisms.categorical.grr import GRR
from keyveil.mechanisms.dependence import ONE_KEY, Dependence
from keyveil.mechanisms.effects import Average, Effects, asked
from keyveil.mechanisms.encoders import round_many, round_to
from keyveil.mechanisms.families.key_value import (
    FREQUENCIES,
    FREQUENCIES_AND_MEANS,
    REDUCED_KEYS,
    refused,
)
from keyveil.mechanisms.families.through_oracle import ThroughOracle
from keyveil.mechanisms.joint.ranks import Ints
from keyveil.mechanisms.joint.state_tables import answer_from_states, effects_of_states, needed
from keyveil.mechanisms.joint.statistics import JointAnswers, Statistic
from keyveil.mechanisms.report_laws import Asked
from keyveil.mechanisms.responses import FEWEST, Floats, Response, Solution, Spread, support_counts
from keyveil.mechanisms.tally_laws import people_by

STATES, WIDTHS = (3, 4, 5), range(1, 9)  # among which a form is chosen
MOST_STATES = 5
MOST_CELLS, MOST_WIDTH = 1 << 20, 20  # combinations of states, and keys, of which each has two states or more
MOST_COUNTS = 1 << 23  # 64 MB
REDUCED_WIDTH = 2


class Form(NamedTuple):
    """How many keys a report tells of, and how many states each may have."""

    width: int
    states: int

    @property
    def cells(self) -> int:
        """Combinations of states."""
        return int(self.states**self.width)

    @property
    def levels(self) -> Floats:
        """The value of each state, on [-1, 1]; 0 for absent, the first."""
        return np.concatenate(([0.0], np.linspace(-1, 1, self.states - 1) if self.states > 2 else [0.0]))

    def square(self, value: Floats) -> Floats:
        """The mean square of a value that is rounded to one of the two levels around it."""
        place = (value + 1) * (self.states - 2) / 2
        below = np.minimum(np.floor(place), max(self.states - 3, 0)).astype(np.int64)
        low, high = self.levels[1 + below], self.levels[np.minimum(2 + below, self.states - 1)]
        result: Floats = low**2 + (place - below) * (high**2 - low**2)
        return result

    def spread(
        self, kept: float, frequency: Floats, product: Floats, square: Floats, asked: Floats, these: int
    ) -> Spread:
        """Variances at true f, U = f·m and mean square of values per person, from ``asked`` reports about a key.

        ``these`` is the number of people if they are the target, 0 for a sample of a population. What lies between
        people is taken off then, with values as constant among holders: their spread could only take more off.
        """
        absent, reports = (1 - kept) / self.states + kept * (1 - frequency), kept**2 * asked
        told = kept * square + (1 - kept) * (self.levels**2).mean()
        known = 1 / these if these else 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            between = np.where(frequency > 0, product**2 / frequency, 0.0) - product**2
        return Spread(
            absent * (1 - absent) / reports - known * frequency * (1 - frequency),
            (told - (kept * product) ** 2) / reports - known * between,
            kept * product * absent / reports - known * product * (1 - frequency),
        )


def best_form(d: int, epsilon: Fraction, width: int | None, states: int | None) -> Form:
    """The form with the least Var f · (Var U + m²·Var f), m² = 0.1, among those with the given width and states."""
    share, typical, middle = np.array([0.5]), np.array([0.5]), np.zeros(1)

    def score(form: Form) -> float:
        kept = (math.exp(epsilon) - 1) / (math.exp(epsilon) - 1 + form.cells)
        asked = np.array([form.width / d])
        var_f, var_u, _ = form.spread(kept, share, middle, share * form.square(typical), asked, 0)
        return float(var_f[0] * (1.0 if form.states == 2 else var_u[0] + 0.1 * var_f[0]))

    widths = [one for one in WIDTHS if one <= d] if width is None else [width]
    forms = [Form(*one) for one in product(widths, STATES if states is None else [states])]
    most = min(MOST_CELLS, MOST_COUNTS // d)
    few = [form for form in forms if form.width <= MOST_WIDTH and form.cells <= most]
    if not few:
        raise MechanismError(
            "mechanism/too-many-keys",
            f"{forms[0].states}^{forms[0].width} combinations for each of {d:,} keys are too many to count; "
            "take a smaller width.",
        )
    return min(few, key=score)


@dataclass(frozen=True)
class Block(ThroughOracle):
    """The states of ``width`` keys in a row: absent, or one of ``states`` - 1 levels; 2 states tell presence only.

    Chosen for keys that half of the people hold, with values of root mean square one half, unless they are given.
    """

    width: int | None = None
    states: int | None = None

    name: ClassVar[str] = "block"
    unit_counts: ClassVar[bool] = True
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"width": 2}, {"width": 2, "states": 2})

    @property
    def title(self) -> str:
        told = [f"width={self.width}"] * (self.form.width > 1) + ["states=2"] * (self.states == 2)
        return f"{self.name} with {','.join(told)}" if told else self.name

    @property
    def lacks(self) -> frozenset[type]:
        return frozenset({JointStatistics} if self.width == 1 else {KeyDependence})

    def dependence(self, population: bool = False) -> Dependence:
        return ONE_KEY.of_sets(population)

    def validate(self) -> None:
        d = self.schema.d
        if self.states is not None and not 2 <= self.states <= MOST_STATES:
            raise refused(f"block takes from 2 to {MOST_STATES} states of a key, not {self.states}.")
        if self.width is not None and not 1 <= self.width <= d:
            raise refused(f"block takes a width from 1 to {d} keys, not {self.width}.")
        width, states = best_form(d, self.epsilon, self.width, self.states)
        object.__setattr__(self, "width", width)
        object.__setattr__(self, "states", states)

    @property
    def form(self) -> Form:
        assert self.width is not None and self.states is not None
        return Form(self.width, self.states)

    @property
    def estimated(self) -> frozenset[str]:
        return FREQUENCIES if self.states == 2 else FREQUENCIES_AND_MEANS

    @cached_property
    def inner(self) -> GRR:
        """Randomised response over all combinations; a combination is the sum of state i times states^i."""
        return GRR(Schema(keys=self.form.cells), self.epsilon)

    @property
    def kept(self) -> float:
        """How often a report is the truth for another reason than chance."""
        return self.inner.response.gain

    def every_word(self) -> list[int]:
        return public_words_covering(self.schema.d)

    def every_value(self, key: int = 0) -> Sequence[int]:
        """One value at each level, or as near as the grid has one."""
        steps = self.form.states - 2
        return (0,) if steps == 0 else tuple(2 * GRID * level // steps - GRID for level in range(steps + 1))

    @property
    def sizes(self) -> dict[str, int]:
        return {"keys": self.schema.d, "width": self.form.width}

    def reduced(self) -> Self:
        d, width = min(self.schema.d, REDUCED_KEYS), min(self.form.width, REDUCED_WIDTH)
        return self if (d, width) == (self.schema.d, self.width) else replace(self, schema=Schema(keys=d), width=width)

    # -- device and bulk ----------------------------------------------------------------------------------------

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        d, (width, states) = self.schema.d, self.form
        held, first, cell = dict(pairs), public_index(word, d), 0
        for place in reversed(range(width)):
            value, state = held.get((first + place) % d), 0
            if value is not None:
                state = 1 + (round_to(value, states - 2, coins) if states > 2 else 0)
            cell = states * cell + state
        return self.inner.respond([(cell, 0)], word, coins)

    def cells_of(self, records: Records, first: Ints, coins: Coins) -> Ints:
        """Draws everybody's levels: the combination of every person in the block that begins with the given key."""
        d, (width, states) = self.schema.d, self.form
        cells = np.zeros(records.n, dtype=np.int64)
        for place in reversed(range(width)):
            held, values = values_of(records, (first + place) % d)
            levels = 1 + (round_many(values, states - 2, coins) if states > 2 else 0)
            cells = states * cells + np.where(held, levels, 0)
        return cells

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        return self.inner.respond_for(self.cells_of(records, self.first_of(words), coins), words, coins)

    def first_of(self, words: NDArray[np.uint64]) -> Ints:
        """The first key of the block that every report is about."""
        return public_indices(words, self.schema.d)

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    def tally_shape(self) -> tuple[int, ...]:
        """For every first key the counts of all combinations."""
        return (self.schema.d, self.form.cells)

    @property
    def public_cells(self) -> PublicCells:
        return PublicCells(self.form.cells, self.schema.d, by_answer=1, by_index=self.form.cells)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return people_by(self.first_of(words), payloads.astype(np.int64), *self.tally_shape)

    def draw_tally(self, records: Records, coins: Coins, draws: CountDraws) -> NDArray[np.int64]:
        first = self.first_of(coins.words(records.n))
        return self.inner.draw_supports(
            people_by(first, self.cells_of(records, first, coins), *self.tally_shape), draws
        )

    def state_counts(self, tally: Tally) -> Ints:
        """How many reports told each state of each key, [d, states]."""
        return self._pooled(self._own(tally), np.arange(self.schema.d)[:, None])

    def _pooled(self, counts: Ints, keys: Ints) -> Ints:
        """Counts of the states of rows of keys [rows, t] from all blocks that hold them: [rows, states^t].

        The state of a row's first key changes slowest.
        """
        d, (width, states) = self.schema.d, self.form
        rows, size = keys.shape
        found = np.zeros((rows, states**size), dtype=np.int64)
        tables = counts.reshape(d, *[states] * width)  # the last key of a block changes slowest
        if not size:
            return np.full((rows, 1), counts.sum())
        for begin in range(width):  # where in the block the row's first key lies
            first = (keys[:, 0] - begin) % d
            places = (keys - first[:, None]) % d
            inside = np.flatnonzero((places < width).all(axis=1))
            for turn in np.unique(places[inside], axis=0):
                some = inside[(places[inside] == turn).all(axis=1)]
                axes = [width - int(place) for place in turn]
                gone = tuple(axis for axis in range(1, width + 1) if axis not in axes)
                order = np.argsort(np.argsort(axes))
                sums = tables[first[some]].sum(axis=gone).transpose(0, *(1 + order))
                found[some] += sums.reshape(len(some), -1)
        return found

    # -- estimates ----------------------------------------------------------------------------------------------

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        """Every report tells of ``width`` keys out of d; values are taken as constant at the mean."""
        asked = np.full(self.schema.d, n * self.form.width / self.schema.d)
        square = frequency * self.form.square(mean)
        spread = self.form.spread(self.kept, frequency, frequency * mean, square, asked, 0 if population else n)
        return spread if self.states != 2 else spread.of_frequency()

    def solve(self, tally: Tally, population: bool) -> Solution:
        """Unbiased estimates of f and f·m from the counts of states."""
        counts, form, kept = self.state_counts(tally), self.form, self.kept
        asked = counts.sum(axis=1)
        known = self.presence.solve(tally.reports, asked, asked - counts[:, 0], None, population)
        if self.states == 2:
            return known
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = counts / asked[:, None]
            product = shares @ form.levels / kept
            squares = np.clip((shares @ form.levels**2 - (1 - kept) * (form.levels**2).mean()) / kept, 0, 1)
            likely = np.clip(np.nan_to_num(known.frequency), 1 / np.maximum(asked, 1), 1)
            # by chance a product may exceed the frequency, and what lies between people would then swallow the variance
            possible = np.clip(np.nan_to_num(product), -likely, likely)
            spread = form.spread(kept, likely, possible, squares, asked, 0 if population else tally.reports)
            var_u = np.maximum(spread.product, FEWEST / (asked * kept) ** 2)
        return replace(known, product=product, spread=Spread(known.spread.frequency, var_u, spread.covariance))

    def asked_about(self, tally: Tally) -> Asked:
        blocks = (np.arange(self.schema.d)[:, None] + np.arange(self.form.width)) % self.schema.d
        return Asked.evenly(self._own(tally).sum(axis=1), blocks)

    def report_effects(self, tally: Tally) -> list[Effects]:
        """A report tells one state of every key of its block: each state, of all keys."""
        every = np.zeros((self.form.states, *self.tally_shape), dtype=np.int64)
        for state, counts in enumerate(every):
            counts[:, state * sum(self.form.states**place for place in range(self.form.width))] = 1
        people = self.state_counts(tally).sum(axis=1)
        return [asked(self, ((self.schema.d, counts) for counts in every), people)]

    @cached_property
    def presence(self) -> Response:
        """How often a report calls a key present, for its holders and for others."""
        lie = Fraction(1, self.form.states) * (1 - self.inner.channel.hit + self.inner.channel.miss)
        return support_counts(1 - lie, (self.form.states - 1) * lie)

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        return self.solve(tally, population).estimates(
            self.header(tally.reports, confidence, population),
            respondents=self.state_counts(tally).sum(axis=1),
            no_mean=f"{self.title} does not report values." if self.states == 2 else None,
        )

    def answer_jointly(
        self, tally: Tally, keys: Ints, statistics: Sequence[Statistic], population: bool = False
    ) -> JointAnswers:
        """From all blocks that hold the keys of a row; refused if no block holds the keys of any row."""
        if self.states == 2 and any(statistic.values for statistic in statistics):
            raise MechanismError(
                "question/no-values", f"{self.title} does not report values; with more states it does."
            )
        counts, places = self._own(tally), needed(statistics)
        widest = max((list(some) for some in places), key=len)
        if widest and len(keys) and not self._together(keys[:, widest]).any():
            names = ", ".join(self.schema.keys[key] for key in keys[0, widest])
            raise MechanismError(
                "question/not-covered",
                f"No report is about {names} together: {self.title} tells of {self.width} neighbouring keys; "
                "a larger width, marginals or moments could answer.",
            )
        tables = {some: self._pooled(counts, keys[:, list(some)]) for some in places}
        return answer_from_states(tables, self.form.levels, self.kept, statistics, tally.reports, population)

    def joint_effects(self, tally: Tally, keys: Ints, statistic: Statistic) -> list[Average]:
        table = self._pooled(self._own(tally), keys[None, list(statistic.places)])
        return effects_of_states(table, self.form.levels, self.kept, statistic)

    def _together(self, keys: Ints) -> NDArray[np.bool_]:
        """Which rows of keys lie within one block."""
        d, width = self.schema.d, self.form.width
        reach = (keys[:, None, :] - keys[:, :, None]) % d  # of every key, seen from every key of its row
        together: NDArray[np.bool_] = reach.max(axis=2).min(axis=1) < width
        return together
