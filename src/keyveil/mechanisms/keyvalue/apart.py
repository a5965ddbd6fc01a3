"""Apart: some people tell which keys they hold, the others what their values are, each with the whole ε.

A set response tells presences nearly as well as can be; a projection tells values as they are, where rounding them to
signs would cost much. So frequencies come from one group and sums of values from the other. For values inside their
range, at ε up to 2 where sets are sparse; in dense mode nobody's record is cut.
Derivation: docs/mechanisms/apart.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from keyveil.core.coins import Coins
from keyveil.core.epsilon import decimal_text, read_fraction
from keyveil.core.estimates import Estimates
from keyveil.core.records import Records
from keyveil.core.tally import Tally
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import (
    CAPABILITIES,
    Announced,
    Capped,
    Foreseen,
    JointStatistics,
    KeyDependence,
    LearnsSizes,
    PredictedVariance,
    ReportEffects,
    can,
    need,
)
from keyveil.mechanisms.dependence import Dependence
from keyveil.mechanisms.families.key_value import FREQUENCIES_AND_MEANS, refused
from keyveil.mechanisms.keyvalue.apart_forecast import (
    CONTROLLED,
    GUESSED,
    GUESSED_SPREAD,
    LEAST_KEPT,
    MOST_KEPT,
    SURE,
    UNALIKE,
    Forecast,
)
from keyveil.mechanisms.responses import INSUFFICIENT, Floats, Solution, Spread
from keyveil.mechanisms.rounds.presence import PresenceGroup
from keyveil.mechanisms.rounds.topsel_project import best_channel, gain
from keyveil.mechanisms.rounds.value_projection import (
    BEFORE,
    CONTROL,
    MOST_RADIUS,
    MOST_UNIT,
    MOST_WEIGHT,
    ValueProjection,
)
from keyveil.mechanisms.side_by_side import SideBySide
from keyveil.mechanisms.size_law import SizeLaw

if TYPE_CHECKING:
    from keyveil.mechanisms.effects import Effects
    from keyveil.mechanisms.keyvalue.block import Block
    from keyveil.mechanisms.reach import Reachable

UNEVEN = 1.3  # mean square of set sizes over the square of their mean, where the law is not known
REACHES = (1.0, 1.5, 2.0)  # squared radius over the mean squared length of a vector
FARTHEST = 8  # the largest entry of a row: 16 bits, counted from their mean (kernels.directions)
CLIPPED = 0.8  # kept on average: below it values are larger than was declared
PLANNED = ("unit", "weight", "radius", "rows")  # numbers of the value group


@dataclass(frozen=True)
class Apart(SideBySide):
    """``presence`` of the people tell keys, the others values; ``mode`` is sparse, with a cap ``max_pairs``, or dense.

    ``typical`` is the root mean square of a value on [-1, 1], ``set_sizes`` the law of how many pairs people hold and
    ``expected`` how many people there will be. From these follow ``unit``, ``weight`` and ``radius`` of the value group
    unless they are given. ``size`` is how many keys an answer of the presence group has, or a block of dense sets.
    """

    mode: str = "sparse"
    max_pairs: int | None = None
    typical: Fraction = Fraction(1, 2)
    presence: Fraction = Fraction(1, 2)
    set_sizes: str | None = None
    expected: int | None = None
    size: int | None = None
    unit: int | None = None
    weight: int | None = None
    radius: int | None = None
    rows: int | None = None
    marked: int | None = None

    name: ClassVar[str] = "apart"
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({"max_pairs": 2}, {"mode": "dense", "size": 2})
    readings: ClassVar[frozenset[str]] = frozenset({"typical"})
    reached: ClassVar[tuple[float, float]]  # people times squared gain from which on the next reach pays

    @classmethod
    def class_for(cls, options: Mapping[str, Any]) -> type[Mechanism]:
        """The class of the mode that is given; sparse by default."""
        modes: dict[str, type[Mechanism]] = {"sparse": SparseApart, "dense": DenseApart}
        mode = str(options.get("mode") or "sparse")
        if mode not in modes:
            raise refused(f"apart has the modes sparse and dense, not {mode!r}.")
        if mode == "dense" and options.get("max_pairs") is not None:
            raise refused("apart in dense mode has no cap: leave max_pairs out.")
        return modes[mode]

    @classmethod
    def options_for_sizes(cls, law: SizeLaw, cap: int, keys: int) -> dict[str, Any]:
        """The law itself: how long vectors are follows from it."""
        return {"set_sizes": law.rounded}

    def validate(self) -> None:
        put = object.__setattr__
        for name in ("typical", "presence"):
            try:
                put(self, name, read_fraction(getattr(self, name)))
            except (ValueError, TypeError, ZeroDivisionError):
                raise refused(f"apart takes a number for {name}, not {getattr(self, name)!r}.") from None
        if self.mode != type(self).mode:
            raise refused(f"{type(self).__name__} has the mode {type(self).mode}, not {self.mode!r}.")
        if not 0 < self.typical <= 1:
            raise refused(f"A typical value of apart lies above 0 and up to 1, not at {decimal_text(self.typical)}.")
        if not 0 < self.presence < 1:
            raise refused(f"apart asks a share of the people between 0 and 1 for keys, not {self.presence}.")
        if self.schema.d < 2 or not 1 <= self.most <= self.schema.d:
            raise refused(f"apart takes two keys or more, and max_pairs from 1 to {self.schema.d}, the number of keys.")
        if self.set_sizes is not None or any(getattr(self, name) is None for name in PLANNED):
            for name, value in self._plan().items():  # takes longer than a report, and documents name every number
                if getattr(self, name) is None:
                    put(self, name, value)
        put(self, "size", self.answer_size)
        put(self, "set_sizes", None)  # what follows from them stands in the numbers
        put(self, "expected", None)
        put(self, "marked", self.values.marked)
        super().validate()

    @property
    @abstractmethod
    def most(self) -> int:
        """The most pairs of a person that count."""

    @property
    @abstractmethod
    def usual_size(self) -> float:
        """The mean of set sizes where nothing is known of them."""

    @property
    @abstractmethod
    def answer_size(self) -> int:
        """How many keys an answer of the presence group has, or a block."""

    @abstractmethod
    def size_variance(self, reports: int, size: float, var_f: Floats, unheard: float) -> float:
        """A bound of the variance of the sum of all frequencies."""

    def _plan(self) -> dict[str, int]:
        """The numbers of the value group for the expected people (docs/mechanisms/apart.md)."""
        most, mean, square = self.most, self.usual_size, 0.0
        if self.set_sizes is not None:
            law = SizeLaw.read(self.set_sizes)
            kept = np.minimum(law.sizes, most)
            mean, square = max(float(law.of_people @ kept), 1e-3), float(law.of_people @ kept**2)
        square = max(square, min(UNEVEN * mean**2, most * mean), mean**2)
        rows = 64 if self.epsilon < 5 else 128 if self.epsilon <= 6 else 256
        told = (self.expected or 0) * float(1 - self.presence) * gain(best_channel(rows, self.epsilon)) ** 2
        reach = REACHES[sum(told > limit for limit in self.reached)]
        energy = float(self.typical) ** 2 * mean
        length = math.sqrt(reach * energy / (1 - CONTROLLED))
        unit = max(min(MOST_UNIT, int(MOST_RADIUS / length)), 1)
        weight = round(unit * math.sqrt(CONTROLLED / (1 - CONTROLLED) * energy / square))
        radius = min(max(int(unit * length), 1), MOST_RADIUS)
        planned = (unit, min(max(weight, 1), MOST_WEIGHT), radius, rows)
        return dict(zip(PLANNED, planned, strict=True))

    # -- the two groups -----------------------------------------------------------------------------------------

    @cached_property
    def values(self) -> ValueProjection:
        """What the value group answers."""
        unit, weight, radius, rows = (int(getattr(self, name)) for name in ("unit", "weight", "radius", "rows"))
        return ValueProjection(self.schema, self.epsilon, self.most, unit, weight, radius, rows, self.marked)

    @cached_property
    def parts(self) -> tuple[Mechanism, ...]:
        return self.who, self.values

    @property
    @abstractmethod
    def who(self) -> Mechanism:
        """What the presence group answers."""

    @property
    def shares(self) -> tuple[Fraction, ...]:
        return self.presence, 1 - self.presence

    # -- estimates ----------------------------------------------------------------------------------------------

    @property
    def estimated(self) -> frozenset[str]:
        return FREQUENCIES_AND_MEANS

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        told = self.decoded(tally, population)
        header = self.header(tally.reports, confidence, population)
        heard = np.full(self.schema.d, self.part_tally(tally, 0).reports)
        estimates = told.solution.estimates(header, respondents=heard)
        mean = estimates.mean
        if not told.measured:
            mean = replace(mean, flag=np.full(self.schema.d, INSUFFICIENT, dtype=np.int8))
        elif told.kept < CLIPPED:
            mean = mean.flagged("clipped", np.ones(self.schema.d, dtype=np.bool_))
        return replace(estimates, mean=mean, alone=mean.flag)

    def decoded(self, tally: Tally, population: bool = False) -> Decoded:
        """Frequencies from one group, sums of values from the other, and what cutting left of them."""
        values = self.values
        own, theirs = (self.part_tally(tally, number) for number in (0, 1))
        n, people = max(tally.reports, 1), max(theirs.reports, 1)
        fixed, sampled = (self.who.estimate(own, 0.95, whole) for whole in (False, True))
        unheard = [1.0 if population else 1 - part.reports / n for part in (own, theirs)]
        frequency, held = fixed.frequency.values, np.maximum(np.nan_to_num(fixed.frequency.values), 0.0)
        var_f = fixed.frequency.se**2 + unheard[0] * (sampled.frequency.se**2 - fixed.frequency.se**2)
        size = float(np.nansum(frequency))
        var_size = self.size_variance(own.reports, size, var_f, unheard[0])
        step = values.radius / (gain(values.channel) * values.unit)
        along = step * values._own(theirs) / (2 * people)
        noise = step**2 / people
        kept = measured_share(float(along[CONTROL]), noise, values.weight / values.unit * size, size, var_size)
        with np.errstate(invalid="ignore"):
            product = along[BEFORE:] / kept.share if theirs.reports else np.full_like(frequency, np.nan)
            square = float(self.typical) ** 2
            var_e = noise / kept.share**2 + unheard[1] * held * square / people
            widened = var_e + product**2 * kept.relative
            widened += np.maximum(product**2, held**2 * square) * kept.unalike
            together = np.zeros_like(product) if population else -product * (1 - np.clip(frequency, 0, 1)) / n
        spread = Spread(var_f, widened, together)
        return Decoded(Solution(frequency, product, spread, fixed.distances, noise=var_e), kept.share, kept.measured)

    def report_effects(self, tally: Tally) -> list[Effects]:
        """Keys from the one group; sums of values from the other, divided by what cutting left of vectors."""
        from keyveil.mechanisms.effects import Effects  # devices do not need it

        values, d = self.values, self.schema.d
        own, theirs = (self.part_tally(tally, number) for number in (0, 1))
        keys = [one.scaled(1.0, 0.0, fixed=True) for one in need(self.who, ReportEffects).report_effects(own)]
        far = FARTHEST * values.radius / (gain(values.channel) * values.unit) / 2 / self.decoded(tally).kept
        ends = np.zeros((2, d, 2))
        ends[:, :, 1] = [[-far], [far]]
        return [*keys, Effects(np.full(d, theirs.reports), ends, fixed=False)]

    def reachable(self, tally: Tally, of: Callable[[Mechanism, Tally], Reachable]) -> Reachable:
        """Keys from the one group; what the other says, divided by any share that cutting may have left of vectors."""
        from keyveil.mechanisms.keyvalue.apart_reach import ValueSums, with_values  # devices do not need it

        values, (own, theirs) = self.values, (self.part_tally(tally, number) for number in (0, 1))
        step = values.radius / (gain(values.channel) * values.unit)
        along = step * values._own(theirs) / (2 * max(theirs.reports, 1))
        said = ValueSums(along, FARTHEST * step / 2, theirs.reports, values.weight / values.unit)
        return with_values(of(self.who, own), said)

    # -- capabilities -------------------------------------------------------------------------------------------

    @property
    def lacks(self) -> frozenset[type]:
        has = {PredictedVariance, Announced, LearnsSizes, ReportEffects}
        has |= {one for one in (Capped, KeyDependence, JointStatistics) if can(self.who, one) is not None}
        return CAPABILITIES - has

    def dependence(self, population: bool = False) -> Dependence:
        """Constants of one report of all: only the presence group's tell who holds keys."""
        own, heard = need(self.who, KeyDependence).dependence(population), float(self.presence)
        return replace(own, **{name: getattr(own, name) / heard for name in ("base", "slope", "both", "extra")})

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        return Forecast(self, n, population).spread(frequency, mean, sizes)

    def foreseen_values(
        self,
        records: Records | None,
        coins: Coins,
        frequency: Floats,
        mean: Floats,
        deviation: Floats,
        sizes: Floats,
        n: int,
    ) -> Foreseen | None:
        return Forecast(self, n).foreseen(records, coins, frequency, mean, deviation, sizes)


