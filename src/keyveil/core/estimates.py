"""What an analyst gets: for every key a frequency and a mean, each with its standard error, interval and flag.

Numbers are kept as they were estimated: frequencies unclipped, means on the scale [-1, 1] on which mechanisms work.
Whatever a person reads (an ``Interval``, a row, a frame, JSON) shows means in the schema's units, unless
``unit=True`` asks for [-1, 1]. ``display()`` is the only place that clips, and it says so by a flag.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from keyveil.core.discovery import Decision, told_from_absent, widening
from keyveil.core.epsilon import decimal_text
from keyveil.core.errors import MechanismError
from keyveil.core.rendering import look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from keyveil.core.schema import Schema
    from keyveil.frames.truth import Truth

FLAGS = ("ok", "shrunk", "clipped", "wide", "truncated", "insufficient", "suppressed")  # in increasing severity
SHRUNK, INSUFFICIENT = FLAGS.index("shrunk"), FLAGS.index("insufficient")

WIDE = 0.5
"""Share of the possible range from which on an interval is wide: it then leaves open what half of the range says."""

NUMBERS = ("values", "se", "low", "high")  # of a column
OPTIONAL = ("product", "product_se", "covariance", "scores")  # of estimates

Floats = NDArray[np.float64]
Codes = NDArray[np.int8]
Backend = Literal["pandas", "polars", "pyarrow"]


def worst(*flags: str) -> str:
    """The most severe of some flags; "ok" when there is none."""
    return max(flags, key=FLAGS.index, default="ok")


@dataclass(frozen=True)
class Interval:
    """One estimate: its value, confidence limits and standard error. Unknown numbers are NaN."""

    value: float
    low: float
    high: float
    se: float
    flag: str = "ok"

    def __contains__(self, number: float) -> bool:
        return self.low <= number <= self.high

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        """As many digits as the width of the interval makes meaningful: three of the width itself."""
        width = self.high - self.low
        known = math.isfinite(width) and width > 0
        places = min(max(2 - math.floor(math.log10(width)), 0), 12) if known else 4
        value = "unknown" if math.isnan(self.value) else f"{self.value:.{places}f}"
        remark = "" if self.flag == "ok" else f" ({self.flag})"
        return f"{value} [{self.low:.{places}f}, {self.high:.{places}f}]{remark}"


@dataclass(frozen=True, eq=False, repr=False)
class Column:
    """One kind of estimate for all keys: arrays to compute with, and ``column["fries"]`` to read.

    The arrays are on the scale of estimation; ``in_units`` has the same column as people read it.
    """

    schema: Schema
    values: Floats
    se: Floats
    low: Floats
    high: Floats
    flag: Codes = field(default_factory=lambda: np.zeros((), dtype=np.int8))  # indices into FLAGS
    scaled: bool = False  # on [-1, 1] inside, in the schema's units outside
    absent: str = ""  # why the mechanism does not estimate this at all

    def __post_init__(self) -> None:
        for name in NUMBERS:
            object.__setattr__(self, name, _per_key(self.schema, getattr(self, name), np.float64))
        object.__setattr__(self, "flag", _per_key(self.schema, self.flag, np.int8))

    @classmethod
    def unknown(cls, schema: Schema, why: str, *, scaled: bool = False) -> Column:
        """A column that the mechanism cannot fill; reading it raises ``why``, a sentence that says what could."""
        nothing = np.full(schema.d, np.nan)
        return cls(schema, nothing, nothing, nothing, nothing, scaled=scaled, absent=why)

    def __getitem__(self, key: str) -> Interval:
        return self.interval(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.schema.keys)

    def __len__(self) -> int:
        return self.schema.d

    def keys(self) -> Sequence[str]:
        """The names of the keys; with it ``dict(column)`` works."""
        return self.schema.keys

    def __repr__(self) -> str:
        return f"Column({len(self)} keys{', on [-1, 1]' if self.scaled else ''})"

    def interval(self, key: str, *, unit: bool = False) -> Interval:
        """The estimate of one key, in the schema's units or (``unit=True``) on [-1, 1]."""
        at = self.schema.place(key)
        if self.absent:
            raise MechanismError("estimate/no-mean" if self.scaled else "estimate/no-frequency", self.absent)
        shown = self if unit else self.in_units
        value, low, high, se = (float(array[at]) for array in (shown.values, shown.low, shown.high, shown.se))
        return Interval(value, low, high, se, FLAGS[self.flag[at]])

    @cached_property
    def in_units(self) -> Column:
        """This column as people read it: means from [-1, 1] mapped to the schema's ranges."""
        if not self.scaled:
            return self
        with np.errstate(over="ignore", invalid="ignore"):  # a wild mean on a logarithmic scale is simply unknown
            return dataclasses.replace(
                self,
                values=self.schema.from_unit(self.values),
                se=self.se * self.schema.slope(self.values),
                low=self.schema.from_unit(self.low),
                high=self.schema.from_unit(self.high),
                scaled=False,
            )

    def document(self) -> dict[str, Any]:
        """The numbers on the scale of estimation as JSON, or why there are none; and the flags."""
        numbers = {name: written_numbers(getattr(self, name)) for name in NUMBERS}
        return {**({"absent": self.absent} if self.absent else numbers), "flag": [FLAGS[code] for code in self.flag]}

    @classmethod
    def from_document(cls, document: Any, schema: Schema, *, scaled: bool) -> Column:
        """The column that ``document`` wrote down."""
        flag = np.array([FLAGS.index(name) for name in document["flag"]], dtype=np.int8)
        if "absent" in document:
            return dataclasses.replace(cls.unknown(schema, document["absent"], scaled=scaled), flag=flag)
        values, se, low, high = (read_numbers(document[name]) for name in NUMBERS)
        return cls(schema, values, se, low, high, flag, scaled=scaled)

    def flagged(self, flag: str, where: NDArray[np.bool_]) -> Column:
        """The column with a flag on some keys, where it has none that is more severe."""
        codes = np.maximum(self.flag, np.where(where, FLAGS.index(flag), 0).astype(np.int8))
        return self if np.array_equal(codes, self.flag) else dataclasses.replace(self, flag=codes)

    def covers(self, least: float, most: float) -> NDArray[np.bool_]:
        """Per key, whether the interval takes up more than half of a range, or is longer than all of it.

        False where there is no interval.
        """
        with np.errstate(invalid="ignore"):
            inside: Floats = np.clip(self.high, least, most) - np.clip(self.low, least, most)
            return (inside > WIDE * (most - least)) | (self.high - self.low > most - least)

    def widened(self, times: Floats) -> tuple[Floats, Floats]:
        """Limits so many times as far from the estimate; where there is no estimate, the limits as they are."""
        with np.errstate(invalid="ignore"):
            low, high = (self.values + times * (end - self.values) for end in (self.low, self.high))
        unknown = np.isnan(self.values)
        return np.where(unknown, self.low, low), np.where(unknown, self.high, high)

    def clipped(self, least: float, most: float) -> Column:
        """The column cut to what is possible, with the flag "clipped" wherever that changed a number."""
        cut = {name: np.clip(getattr(self, name), least, most) for name in ("values", "low", "high")}
        changed = np.any([(cut[name] != getattr(self, name)) & ~np.isnan(cut[name]) for name in cut], axis=0)
        flag = np.maximum(self.flag, np.where(changed, FLAGS.index("clipped"), 0).astype(np.int8))
        return dataclasses.replace(self, values=cut["values"], low=cut["low"], high=cut["high"], flag=flag)


