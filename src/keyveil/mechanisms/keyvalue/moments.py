"""Sign moments: one bit a report about one public product of presences and at most one value (a Walsh transform).

All questions about up to ``order`` keys together are sums of a few such moments, so conditional frequencies and means
stay within reach for hundreds of keys, where a report about cells would drown. Derivation: docs/mechanisms/moments.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain, combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio, Table, randomised_response
from keyveil.core.codecs.symbols import Symbol
from keyveil.core.coins import Coins
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.schema import GRID, Schema
from keyveil.core.tally import Tally
from keyveil.kernels.held import values_of
from keyveil.kernels.public_cells import add_cells
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.capabilities import CountDraws
from keyveil.mechanisms.effects import Average, Effects, asked
from keyveil.mechanisms.encoders import are_positive, is_positive
from keyveil.mechanisms.families.key_value import FREQUENCIES, REDUCED_KEYS, KeyValue
from keyveil.mechanisms.joint.coefficients import NONE, UNIT, Coefficients, Family, families
from keyveil.mechanisms.joint.ranks import Ints
from keyveil.mechanisms.joint.statistics import (
    Floats,
    JointAnswers,
    Statistic,
    WithProducts,
    both,
    share,
    solution,
    total,
)
from keyveil.mechanisms.report_laws import Asked
from keyveil.mechanisms.responses import Spread
from keyveil.mechanisms.tally_laws import draw_outputs, people_by

MOST_COEFFICIENTS = 1 << 22  # their counts fit into 64 MB
LAWS = ("optimum", "uniform")
MORE = 2
"""Reports of either sign that are added where a variance is read off (Agresti and Coull 1998): of few reports all may
say the same, which does not make the moment certain (tests/mechanisms/keyvalue/test_moments.py)."""


@dataclass(frozen=True)
class Moments(KeyValue):
    """The sign of one moment's product, through randomised response with the whole ε.

    ``order`` is the number of keys that a question may speak about. ``law`` divides the reports among the families of
    moments: optimum for questions about ``order`` keys, uniform, or integer weights of a member of each family in
    order ("4,1,4,1": θ of one and of two keys, then μ alone and with one more key); weights that are uniform or the
    optimum go by that name. Without ``values`` only presences are collected, which triples the reports about them.
    """

    order: int = 2
    law: str = "optimum"
    values: bool = True

    name: ClassVar[str] = "moments"
    unit_counts: ClassVar[bool] = True
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"values": False})

    @property
    def title(self) -> str:
        return self.name if self.values else "moments without values"

    @property
    def estimated(self) -> frozenset[str]:
        return super().estimated if self.values else FREQUENCIES

    def validate(self) -> None:
        d = self.schema.d
        if not 1 <= self.order <= d:
            raise MechanismError("mechanism/option", f"moments take an order from 1 to {d} keys, not {self.order}.")
        # There are at least 2^order - 1 coefficients: of a high order they need not be counted to be too many.
        over = self.order > MOST_COEFFICIENTS.bit_length()
        if over or (count := sum(family.count(d) for family in self.families)) > MOST_COEFFICIENTS:
            many = "too many" if over else f"{count:,}"
            raise MechanismError(
                "mechanism/too-many-keys",
                f"moments of order {self.order} over {d} keys are {many} coefficients; take a lower order.",
            )
        object.__setattr__(self, "law", self._named_law())
        if self.coefficients.total > 1 << 32:
            raise MechanismError("mechanism/option", f"The weights {self.law!r} of moments are too large.")

    def _named_law(self) -> str:
        """The one spelling of the law: a name if there is one, else weights without a common factor."""
        weights, optimum = (_without_factor(self._family_weights(law)) for law in (self.law, "optimum"))
        if max(weights) == 1:
            return "uniform"
        return "optimum" if weights == optimum else ",".join(map(str, weights))

    @property
    def families(self) -> tuple[Family, ...]:
        return families(self.order, self.values)

    @cached_property
    def coefficients(self) -> Coefficients:
        return Coefficients(self.schema.d, self.families, tuple(self._family_weights(self.law)))

    def _family_weights(self, law: str) -> list[int]:
        """The weight of one member of each family."""
        if law == "uniform":
            return [UNIT] * len(self.families)
        if law == "optimum":
            return [family.optimum(self.schema.d, self.order) for family in self.families]
        return _weights(law, len(self.families))

    @cached_property
    def channel(self) -> Table:
        return randomised_response(self.epsilon)

    @property
    def ratio(self) -> Ratio:
        return self.channel.ratio

    @property
    def variation(self) -> Fraction:
        return self.channel.variation

    @property
    def codec(self) -> Symbol:
        return Symbol(2)

    def every_word(self) -> Iterator[int]:
        return self.coefficients.words()

    @property
    def sizes(self) -> dict[str, int]:
        return {"keys": self.schema.d, "order": self.order}

    def reduced(self) -> Self:
        if self.schema.d <= REDUCED_KEYS:
            return self
        order = min(self.order, REDUCED_KEYS)
        law = self.law if order == self.order else "uniform"
        return replace(self, schema=Schema(keys=REDUCED_KEYS), order=order, law=law)

    # -- device and bulk ----------------------------------------------------------------------------------------

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        valued, keys = self.coefficients.keys(self.coefficients.drawn(np.array([word], dtype=np.uint64)))
        held = dict(pairs)
        # A person without the key whose value is wanted reports +1 or -1 with probability 1/2 each: its signal is 0.
        signal = GRID if valued[0] == NONE else held.get(int(valued[0]), 0)
        for key in keys[0].tolist():
            signal = -signal if key in held else signal
        return self.channel.draw(is_positive(signal, coins), coins)

    def signs_of(self, records: Records, ids: Ints, coins: Coins) -> NDArray[np.int64]:
        """Draws everybody's sign of the given coefficient: 1 for plus."""
        valued, keys = self.coefficients.keys(ids)
        _, values = values_of(records, np.maximum(valued, 0))
        signals = np.where(valued == NONE, GRID, values).astype(np.int32)
        for column in keys.T:
            held, _ = values_of(records, np.maximum(column, 0))
            signals = np.where(held & (column != NONE), -signals, signals)
        return are_positive(signals, coins).astype(np.int64)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        return self.channel.draw_many(self.signs_of(records, self.coefficients.drawn(words), coins), coins)

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (2, self.coefficients.count)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        count = self.coefficients.count
        cells = payloads * count + self.coefficients.drawn(words)
        return np.bincount(cells, minlength=2 * count).reshape(self.tally_shape)

    def counts_of_each(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        counts = np.zeros((len(payloads), 2 * self.coefficients.count), dtype=np.int64)
        counts[np.arange(len(counts)), payloads * self.coefficients.count + self.coefficients.drawn(words)] = 1
        return counts.reshape(-1, *self.tally_shape)

    def add(self, counts: NDArray[np.int64], payloads: NDArray[Any], words: NDArray[np.uint64]) -> None:
        cells = payloads * self.coefficients.count + self.coefficients.drawn(words)
        add_cells(counts.reshape(-1), cells, counts.size)

    def draw_tally(self, records: Records, coins: Coins, draws: CountDraws) -> NDArray[np.int64]:
        ids = self.coefficients.drawn(coins.words(records.n))
        signs = self.signs_of(records, ids, coins)
        return draw_outputs(self.channel, people_by(signs, ids, 2, self.coefficients.count), draws)

    def moment(self, tally: Tally, ids: Ints | None = None) -> tuple[Floats, Floats, Ints]:
        """Unbiased moments (all, or those with these ids), their variances for a sample of people, and the reports.

        Reports about different moments come from different people, so the moments of a sample are independent.
        """
        counts = self._own(tally) if ids is None else self._own(tally)[:, ids]
        respondents = counts.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            moments = (counts[1] - counts[0]) / (self._gain * respondents)
            variance = self._variance(moments, respondents)
        return moments, np.where(respondents > 0, variance, np.nan), respondents

    @property
    def _gain(self) -> float:
        return float(2 * self.channel.probability(1, 1) - 1)

    def _variance(self, moments: Floats, respondents: Ints | float) -> Floats:
        """Of the mean answer of so many random people, as if a few more had said either."""
        towards = respondents / (respondents + 2 * MORE)
        each = self._gain**-2 - np.clip(np.nan_to_num(moments * towards), -1, 1) ** 2
        variance: Floats = each / respondents
        return variance

    def answer_jointly(
        self, tally: Tally, keys: Ints, statistics: Sequence[Statistic], population: bool = False
    ) -> JointAnswers:
        """Sums of moments: P[x_Q = β] = 2^-|Q| Σ_{B ⊆ Q} ∏_{i ∈ B} (1 - 2β_i) θ_B, with values likewise.

        No moment tells how the values of two keys go together. For these people, the covariance of two keys' sums of
        values is therefore taken as low as it can be, which makes a difference of means look less certain.
        """
        wanted = WithProducts(statistics, _product)
        self._refuse(wanted.every)
        return _answered(wanted, lambda term: self._column(tally, keys, term), tally.reports, population)

    def asked_about(self, tally: Tally) -> Asked:
        own, ids = self.coefficients, np.arange(self.coefficients.count)
        sizes = np.diff(own.starts)
        shares = np.repeat([own.share(family) for family in self.families], sizes)
        valued, others = own.keys(ids)
        return Asked(self._own(tally).sum(axis=0), shares, np.column_stack((valued, others)))

    def report_effects(self, tally: Tally) -> list[Effects]:
        """Reports about the presence of a key, and those about its value, are averaged apart."""
        count = self.coefficients.count
        signs = np.eye(2, dtype=np.int64)[:, :, None].repeat(count, axis=2)
        keys, nothing = np.arange(self.schema.d)[:, None], np.empty((self.schema.d, 0), dtype=np.int64)
        present = self.moment(tally, self.coefficients.ids(keys, None))[2]
        told = asked(self, ((count, counts) for counts in signs), present)
        if not self.values:
            return [told]
        valued = self.moment(tally, self.coefficients.ids(nothing, keys[:, 0]))[2]
        return [told.scaled(1.0, 0.0, fixed=True), replace(told.scaled(0.0, 1.0, fixed=True), people=valued)]

    def joint_effects(self, tally: Tally, keys: Ints, statistic: Statistic) -> list[Average]:
        """Every moment is an average of its own, of ±1/gain."""
        found = []
        for term, weight in _weights_of(statistic).items():
            if term != (None, ()):  # everybody
                people = self._column(tally, keys[None, :], term)[2]
                found.append(Average(int(people[0]), -abs(weight) / self._gain, abs(weight) / self._gain))
        return found

    def _column(self, tally: Tally, keys: Ints, term: Term) -> MomentColumn:
        place, subset = term
        if place is None and not subset:
            return _certain(len(keys), tally.reports)
        ids = self.coefficients.ids(keys[:, list(subset)], None if place is None else keys[:, place])
        return self.moment(tally, ids)

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        """From the share of reports about the moment of each key; values are taken as constant at the mean."""

        def column(term: Term) -> MomentColumn:
            place, subset = term
            if place is None and not subset:
                return _certain(len(frequency), n)
            moments = 1 - 2 * frequency if place is None else frequency * mean
            respondents = n * self.coefficients.share(Family(place is not None, len(subset)))
            people = np.full(len(frequency), round(respondents), dtype=np.int64)
            return moments, self._variance(moments, respondents), people

        return solution(_answered(WithProducts(self._of_one_key), column, n, population)).spread

    @property
    def _of_one_key(self) -> list[Statistic]:
        """The statistics of every key alone: its frequency and, if values are collected, f·m."""
        return [share({0: True}), total(0, {})] if self.values else [share({0: True})]

    def _refuse(self, statistics: Sequence[Statistic]) -> None:
        most = max(len(statistic.places) for statistic in statistics)
        if most > self.order:
            raise MechanismError(
                "question/order",
                f"moments of order {self.order} cannot answer a question about {most} keys together; "
                f"moments with order={most} or marginals with size={most} could.",
            )
        if not self.values and any(statistic.values for statistic in statistics):
            raise MechanismError(
                "question/no-values", "moments without values know presences only; moments with values know means."
            )
        if any(len(statistic.values) > 1 for statistic in statistics):
            raise MechanismError("question/values", "moments know the value of one key at a time, not of two together.")

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        answers = self.answer_jointly(tally, np.arange(self.schema.d)[:, None], self._of_one_key, population)
        return solution(answers).estimates(
            self.header(tally.reports, confidence, population),
            respondents=answers.respondents,
            no_mean=None if self.values else "moments without values give no means; with values they do.",
        )


Term = tuple[int | None, tuple[int, ...]]  # the place of the value, if any, and the places of B
MomentColumn = tuple[Floats, Floats, Ints]  # a moment for every row of keys, its variance for a sample, and the reports


def _certain(rows: int, n: int) -> MomentColumn:
    """The empty product, which is one for everybody."""
    return np.ones(rows), np.zeros(rows), np.full(rows, n, dtype=np.int64)


def _answered(wanted: WithProducts, column: Callable[[Term], MomentColumn], n: int, population: bool) -> JointAnswers:
    """Sums of moments, from what is known of each, with the covariance of the statistics."""
    count, weights = len(wanted.statistics), [_weights_of(statistic) for statistic in wanted.every]
    terms = sorted(set(chain.from_iterable(weights)), key=str)
    matrix = np.array([[own.get(term, 0.0) for term in terms] for own in weights])
    values, variance, respondents = (np.array(part).T for part in zip(*map(column, terms), strict=True))
    every = values @ matrix.T
    used = matrix[:count].any(axis=0)  # what only products need has no part in the errors
    own = matrix[:count, used]
    covariance: Floats = np.einsum("it,rt,jt->rij", own, variance[:, used], own)
    if not population:
        covariance = wanted.of_these_people(every, covariance, n)
    return JointAnswers(every[:, :count], covariance, respondents[:, used].min(axis=1))


def _product(one: Statistic, other: Statistic) -> Statistic | None:
    """The product of two statistics; for that of two keys' values, the most that it can be: all who hold both."""
    joint = both(one, other)
    return joint.people if joint is not None and len(joint.values) > 1 else joint


def _weights_of(statistic: Statistic) -> dict[Term, float]:
    """How much each moment counts in a statistic with at most one value."""
    held, places = dict(statistic.held), [place for place, _ in statistic.held]
    valued = statistic.values[0] if statistic.values else None
    subsets = chain.from_iterable(combinations(places, size) for size in range(len(places) + 1))
    scale = 2.0 ** -len(places)
    return {(valued, one): scale * (-1.0) ** sum(held[place] for place in one) for one in subsets}


def _weights(law: object, count: int) -> list[int]:
    parts = law.split(",") if isinstance(law, str) else []
    if len(parts) != count or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise MechanismError(
            "mechanism/option",
            f"moments take the law {' or '.join(LAWS)} or {count} positive whole numbers with commas, not {law!r}.",
        )
    return [int(part) for part in parts]


def _without_factor(weights: Sequence[int]) -> list[int]:
    factor = math.gcd(*weights)
    return [weight // factor for weight in weights]