@dataclass(frozen=True)
class SparseApart(Apart):
    """For people who hold few of many keys: the presence group answers a set response."""

    reached: ClassVar[tuple[float, float]] = (1e5, 1e6)

    @property
    def most(self) -> int:
        if self.max_pairs is None:
            raise refused("apart needs the option 'max_pairs', or mode=dense.")
        return self.max_pairs

    def cap(self) -> int:
        return self.most

    @property
    def usual_size(self) -> float:
        return 2 * self.most / 3

    @property
    def answer_size(self) -> int:
        return self.who.members

    @cached_property
    def who(self) -> PresenceGroup:
        return PresenceGroup(self.schema, self.epsilon, max_pairs=self.most, size=self.size, set_sizes=self.set_sizes)

    def size_variance(self, reports: int, size: float, var_f: Floats, unheard: float) -> float:
        """Only how many dummies an answer has varies, so it is less than errors of keys would make it."""
        own, other = (float(rate) for rate in self.who.response.rates)
        inside = min(max(size, 0.0), float(self.most))
        dummies = self.most - inside
        within = (dummies * own * (1 - own) + inside * other * (1 - other)) / (own - other) ** 2
        return (within + unheard * inside * dummies) / max(reports, 1)

    def reduced(self) -> Self:
        who, what = self.who.reduced(), self.values.reduced()
        cap, size = who.max_pairs, who.size
        return replace(self, schema=who.schema, max_pairs=cap, size=size, rows=what.rows, marked=what.marked)


