"""What an analyst gets: for every key a frequency and a mean, each with its standard error, interval and flag.

Numbers are kept as they were estimated: frequencies unclipped, means on the scale [-1, 1] on which mechanisms work.
Whatever a person reads (an ``Interval``, a row, a frame, JSON) shows means in the schema's units, unless
``unit=True`` asks for [-1, 1]. ``display()`` is the only place that clips, and it says so by a flag.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from keyveil.core.columns import (
    ALMOST,
    FLAGS,
    INSUFFICIENT,
    NUMBERS,
    SHRUNK,
    WIDE,
    Codes,
    Column,
    Floats,
    Interval,
    one_per_key,
    read_numbers,
    worst,
    written_numbers,
)
from keyveil.core.discovery import Decision, told_from_absent, widening
from keyveil.core.epsilon import decimal_text
from keyveil.core.errors import MechanismError
from keyveil.core.groups import groups_of_keys
from keyveil.core.rendering import look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from keyveil.core.attacked import Attacked
    from keyveil.core.schema import Schema
    from keyveil.core.undercount import Undercount
    from keyveil.frames.truth import Truth

__all__ = [
    "FLAGS",
    "INSUFFICIENT",
    "NUMBERS",
    "OPTIONAL",
    "Backend",
    "Codes",
    "Column",
    "Estimates",
    "Floats",
    "Header",
    "Interval",
    "read_numbers",
    "unreadable",
    "worst",
    "written_numbers",
]

OPTIONAL = ("product", "product_se", "covariance", "scores", "product_noise_se")  # of estimates
Backend = Literal["pandas", "polars", "pyarrow"]


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
    undercount: Undercount | None = None  # what the cap on pairs hides; nothing where no cap can bind
    approximate: bool = False  # the tally is not of reports: a simulation drew it from a normal limit

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
            "undercount": None if self.undercount is None else self.undercount.document(),
            **({"approximate": True} if self.approximate else {}),
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
    product_noise_se: Floats | None = None  # of the product by chance alone, where ``product_se`` allows for more
    alone: Codes | None = None  # flags of the means, each key on its own; those of ``mean`` unless given
    truth: Truth | None = None
    attacked: Attacked | None = None  # how far crafted reports could have moved them, where that was asked

    def __post_init__(self) -> None:
        object.__setattr__(self, "respondents", one_per_key(self.schema, self.respondents, np.int64))
        wide = self._wide_frequencies()
        object.__setattr__(self, "frequency", self.frequency.flagged("wide", wide))
        object.__setattr__(self, "mean", self.mean.flagged("wide", self.mean.longer(2 * WIDE)))
        alone = self.mean.flag if self.alone is None else self.alone
        object.__setattr__(self, "alone", one_per_key(self.schema, alone, np.int8))
        if not self.frequency.absent and not self.mean.absent:
            own = self.mean.flag != SHRUNK  # rests on its key's frequency, not on what other keys say
            object.__setattr__(self, "mean", self.mean.flagged("wide", wide & own))
            doubtful = self._untold & own
            object.__setattr__(self, "mean", self.mean.flagged("insufficient", doubtful))
        for name in OPTIONAL:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, one_per_key(self.schema, getattr(self, name), np.float64))

    def _wide_frequencies(self) -> NDArray[np.bool_]:
        """The keys whose interval is too long; where one is, also those whose interval is hardly shorter.

        Standard errors rise a little with the estimate. With one limit for each key the few that stay below it would be
        those that err (docs/decisions/0131-wide-together.md). Upper limits under a cap rise with it a lot, so that keys
        are also compared by what lies below the estimate.
        """
        column, wide = self.frequency, self.frequency.longer(WIDE)
        if not wide.any():
            return wide
        below = column.values - column.low
        with np.errstate(invalid="ignore"):
            alike: NDArray[np.bool_] = below >= ALMOST * below[wide].min()
        return column.longer(ALMOST * WIDE) | alike

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
        """The same numbers under another header: what a round says, as the answer of its protocol.

        What is known of a cap stays, unless the header says it itself.
        """
        undercount = self.header.undercount if header.undercount is None else header.undercount
        return dataclasses.replace(self, header=dataclasses.replace(header, undercount=undercount))

    def flagged(self, flag: str, where: NDArray[np.bool_] | None = None) -> Estimates:
        """The same estimates with a flag on some keys, or on all, where there is none that is more severe."""
        marked = np.ones(self.schema.d, dtype=np.bool_) if where is None else where
        assert self.alone is not None
        alone = dataclasses.replace(self.mean, flag=self.alone).flagged(flag, marked).flag
        return dataclasses.replace(
            self, frequency=self.frequency.flagged(flag, marked), mean=self.mean.flagged(flag, marked), alone=alone
        )

    def display(self) -> Estimates:
        """A copy for the eye: frequencies cut to [0, 1] and means to [-1, 1], unknown where data are insufficient.

        Never compute with it: it is biased.
        """
        frequency, mean = self.frequency.shown(0, 1), self.mean.shown(-1, 1)
        return dataclasses.replace(self, frequency=frequency, mean=mean, scores=self.distances)

    def chosen(self, count: int) -> Estimates:
        """A copy for lists of the ``count`` most frequent keys: frequencies have the limits of ``selected``.

        Where every key is decided on its own, the limits stay as well.
        """
        if self.frequency.absent or self.header.decision == "per-key":
            return self
        low, high = self.selected(count)
        frequency = dataclasses.replace(self.frequency, low=low, high=high)
        return dataclasses.replace(self, frequency=frequency, scores=self.distances)

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
        moved = {} if self.attacked is None else {"attacked": self.attacked.document(self.frequency.values)}
        told = {"estimates": self.rows(unit=unit), "exact": self.exact()}
        return {**described, **self.header.document(), **told, **moved}

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

    def to_frame(self, backend: Backend = "pandas", *, unit: bool = False, empty: bool = False) -> Any:
        """The rows as a frame of pandas, polars or pyarrow; unknown numbers are missing values.

        Columns in which nothing is known are left out, such as the truth outside of simulations, unless ``empty``.
        """
        columns = self._columns(unit)
        known = {name: cells for name, cells in columns.items() if empty or not _unknown(cells)}
        return look("estimates.frame")(known, backend)

    def plot(self, ax: Axes | Sequence[Axes] | None = None, top: int = 20, truth: Truth | None = None) -> Figure:
        """Intervals of the most frequent keys, frequencies beside means, on axes of your own or a new figure."""
        return cast("Figure", look("estimates.plot")(self, ax, top, self.truth if truth is None else truth))

    def _repr_html_(self) -> str:
        return str(look("estimates.table")(self))

    def __repr__(self) -> str:
        return (
            f"Estimates({self.mechanism}, ε={decimal_text(self.epsilon)}, n={self.n:,}, d={self.schema.d}, "
            f"confidence={self.confidence:g}{', approximate' if self.header.approximate else ''})"
        )

    def _columns(self, unit: bool) -> dict[str, Any]:
        frequency, mean = self.frequency, self.mean if unit else self.mean.in_units
        known_truth = (np.nan, np.nan) if self.truth is None else (self.truth.frequency, self.truth.mean)
        true_frequency, true_mean = (one_per_key(self.schema, numbers, np.float64) for numbers in known_truth)
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
            **({} if self.attacked is None else self.attacked.columns(unit=unit)),
        }
        known = {name: np.where(np.isfinite(array), array, np.nan) for name, array in numbers.items()}
        flags = {
            "flag": list(self.flag),
            "frequency_flag": [FLAGS[code] for code in self.frequency.flag],
            "mean_flag": [FLAGS[code] for code in self.mean.flag],
        }
        groups = {} if self.schema.groups is None else {"group": groups_of_keys(self.schema)}
        about = {"approximate": [True] * self.schema.d} if self.header.approximate else {}
        return {"key": list(self.schema.keys), **groups, **known, **flags, **about}


def _unknown(cells: Any) -> bool:
    """Whether a column holds numbers, none of which is known."""
    return isinstance(cells, np.ndarray) and bool(np.isnan(cells).all())


def unreadable(why: str) -> MechanismError:
    return MechanismError("estimate/document", f"Estimates cannot be read from this: {why}.")


def _or_none(cell: Any) -> str | float | None:
    if isinstance(cell, str | bool):
        return cell
    return float(cell) if math.isfinite(cell) else None
