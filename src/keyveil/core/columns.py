"""One kind of estimate for all keys, and what is read of one key: values, limits, standard errors and flags."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import MechanismError

if TYPE_CHECKING:
    from keyveil.core.schema import Schema

FLAGS = ("ok", "shrunk", "clipped", "wide", "truncated", "insufficient", "suppressed")  # in increasing severity
SHRUNK, INSUFFICIENT = FLAGS.index("shrunk"), FLAGS.index("insufficient")

WIDE = 0.5
"""Share of the possible range from which on an interval is wide: it then leaves open what half of the range says."""
ALMOST = 0.8
"""Times ``WIDE``, from which on intervals of frequencies are wide if any is (docs/decisions/0131-wide-together.md)."""

NUMBERS = ("values", "se", "low", "high")  # of a column

Floats = NDArray[np.float64]
Codes = NDArray[np.int8]


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
            object.__setattr__(self, name, one_per_key(self.schema, getattr(self, name), np.float64))
        object.__setattr__(self, "flag", one_per_key(self.schema, self.flag, np.int8))

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

    def longer(self, length: float) -> NDArray[np.bool_]:
        """Per key, whether the interval is longer than that, cut to no range; false where there is none.

        What is cut off depends on the estimate. A flag that depended on it would leave estimates far outside of the
        range unflagged, which are those that err (docs/decisions/0063-wide-by-length.md).
        """
        with np.errstate(invalid="ignore"):
            return self.high - self.low > length

    def widened(self, times: Floats) -> tuple[Floats, Floats]:
        """Limits so many times as far from the estimate; where there is no estimate, the limits as they are."""
        with np.errstate(invalid="ignore"):
            low, high = (self.values + times * (end - self.values) for end in (self.low, self.high))
        unknown = np.isnan(self.values)
        return np.where(unknown, self.low, low), np.where(unknown, self.high, high)

    def shown(self, least: float, most: float) -> Column:
        """The column cut to what is possible; where data are insufficient, no value and the whole range."""
        cut, doubtful = self.clipped(least, most), self.flag >= INSUFFICIENT
        values, se = (np.where(doubtful, np.nan, numbers) for numbers in (cut.values, cut.se))
        low, high = np.where(doubtful, least, cut.low), np.where(doubtful, most, cut.high)
        return dataclasses.replace(cut, values=values, se=se, low=low, high=high)

    def clipped(self, least: float, most: float) -> Column:
        """The column cut to what is possible, with the flag "clipped" wherever that changed a number."""
        cut = {name: np.clip(getattr(self, name), least, most) for name in ("values", "low", "high")}
        changed = np.any([(cut[name] != getattr(self, name)) & ~np.isnan(cut[name]) for name in cut], axis=0)
        flag = np.maximum(self.flag, np.where(changed, FLAGS.index("clipped"), 0).astype(np.int8))
        return dataclasses.replace(self, values=cut["values"], low=cut["low"], high=cut["high"], flag=flag)


def one_per_key(schema: Schema, numbers: Any, dtype: type[np.generic]) -> NDArray[Any]:
    """A read-only copy with one number per key; a single number stands for all keys."""
    array = np.array(numbers, dtype=dtype)
    if array.shape not in ((), (schema.d,)):
        raise MechanismError(
            "estimate/shape", f"There are {schema.d} keys, but the estimates have the shape {array.shape}."
        )
    own = array if array.shape else np.full(schema.d, array)
    own.setflags(write=False)
    return own


def written_numbers(numbers: Sequence[float] | Floats) -> list[float | str | None]:
    """Numbers as JSON can have them without loss: NaN is null, infinity the word "inf" or "-inf"."""
    return [
        None if math.isnan(number) else float(number) if math.isfinite(number) else str(float(number))
        for number in numbers
    ]


def read_numbers(entries: Sequence[Any]) -> Floats:
    """The numbers that ``written_numbers`` wrote."""
    return np.array([math.nan if entry is None else float(entry) for entry in entries], dtype=np.float64)