@dataclass(frozen=True)
class Header:
    """What estimates are about: whose keys, how the reports were made, how many there are, and who is the target."""

    schema: Schema
    mechanism: str  # the name of a mechanism or protocol
    epsilon: Fraction
    n: int  # reports
    confidence: float = 0.95
    population: bool = False  # the target is the population that the people are a sample of, not these people alone
    options: Mapping[str, Any] = field(default_factory=dict)  # of the mechanism, as they stand in documents
    decision: Decision = "by"  # how keys are told from absent; "bh" where errors of keys are known not to harm it

    def document(self) -> dict[str, Any]:
        """The header as JSON, without the schema."""
        return {
            "mechanism": self.mechanism,
            "epsilon": decimal_text(self.epsilon),
            "options": dict(self.options),
            "n": self.n,
            "confidence": self.confidence,
            "population": self.population,
            "decision": self.decision,
        }


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Estimates:
    """Frequencies and means of all keys, with everything that is needed to judge them.

    Means of keys that are not ``told`` from absent among all keys are insufficient, whatever their own intervals say;
    means that were shrunk rest on other keys, and stay. ``per_key`` has the flags of keys that were named beforehand.
    """

    header: Header
    respondents: NDArray[np.int64]  # per key, how many reports could speak about it
    frequency: Column
    mean: Column
    product: Floats | None = None  # unbiased estimate of frequency times mean, on [-1, 1]
    product_se: Floats | None = None
    covariance: Floats | None = None  # of the estimates of frequency and product
    scores: Floats | None = None  # how far a key is from absent, in standard errors; f / se unless given
    alone: Codes | None = None  # flags of the means, each key on its own; those of ``mean`` unless given
    truth: Truth | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "respondents", _per_key(self.schema, self.respondents, np.int64))
        object.__setattr__(self, "frequency", self.frequency.flagged("wide", self.frequency.covers(0, 1)))
        object.__setattr__(self, "mean", self.mean.flagged("wide", self.mean.covers(-1, 1)))
        alone = self.mean.flag if self.alone is None else self.alone
        object.__setattr__(self, "alone", _per_key(self.schema, alone, np.int8))
        if not self.frequency.absent and not self.mean.absent:
            doubtful = self._untold & (self.mean.flag != SHRUNK)
            object.__setattr__(self, "mean", self.mean.flagged("insufficient", doubtful))
        for name in OPTIONAL:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _per_key(self.schema, getattr(self, name), np.float64))

    @property
    def schema(self) -> Schema:
        return self.header.schema

    @property
    def mechanism(self) -> str:
        return self.header.mechanism

    @property
    def epsilon(self) -> Fraction:
        return self.header.epsilon

    @property
    def n(self) -> int:
        """How many reports there are."""
        return self.header.n

    @property
    def confidence(self) -> float:
        return self.header.confidence

    @property
    def population(self) -> bool:
        return self.header.population

    @property
    def flag(self) -> tuple[str, ...]:
        """Per key, the more severe of the flags of its frequency and its mean."""
        return tuple(FLAGS[code] for code in np.maximum(self.frequency.flag, self.mean.flag))

    @cached_property
    def told(self) -> NDArray[np.bool_]:
        """Per key, whether it is told from one that nobody holds, as the header's ``decision`` has it.

        All are, where frequencies are not estimated; none is that has no standard error.
        """
        if self.frequency.absent:
            return np.ones(self.schema.d, dtype=np.bool_)
        return told_from_absent(self.distances, self.header.decision, self.confidence)

    @property
    def distances(self) -> Floats:
        """Per key, how far it is from absent: ``scores``, or frequencies over standard errors. NaN if not known."""
        if self.scores is not None:
            return self.scores
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.frequency.values / self.frequency.se

    @property
    def _untold(self) -> NDArray[np.bool_]:
        """The keys that have a standard error and are not told from absent."""
        return ~self.told & ~np.isnan(self.distances)

    def per_key(self) -> Estimates:
        """The same estimates with every key decided on its own: right for keys that were named beforehand."""
        assert self.alone is not None
        hidden = self._untold & (self.alone < INSUFFICIENT) & (self.mean.flag == INSUFFICIENT)
        mean = dataclasses.replace(self.mean, flag=np.where(hidden, self.alone, self.mean.flag))
        return dataclasses.replace(self, header=dataclasses.replace(self.header, decision="per-key"), mean=mean)

    def selected(self, chosen: int | None = None) -> tuple[Floats, Floats]:
        """Limits of frequencies for so many keys that were chosen by their estimates; for those told from absent.

        Of the chosen keys' intervals at most a share 1 - confidence misses the truth, on average. The error is that
        of a key that nobody holds where that one is larger: keys are chosen for errors that make them look frequent.
        """
        count = int(np.count_nonzero(self.told)) if chosen is None else chosen
        times = widening(count, self.schema.d, self.confidence)
        if self.scores is None:
            return self.frequency.widened(np.full(self.schema.d, times))
        with np.errstate(divide="ignore", invalid="ignore"):
            absent = self.frequency.values / self.frequency.se / self.scores
        return self.frequency.widened(times * np.where(self.scores > 0, np.fmax(absent, 1), 1))

    def with_truth(self, truth: Truth) -> Estimates:
        """The same estimates with the truth beside them, as simulations know it."""
        return dataclasses.replace(self, truth=truth)

    def under(self, header: Header) -> Estimates:
        """The same numbers under another header: what a round says, as the answer of its protocol."""
        return dataclasses.replace(self, header=header)

    def flagged(self, flag: str, where: NDArray[np.bool_] | None = None) -> Estimates:
        """The same estimates with a flag on some keys, or on all, where there is none that is more severe."""
        marked = np.ones(self.schema.d, dtype=np.bool_) if where is None else where
        assert self.alone is not None
        alone = dataclasses.replace(self.mean, flag=self.alone).flagged(flag, marked).flag
        return dataclasses.replace(
            self, frequency=self.frequency.flagged(flag, marked), mean=self.mean.flagged(flag, marked), alone=alone
        )

    def display(self) -> Estimates:
        """A copy for the eye: frequencies cut to [0, 1] and means to [-1, 1]. Never compute with it: it is biased."""
        return dataclasses.replace(self, frequency=self.frequency.clipped(0, 1), mean=self.mean.clipped(-1, 1))

    def rows(self, *, unit: bool = False) -> list[dict[str, str | float | None]]:
        """One dictionary per key; unknown numbers are ``None``."""
        columns = self._columns(unit)
        lists = [[_or_none(cell) for cell in column] for column in columns.values()]
        return [dict(zip(columns, cells, strict=True)) for cells in zip(*lists, strict=True)]

    def document(self, *, unit: bool = False, schema: bool = False) -> dict[str, Any]:
        """The header, the rows under ``estimates``, and under ``exact`` what the rows leave out.

        Files, HTTP, the command line and simulations all write this object, some with more entries beside it. The
        schema is among them unless the reader has it already, as for a campaign. Rows have means in the schema's units;
        ``exact`` has them on [-1, 1], so that nothing is lost by rounding.
        """
        described = {"schema": self.schema.document()} if schema else {}
        return {**described, **self.header.document(), "estimates": self.rows(unit=unit), "exact": self.exact()}

    def exact(self) -> dict[str, Any]:
        """Numbers by key that the rows lack or round, as JSON; what was not estimated is left out."""
        optional = {name: getattr(self, name) for name in OPTIONAL}
        return {
            "respondents": self.respondents.tolist(),
            "frequency": self.frequency.document(),
            "mean": self.mean.document(),
            "mean_alone": [FLAGS[code] for code in cast("Codes", self.alone)],
            **{name: written_numbers(numbers) for name, numbers in optional.items() if numbers is not None},
            **({} if self.truth is None else {"truth": self.truth.document()}),
        }

    def to_json(self, *, unit: bool = False) -> str:
        """``document`` with the schema, as text; ``from_json`` reverses it."""
        return json.dumps(self.document(unit=unit, schema=True), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Estimates:
        """The estimates that ``to_json`` wrote, to the last bit."""
        try:
            document = json.loads(text)
        except ValueError as reason:
            raise unreadable("this is no JSON") from reason
        return cls.from_document(document)

    @classmethod
    def from_document(cls, document: Any, schema: Schema | None = None) -> Estimates:
        """The estimates that ``document`` wrote down; ``schema`` is needed where the document lacks it."""
        return cast("Estimates", look("estimates.read")(document, schema))

    def to_frame(self, backend: Backend = "pandas", *, unit: bool = False) -> Any:
        """The rows as a frame of pandas, polars or pyarrow; unknown numbers are missing values."""
        return look("estimates.frame")(self._columns(unit), backend)

    def plot(self, ax: Axes | Sequence[Axes] | None = None, top: int = 20, truth: Truth | None = None) -> Figure:
        """Intervals of the most frequent keys, frequencies beside means, on axes of your own or a new figure."""
        return cast("Figure", look("estimates.plot")(self, ax, top, self.truth if truth is None else truth))

    def _repr_html_(self) -> str:
        return str(look("estimates.table")(self))

    def __repr__(self) -> str:
        return (
            f"Estimates({self.mechanism}, ε={decimal_text(self.epsilon)}, n={self.n:,}, d={self.schema.d}, "
            f"confidence={self.confidence:g})"
        )

    def _columns(self, unit: bool) -> dict[str, Any]:
        frequency, mean = self.frequency, self.mean if unit else self.mean.in_units
        known_truth = (np.nan, np.nan) if self.truth is None else (self.truth.frequency, self.truth.mean)
        true_frequency, true_mean = (_per_key(self.schema, numbers, np.float64) for numbers in known_truth)
        selected_low, selected_high = self.selected()
        numbers = {
            "frequency": frequency.values,
            "frequency_se": frequency.se,
            "frequency_low": frequency.low,
            "frequency_high": frequency.high,
            "selected_low": selected_low,
            "selected_high": selected_high,
            "mean": mean.values,
            "mean_se": mean.se,
            "mean_low": mean.low,
            "mean_high": mean.high,
            "true_frequency": true_frequency,
            "true_mean": true_mean if unit else self.schema.from_unit(true_mean),
        }
        known = {name: np.where(np.isfinite(array), array, np.nan) for name, array in numbers.items()}
        flags = {
            "flag": list(self.flag),
            "frequency_flag": [FLAGS[code] for code in self.frequency.flag],
            "mean_flag": [FLAGS[code] for code in self.mean.flag],
        }
        return {"key": list(self.schema.keys), **known, **flags}


def _per_key(schema: Schema, numbers: Any, dtype: type[np.generic]) -> NDArray[Any]:
    """A read-only copy with one number per key; a single number stands for all keys."""
    array = np.array(numbers, dtype=dtype)
    if array.shape not in ((), (schema.d,)):
        raise MechanismError(
            "estimate/shape", f"There are {schema.d} keys, but the estimates have the shape {array.shape}."
        )
    own = array if array.shape else np.full(schema.d, array)
    own.setflags(write=False)
    return own


def unreadable(why: str) -> MechanismError:
    return MechanismError("estimate/document", f"Estimates cannot be read from this: {why}.")


def written_numbers(numbers: Sequence[float] | Floats) -> list[float | str | None]:
    """Numbers as JSON can have them without loss: NaN is null, infinity the word "inf" or "-inf"."""
    return [
        None if math.isnan(number) else float(number) if math.isfinite(number) else str(float(number))
        for number in numbers
    ]


def read_numbers(entries: Sequence[Any]) -> Floats:
    """The numbers that ``written_numbers`` wrote."""
    return np.array([math.nan if entry is None else float(entry) for entry in entries], dtype=np.float64)


def _or_none(cell: Any) -> str | float | None:
    if isinstance(cell, str):
        return cell
    return float(cell) if math.isfinite(cell) else None