@dataclass(frozen=True)
class DenseApart(Apart):
    """For people who hold a good share of all keys: the presence group answers about blocks of keys."""

    mode: str = "dense"

    cap = None  # type: ignore[assignment]  # nobody's record is cut
    reached: ClassVar[tuple[float, float]] = (3e4, 3e5)

    @property
    def title(self) -> str:
        return "apart in dense mode"

    @property
    def most(self) -> int:
        return self.schema.d

    @property
    def usual_size(self) -> float:
        return self.schema.d / 2

    @property
    def answer_size(self) -> int:
        return self.who.form.width

    @cached_property
    def who(self) -> Block:
        from keyveil.mechanisms.keyvalue.block import Block  # only dense devices need it

        return Block(self.schema, self.epsilon, self.size, 2)

    def size_variance(self, reports: int, size: float, var_f: Floats, unheard: float) -> float:
        return self.answer_size * float(np.nansum(var_f))  # the states of one block err together

    def reduced(self) -> Self:
        who, what = self.who.reduced(), self.values.reduced()
        return replace(self, schema=who.schema, size=who.width, rows=what.rows, marked=what.marked)


class Decoded(NamedTuple):
    """What the two groups say."""

    solution: Solution
    kept: float  # what cutting left of vectors, on average
    measured: bool  # whether that could be measured


class Kept(NamedTuple):
    """What cutting left of vectors."""

    share: float  # on average over holders
    relative: float  # relative variance of that
    unalike: float  # how much more may be cut off some holders than off others, squared
    measured: bool


def measured_share(control: float, noise: float, expected: float, size: float, var_size: float) -> Kept:
    """From the control's mean and the variance of its noise, against what it would be without any cutting."""
    sure = expected > 0 and control >= SURE * math.sqrt(noise) and size >= SURE * math.sqrt(var_size)
    if sure:
        share = min(max(control / expected, LEAST_KEPT), MOST_KEPT)
        relative = noise / control**2 + var_size / size**2
    else:
        share, relative = GUESSED, GUESSED_SPREAD
    lost = max(1 / share - 1, 0.0)
    return Kept(share, relative, max(lost**2, UNALIKE * lost), sure)
