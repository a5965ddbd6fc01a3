"""KV-SW: every key is silent or says a cell; the sampled one says its value through a square wave (DistKV).

For the distribution of values per key, by EM; frequencies and means come with intervals, but ``ssr`` has less
variance there. Derivation: docs/mechanisms/kv-sw.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio, Table
from keyveil.core.codecs.labelled_keys import LabelledKeys
from keyveil.core.codecs.payloads import Flaws, Payloads
from keyveil.core.coins import Coins
from keyveil.core.epsilon import RESOLUTION, tightest
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.histogram import Histogram, Points
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.tally import Tally
from keyveil.kernels.em import window_em
from keyveil.kernels.reading import count_labels_of
from keyveil.kernels.vectors import count_labels, perturb_labels
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.budget_split import SPLITS, value_budget
from keyveil.mechanisms.capabilities import CountDraws
from keyveil.mechanisms.dependence import ONE_PAIR, Dependence
from keyveil.mechanisms.effects import Effects, of_statistics
from keyveil.mechanisms.encoders import round_many, round_to
from keyveil.mechanisms.families.sampled import REDUCED_PAIRS, Sampled, Split, count_states, others, vector_ratio
from keyveil.mechanisms.families.window import Window, WindowCounts, window
from keyveil.mechanisms.families.window_levels import WindowLevels, points_for_levels, window_levels
from keyveil.mechanisms.numeric.square_wave import bandwidth
from keyveil.mechanisms.report_laws import OnePairRates, SymbolLaws
from keyveil.mechanisms.responses import Response, Solution, Spread, SupportMoments
from keyveil.mechanisms.tally_laws import draw_outputs

Floats = NDArray[np.float64]

REDUCED_KEYS, REDUCED_CELLS = 2, 3
MOST_CELLS, USUAL_CELLS = 4096, 64

SEEN = Fraction(1, 2)
"""How often a sampled pair speaks."""


@dataclass(frozen=True)
class KVSW(Sampled):
    """The sampled key speaks with probability 1/2, any other as rarely as ε allows and with a uniform cell.

    ``cells`` are equidistant points from low to high end; unless given, as many as the levels of the schema need to be
    among them, or 64. The window spends ε (``split="tight"``: best for distributions), ε/2 (``"paper"``: better
    frequencies) or ``value_epsilon``; in each case keys have the rest, and all of ε is used.
    """

    cells: int | None = None
    split: Split = "tight"
    value_epsilon: Fraction | None = None

    name: ClassVar[str] = "kv-sw"
    unsaid: ClassVar[frozenset[str]] = frozenset({"value_epsilon"})

    def validate(self) -> None:
        super().validate()
        self._refuse_unknown("split", *SPLITS)
        _ = self.window_epsilon  # refuses a budget that leaves nothing
        if self.cells is None:
            object.__setattr__(self, "cells", self._lattice or USUAL_CELLS)
        if not 2 <= self.points <= MOST_CELLS:
            raise MechanismError("mechanism/cells", f"kv-sw takes between 2 and {MOST_CELLS} cells, not {self.cells}.")

    @cached_property
    def _lattice(self) -> int | None:
        """Cells that every level is one of, if there are any."""
        return points_for_levels(self.schema, USUAL_CELLS, MOST_CELLS)

    @property
    def points(self) -> int:
        """How many cells there are."""
        assert self.cells is not None
        return self.cells

    @cached_property
    def levels(self) -> WindowLevels | None:
        """How values become cells that are levels; nothing where cells are no levels."""
        if self._lattice is None or self.cells != self._lattice:
            return None
        return window_levels(self.schema, self.points)

    @property
    def window_epsilon(self) -> Fraction:
        """ε₂, what the window spends."""
        return value_budget(self.name, self.epsilon, self.split, self.value_epsilon)

    @cached_property
    def window(self) -> Window:
        epsilon = self.window_epsilon
        return window(self.points, max(1, int(bandwidth(epsilon) * self.points)), epsilon)

    @cached_property
    def fake_threshold(self) -> int:
        """In how many of RESOLUTION draws a key that was not sampled speaks."""
        return tightest(self._ratio, self.epsilon, 1, RESOLUTION // 2)

    @property
    def fake(self) -> Fraction:
        return Fraction(self.fake_threshold, RESOLUTION)

    @property
    def ratio(self) -> Ratio:
        return self._ratio(self.fake_threshold)

    def _ratio(self, threshold: int) -> Fraction:
        fake, channel = Fraction(threshold, RESOLUTION), self.window.channel
        likely, unlikely = (SEEN * share * channel.outputs / fake for share in (channel.hit, channel.miss))
        return vector_ratio(likely, unlikely, SEEN / (1 - fake))

    @property
    def factor(self) -> Table:
        """What one key says (nothing, or a cell) if it is not sampled, or sampled with each cell; large, for labs."""
        channel, places = self.window.channel, range(self.window.outputs)
        cold = 2 * channel.total * self.fake_threshold
        silent, unit = RESOLUTION * channel.total * channel.outputs, RESOLUTION * channel.outputs
        rows = [
            tuple(unit * (channel.high if input <= place < input + channel.marked else channel.low) for place in places)
            for input in range(self.points)
        ]
        return Table(((2 * silent - cold * len(places), *[cold] * len(places)), *((silent, *row) for row in rows)))

    @property
    def codec(self) -> LabelledKeys:
        return LabelledKeys(self.schema.d, self.window.outputs, self.fake)

    @property
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "cells": self.points}

    def reduced(self) -> Self:
        if self.levels is None:
            return replace(self._with_keys(REDUCED_KEYS), cells=min(self.points, REDUCED_CELLS))
        few = self.schema.first(REDUCED_KEYS, REDUCED_CELLS)
        cells = None if few.levels is not None else REDUCED_CELLS
        return replace(self, schema=few, max_pairs=min(self.max_pairs, REDUCED_PAIRS, few.d), cells=cells)

    def every_value(self, key: int = 0) -> Sequence[int]:
        return self.window.every_value() if self.levels is None else self.levels.labels.every_value(key)

    # -- device and bulk ----------------------------------------------------------------------------------------

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        sampled, outputs = self.encoder.draw(pairs, coins), self.window.outputs
        hot = [] if sampled is None else [sampled[0]]
        keys = others(np.flatnonzero(coins.chances(self.fake_threshold, RESOLUTION, self.schema.d - len(hot))), hot)
        said: list[int] = (outputs * keys + coins.below_each(outputs, len(keys))).tolist()
        if sampled is not None and coins.chance(RESOLUTION // 2, RESOLUTION):
            key, value = sampled
            said.append(outputs * key + self._cell(key, value, coins))
        return tuple(sorted(said))

    def _cell(self, key: int, value: int, coins: Coins) -> int:
        if self.levels is None:
            return self.window.draw(round_to(value, self.points - 1, coins), coins)
        return self.window.draw(self.levels.draw(key, value, coins), coins)

    def _inputs(self, keys: NDArray[np.int64], values: NDArray[np.int32], coins: Coins) -> NDArray[np.int64]:
        """The cell that each value is rounded to; any cell where there is no key."""
        if self.levels is None:
            return round_many(values, self.points - 1, coins)
        return self.levels.draw_many(np.maximum(keys, 0), values, coins)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        keys, values = self.encoder.draw_many(records, coins)
        own = self.window.draw_many(self._inputs(keys, values, coins), coins)
        thresholds = RESOLUTION // 2, self.fake_threshold
        return perturb_labels(keys, own, self.schema.d, self.window.outputs, *thresholds, coins)

    def hot_counts(self, records: Records, coins: Coins) -> NDArray[np.int64]:
        """Draws everybody's sampled pair: per key, how many people go through each row of ``factor``."""
        keys, values = self.encoder.draw_many(records, coins)
        states = 1 + self._inputs(keys, values, coins)
        return count_states(keys, states, 1 + self.points, self.schema.d)

    def draw_tally(self, records: Records, coins: Coins, draws: CountDraws) -> NDArray[np.int64]:
        return draw_outputs(self.factor, self.hot_counts(records, coins), draws)[1:]

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (self.window.outputs, self.schema.d)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return count_labels(payloads, self.window.outputs)

    def count_encoded(self, payloads: Payloads, words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], Flaws]:
        """Straight from the bits to counts."""
        return count_labels_of(self.codec, payloads)

    def supported(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        return payloads > 0

    def symbol_laws(self) -> SymbolLaws:
        return self.one_pair_rates().symbol_laws(self.schema.d)

    def one_pair_rates(self) -> OnePairRates:
        return OnePairRates(float(SEEN), float(self.fake), always=False, scale=float(self.max_pairs))

    @cached_property
    def response(self) -> Response:
        """Q is whether a key speaks, T twice the distance of its cell from the middle (0 for silence).

        A holder's E[T²] grows with the square of the value; here it is the largest, as before anybody reports.
        """
        gain, noise, radius = self.window.gain, self.window.noise, self.window.radius
        signed = SEEN * gain * 2 * radius
        sampled = SupportMoments(SEEN, SEEN, signed, 4 * SEEN * (noise + gain * radius**2), signed)
        stranger = SupportMoments(
            self.fake, self.fake, signed_square=self.fake * Fraction(self.window.outputs**2 - 1, 3)
        )
        return Response(sampled.mixed(self.inclusion, stranger), stranger)

    def support_rates(self) -> tuple[Fraction, Fraction]:
        return self.response.rates

    def dependence(self, population: bool = False) -> Dependence:
        return ONE_PAIR.of_sets(population)

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        counts, n = self._own(tally), tally.reports
        steps = 2 * np.arange(self.window.outputs) - (self.window.outputs - 1)
        respondents = np.full(self.schema.d, n, dtype=np.int64)
        solution = self.response.solve(n, respondents, counts.sum(axis=0), steps @ counts, population)
        square = (steps**2 @ counts) / max(n, 1)
        variance = self._variance(solution, square, n, population)
        spread = solution.spread._replace(product=variance)
        return replace(solution, spread=spread).estimates(
            self.header(n, confidence, population),
            respondents=respondents,
        )

    def report_effects(self, tally: Tally) -> list[Effects]:
        """A report says nothing of a key, or a cell of it; the outermost cells say most of values."""
        far = self.window.outputs - 1
        return [of_statistics(self.response, (0, 1, 1), (0, -far, far), np.full(self.schema.d, tally.reports))]

    def _variance(self, solution: Solution, square: Floats, n: int, population: bool) -> Floats:
        """Variance of the estimates of f·m from the recorded mean square of T.

        For a sample it is (E[T²] - E[T]²)/n. For fixed people it is E[T²] less the mean square of everybody's own
        E[T], and the values' mean square follows from E[T²] too; where that is unsure, the smallest is taken.
        """
        signed = float(self.response.holder.signed)
        if population:
            between = (signed * solution.product) ** 2
        else:
            share = np.clip(solution.frequency, 1 / max(n, 1), 1)
            own, other = (float(one.signed_square) for one in (self.response.holder, self.response.stranger))
            least = np.clip(solution.product / share, -1, 1) ** 2
            rounding = 1 / float(2 * self.window.radius) ** 2  # the most that rounding to a cell adds to a square
            values = 1 + ((square - (1 - share) * other) / share - own) / self._per_square - rounding
            between = share * signed**2 * np.clip(values, least, 1)
        return np.maximum(square - between, 0) / (max(n, 1) * signed**2)

    @property
    def _per_square(self) -> float:
        """By how much a holder's E[T²] grows with the square of the value."""
        return float(4 * SEEN * self.inclusion * self.window.gain * self.window.radius**2)

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        """Values are taken as constant at the mean; where they differ, products vary more."""
        spread = super().predicted_spread(frequency, mean, sizes, n, population)
        own, other = (float(one.signed_square) for one in (self.response.holder, self.response.stranger))
        of_holder = own + self._per_square * (self.window.rounded_squares(mean) - 1)
        square = frequency * of_holder + (1 - frequency) * other
        told = Solution(frequency, frequency * mean, spread)
        return spread._replace(product=self._variance(told, square, n, population))

    # -- distributions ------------------------------------------------------------------------------------------

    def window_counts(self, tally: Tally) -> WindowCounts:
        return WindowCounts(
            window=self.window,
            counts=self._own(tally).T,
            seen=float(SEEN),
            fake=float(self.fake),
            scale=float(self.max_pairs),
            respondents=np.full(self.schema.d, tally.reports, dtype=np.int64),
            inputs=None if self.levels is None else self.levels.inputs,
        )

    def distribution(self, tally: Tally, key: str | int | None = None, method: Literal["em", "ems"] = "em") -> Floats:
        """How the values of a key are distributed over ``cells`` equidistant points; [d, cells] if no key is given.

        By EM with the fakes as a component of known law and weight: nothing is subtracted, nothing is negative.
        """
        counts = self._own(tally).T
        if method not in ("em", "ems"):
            raise MechanismError("estimate/method", f"Distributions come by em or ems, not {method!r}.")
        if key is not None:
            counts = counts[[self.schema.place(key)]]
        channel, fake = self.window.channel, float(self.fake)
        speaking = counts.sum(axis=1) / max(tally.reports, 1)
        sampled = np.clip((speaking - fake) / float(SEEN - self.fake), 0, 1)
        weight = (1 - sampled) * fake / (sampled * float(SEEN) + (1 - sampled) * fake)
        uniform = np.full(channel.outputs, 1 / channel.outputs)
        # Smoothing never converges to the likeliest distribution: it has to be stopped while it still gains.
        tolerance = 1e-3 * (channel.high / channel.low if method == "em" else 1)
        shares = window_em(
            counts,
            float(channel.hit),
            float(channel.miss),
            channel.marked,
            (weight, uniform),
            tolerance=tolerance,
            smooth=method == "ems",
        )
        return shares if key is None else shares[0]

    def histogram(self, tally: Tally, population: bool = False) -> Histogram:
        """The distribution by EM times the frequency, over the cells between neighbouring points; errors unknown.

        A value between two points was rounded to one of them, so a point's share belongs half to either side.
        """
        frequency = np.clip(self.estimate(tally).frequency.values, 0, 1)
        shares = self.distribution(tally)
        if self.levels is not None:
            return self._at_levels(shares * frequency[:, None], tally.reports)
        mass = (shares[:, :-1] + shares[:, 1:]) / 2
        mass[:, 0] += shares[:, 0] / 2
        mass[:, -1] += shares[:, -1] / 2
        mass *= frequency[:, None]
        return Histogram(self.schema, mass, np.full_like(mass, np.nan), tally.reports)

    def _at_levels(self, mass: Floats, n: int) -> Histogram:
        """What EM puts on cells that are no level is noise, and left out."""
        assert self.levels is not None
        points = Points.of(self.schema, max(map(len, self.levels.inputs)))
        at_levels = np.zeros(points.at.shape)
        for key, inputs in enumerate(self.levels.inputs):
            at_levels[key, : len(inputs)] = mass[key, list(inputs)]
        return Histogram(self.schema, at_levels, np.full_like(at_levels, np.nan), n, points)
