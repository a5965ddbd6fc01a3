"""A round of PrivKVM*: randomised response on the state of one key, absent or one of 2g labels of its value.

A label is a cell of the range and one of its ends, drawn so that the ends of a value average to it: the counts of
labels give histograms, and means without the bias of cells. With one cell this is KVUE. Published with separate
budgets for key and label, which is worse at the same ε. Derivation: docs/protocols.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.core.errors import MechanismError, ProtocolError
from keyveil.core.estimates import Estimates
from keyveil.core.histogram import Histogram
from keyveil.core.public import public_index, public_indices, public_words_covering
from keyveil.core.schema import GRID, Schema
from keyveil.core.tally import Tally
from keyveil.kernels.public_cells import PublicCells
from keyveil.mechanisms.announcements import CalibratedOnDevice
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import PredictedVariance, ReportEffects, SupportRates
from keyveil.mechanisms.encoders import Labels, UniformKey
from keyveil.mechanisms.evidence import Observed, combined
from keyveil.mechanisms.families.key_value import REDUCED_KEYS
from keyveil.mechanisms.families.one_key import OneState
from keyveil.mechanisms.families.set_response import Odds
from keyveil.mechanisms.responses import Floats, Response, support_counts

MOST_BINS = 128
REDUCED_BINS = 3


@dataclass(frozen=True)
class EndLabels(Labels):
    """Label 2·cell + (0 for the lower end, 1 for the upper), without bias."""

    bins: int = 1

    @property
    def count(self) -> int:
        return 2 * self.bins

    def draw(self, value: int, coins: Coins, key: int = 0) -> int:
        place = (GRID + value) * self.bins
        cell = min(place // (2 * GRID), self.bins - 1)
        return 2 * cell + coins.chance(place - 2 * GRID * cell, 2 * GRID)

    def draw_many(
        self, values: NDArray[np.int32], coins: Coins, keys: NDArray[np.integer[Any]] | None = None
    ) -> NDArray[np.int64]:
        places = (GRID + values.astype(np.int64)) * self.bins
        cells = np.minimum(places // (2 * GRID), self.bins - 1)
        upper = coins.below_many(2 * GRID, len(values)) < places - 2 * GRID * cells
        labels: NDArray[np.int64] = 2 * cells + upper
        return labels

    @property
    def ends(self) -> tuple[int, ...]:
        """The value of every label, in cells from the middle of the range."""
        return tuple(2 * (label // 2 + label % 2) - self.bins for label in range(self.count))


@dataclass(frozen=True)
class AmongKeys(UniformKey):
    """Every report speaks about one of some keys."""

    among: tuple[int, ...]

    def key(self, word: int) -> int:
        return self.among[public_index(word, len(self.among))]

    def keys(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return np.asarray(self.among, dtype=np.int64)[public_indices(words, len(self.among))]

    def every_word(self) -> list[int]:
        return public_words_covering(len(self.among))


@dataclass(frozen=True)
class LabelRound(CalibratedOnDevice, OneState):
    """The true state of a key has weight e^ε, each of the 2·``bins`` others weight 1.

    ``keys`` are the places of the keys that reports are about, announced by the collector; nothing means all.
    """

    bins: int = 1
    keys: tuple[int, ...] = ()

    name: ClassVar[str] = "label-round"
    unit_counts: ClassVar[bool] = True

    @property
    def lacks(self) -> frozenset[type]:
        """Rounds are read together, by their evidence."""
        return super().lacks | {SupportRates, PredictedVariance, ReportEffects}

    def validate(self) -> None:
        if not 1 <= self.bins <= MOST_BINS:
            raise MechanismError("mechanism/option", f"Values have from 1 to {MOST_BINS} cells, not {self.bins}.")
        keys: object = self.keys  # in a document anything may stand here
        named = isinstance(keys, list | tuple) and all(isinstance(key, int) for key in keys)
        if not named or not set(self.keys) <= set(range(self.schema.d)) or list(self.keys) != sorted(set(self.keys)):
            raise ProtocolError(
                "protocol/broadcast", f"A broadcast names some of the {self.schema.d} keys, each once and in order."
            )
        if len(self.keys) == self.schema.d:
            object.__setattr__(self, "keys", ())

    @cached_property
    def labels(self) -> EndLabels:
        return EndLabels(self.bins)

    @cached_property
    def encoder(self) -> UniformKey:
        return AmongKeys(self.schema.d, self.keys) if self.keys else UniformKey(self.schema.d)

    @property
    def public_cells(self) -> PublicCells | None:
        return super().public_cells if not self.keys else None

    @property
    def signs(self) -> Sequence[int]:
        return (0, *self.labels.ends)

    @cached_property
    def response(self) -> Response:
        raise MechanismError("mechanism/no-response", "Labels of different cells vary differently; read the evidence.")

    def reduced(self) -> Self:
        small = replace(self, bins=min(self.bins, REDUCED_BINS))
        return small if self.schema.d <= REDUCED_KEYS else replace(small, schema=Schema(keys=REDUCED_KEYS), keys=())

    # -- announcements ------------------------------------------------------------------------------------------

    def announced(self) -> frozenset[str]:
        return frozenset({"keys"})

    def announced_forms(self) -> Sequence[Mechanism]:
        """The first keys, from none (which stands for all) to all but one."""
        return [replace(self, keys=tuple(range(count))) for count in range(self.schema.d)]

    # -- estimates ----------------------------------------------------------------------------------------------

    def observed(self, tally: Tally) -> Observed:
        """The counts with what they mean, to be added to those of other rounds."""
        own, other = (float(self.channel.probability(0, output)) for output in (0, 1))
        return Observed(
            counts=self._own(tally),
            supports=self.supports,
            signs=self.signs,
            seen=own + (self.labels.count - 1) * other,
            slope=(own - other) * self.bins,
            fake=self.labels.count * other,
            made_up=0.0,  # the ends of all labels cancel
        )

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        solution, respondents = combined([self.observed(tally)], tally.reports, population)
        return solution.estimates(
            self.header(tally.reports, confidence, population),
            respondents=respondents,
        )

    def cell_odds(self) -> Sequence[Odds]:
        """A cell is told by either of its ends, and no report tells two cells."""
        own, other = (self.channel.probability(0, output) for output in (0, 1))
        return (Odds(own + other, 2 * other, Fraction(0), Fraction(0)),) * self.schema.d

    def histogram(self, tally: Tally, population: bool = False) -> Histogram:
        """The share of people in every cell: both ends of it."""
        counts = self._own(tally)
        own, other = self.channel.probability(0, 0), self.channel.probability(0, 1)
        cells = counts[1:].reshape(self.bins, 2, -1).sum(axis=1)
        cell = support_counts(own + other, 2 * other)
        return cell.histogram(self.schema, tally.reports, counts.sum(axis=0), cells.T, population)

    def cell_means(self, tally: Tally) -> Floats:
        """The mean of the values within every cell [d, cells], on [-1, 1]; NaN where nobody seems to be."""
        counts = self._own(tally)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = counts[1:] / counts.sum(axis=0) - float(self.channel.probability(0, 1))
            ends = np.asarray(self.labels.ends)[:, None] / self.bins
            held = shares.reshape(self.bins, 2, -1).sum(axis=1)
            means: Floats = np.where(held > 0, (shares * ends).reshape(self.bins, 2, -1).sum(axis=1) / held, np.nan)
        return means.T
