"""A round of PrivKV with budgets of its own for key and value, and a broadcast fake mean for every key.

In PrivKVM and its relatives the same people answer again and again. A person without the key whose report supports it
makes up a value of the mean that the collector announced before (Ye et al. 2019). The device rounds the announced mean
to a sign itself, so nobody but the device knows what was made up (errata A10). Derivation: docs/protocols.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from operator import index
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio, Table
from keyveil.core.coins import Coins
from keyveil.core.epsilon import RESOLUTION, decimal_text, lie_threshold
from keyveil.core.errors import MechanismError, ProtocolError
from keyveil.core.estimates import Column, Estimates
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.schema import GRID, Schema
from keyveil.core.tally import Tally
from keyveil.kernels.held import values_of
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.capabilities import PredictedVariance, ReportEffects, SupportRates
from keyveil.mechanisms.encoders import are_positive, is_positive, value_of
from keyveil.mechanisms.evidence import Observed, combined
from keyveil.mechanisms.families.key_value import REDUCED_KEYS
from keyveil.mechanisms.families.one_key import OneKey, exact_table, sign_law
from keyveil.mechanisms.ratios import CLIPPED, SHRUNK, biased_means
from keyveil.mechanisms.responses import Floats, Response

OWNER = 2  # states: 0 and 1 make up minus and plus, 2 and 3 hold them


@dataclass(frozen=True)
class PrivKVRound(OneKey):
    """Presence of one key with ``key_epsilon``, the sign of its value with the rest of epsilon.

    ``fake`` has a mean on the grid for every key, announced by the collector; nothing means fair signs.
    """

    key_epsilon: Fraction = Fraction(0)
    fake: tuple[int, ...] = ()

    name: ClassVar[str] = "privkv-round"
    unit_counts: ClassVar[bool] = True

    @property
    def lacks(self) -> frozenset[type]:
        """Rounds are read together, by their evidence."""
        return super().lacks | {SupportRates, PredictedVariance, ReportEffects}

    def validate(self) -> None:
        if not 0 <= self.key_epsilon <= self.epsilon:
            raise MechanismError(
                "mechanism/option",
                f"Keys take between nothing and all of epsilon {decimal_text(self.epsilon)}, "
                f"not {decimal_text(self.key_epsilon)}.",
            )
        object.__setattr__(self, "fake", checked_broadcast(self.schema, self.fake))

    @property
    def estimated(self) -> frozenset[str]:
        return super().estimated if self.key_epsilon else frozenset({"mean"})

    @property
    def value_epsilon(self) -> Fraction:
        return self.epsilon - self.key_epsilon

    @cached_property
    def truths(self) -> tuple[Fraction, Fraction]:
        """The probabilities p₁ and p₂ with which presence and sign are told; exactly 1/2 without a budget."""
        presence, sign = (
            1 - Fraction(lie_threshold(part), RESOLUTION) for part in (self.key_epsilon, self.value_epsilon)
        )
        return presence, sign

    @cached_property
    def channel(self) -> Table:
        """Rows for a sign that is made up, minus and plus, then for one that is held."""
        presence, sign = self.truths
        signs = [sign_law(sign, Fraction(end)) for end in (-1, 1)]
        others = [(presence, *((1 - presence) * share for share in law)) for law in signs]
        holders = [(1 - presence, *(presence * share for share in law)) for law in signs]
        return exact_table((*others, *holders))

    @property
    def supports(self) -> Sequence[int]:
        return (0, 1, 1)

    @property
    def signs(self) -> Sequence[int]:
        return (0, -1, 1)

    @cached_property
    def response(self) -> Response:
        raise MechanismError("mechanism/no-response", "Fakes differ from key to key; read a round by its evidence.")

    # -- privacy ------------------------------------------------------------------------------------------------

    @property
    def ratio(self) -> Ratio:
        """At the given broadcast: a made-up sign is a mixture, and the most one-sided ones tell most."""
        return max(self._mixed(place).ratio for place in {min(self._fakes), max(self._fakes)})

    def announced(self) -> frozenset[str]:
        return frozenset({"fake"})

    def announced_forms(self) -> Sequence[Mechanism]:
        """An announced mean of -1, 0 or 1 for every key."""
        return [replace(self, fake=fakes) for fakes in product((-GRID, 0, GRID), repeat=self.schema.d)]

    def announced_ratio(self) -> Ratio:
        """With an announced mean of ±1, the sign of somebody without the key is certain before it is perturbed."""
        return self.channel.ratio

    def worst_announced(self) -> Mechanism:
        return replace(self, fake=(-GRID,) * self.schema.d)

    def _mixed(self, place: int) -> Table:
        """The table of a key whose fake mean is at this place of the grid."""
        plus = Fraction(GRID + place, 2 * GRID)
        row = [
            (1 - plus) * self.channel.probability(0, output) + plus * self.channel.probability(1, output)
            for output in range(self.outputs)
        ]
        held = [[self.channel.probability(state, output) for output in range(self.outputs)] for state in (2, 3)]
        return exact_table((row, *held))

    @property
    def _fakes(self) -> tuple[int, ...]:
        return self.fake or (0,) * self.schema.d

    def reduced(self) -> Self:
        """Few keys, the most one-sided broadcasts among them."""
        if self.schema.d <= REDUCED_KEYS:
            return self
        fakes = (min(self._fakes), max(self._fakes), self._fakes[0])
        return replace(self, schema=Schema(keys=REDUCED_KEYS), fake=fakes if self.fake else ())

    # -- device and bulk ----------------------------------------------------------------------------------------

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        key = self.encoder.key(word)
        value = value_of(pairs, key)
        if value is None:
            return self.channel.draw(int(is_positive(self._fakes[key], coins)), coins)
        return self.channel.draw(OWNER + is_positive(value, coins), coins)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        keys = self.encoder.keys(words)
        held, values = values_of(records, keys)
        values = np.where(held, values, np.asarray(self._fakes, dtype=np.int32)[keys])
        return self.channel.draw_many(OWNER * held + are_positive(values, coins), coins)

    # -- estimates ----------------------------------------------------------------------------------------------

    def observed(self, tally: Tally) -> Observed:
        """The counts with what they mean, to be added to those of other rounds."""
        presence, sign = (float(truth) for truth in self.truths)
        keep = 2 * sign - 1
        return Observed(
            counts=self._own(tally),
            supports=self.supports,
            signs=self.signs,
            seen=presence,
            slope=presence * keep,
            fake=1 - presence,
            made_up=(1 - presence) * keep * np.asarray(self._fakes) / GRID,
        )

    def mixed_means(self, tally: Tally) -> Floats:
        """The mean of all whose report supports a key, made-up values included, as published; NaN if there are none."""
        _, minus, plus = self._own(tally)
        told, keep = minus + plus, float(2 * self.truths[1] - 1)
        mean: Floats = np.where(told > 0, (plus - minus) / (keep * np.maximum(told, 1)), np.nan)
        return mean

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        """This round alone: unbiased if it has a budget for keys, else the mean that contains made-up values."""
        solution, respondents = combined([self.observed(tally)], tally.reports, population)
        estimates = solution.estimates(
            self.header(tally.reports, confidence, population),
            respondents=respondents,
        )
        if self.key_epsilon:
            return estimates
        mean = self.mixed_means(tally)
        flag = np.where(np.abs(mean) > 1, CLIPPED, SHRUNK)
        return replace(
            estimates,
            respondents=self._own(tally).sum(axis=0),
            frequency=Column.unknown(
                self.schema,
                "A round without a budget for keys does not tell who has them; the first round, kvue and ssr do.",
            ),
            mean=biased_means(self.schema, np.clip(mean, -1, 1), flag),
            product=None,
            product_se=None,
            covariance=None,
        )


def checked_broadcast(schema: Schema, means: Sequence[int]) -> tuple[int, ...]:
    """Announced means, nothing where all are 0; refused unless there is one for each key, between -1 and 1."""
    try:
        means = tuple(index(mean) for mean in means)
    except TypeError:  # in a document anything may stand here
        raise ProtocolError("protocol/broadcast", "A broadcast is a list of whole numbers.") from None
    if means and len(means) != schema.d:
        raise ProtocolError(
            "protocol/broadcast", f"A broadcast has a mean for each of {schema.d} keys, not {len(means)}."
        )
    if any(abs(mean) > GRID for mean in means):
        raise ProtocolError("protocol/broadcast", "A broadcast mean lies between -1 and 1; one of these does not.")
    return means if any(means) else ()


def broadcast(means: Floats) -> tuple[int, ...]:
    """Means as they are announced: on the grid, cut to what a device accepts."""
    return tuple(np.rint(np.clip(np.nan_to_num(means), -1, 1) * GRID).astype(int).tolist())
