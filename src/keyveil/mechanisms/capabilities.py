"""What a mechanism declares that its reports can tell: small protocols that other rooms look for, never for a class.

    rates = can(mechanism, SupportRates)            # the mechanism seen as one that has them, or None
    joint = need(mechanism, JointStatistics)        # or one sentence that names the mechanisms that have them

Family bases implement most of them, so that a new mechanism inherits what its family can tell. A mechanism whose
options take something away says so in ``lacks``. Nothing has a silent default: what is not declared is not there.

Capabilities have methods only: looking for one must not compute anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import MechanismError

if TYPE_CHECKING:
    from fractions import Fraction

    from keyveil.core.channels import Ratio
    from keyveil.core.coins import Coins
    from keyveil.core.estimates import Estimates
    from keyveil.core.histogram import Histogram
    from keyveil.core.records import Records
    from keyveil.core.tally import Tally
    from keyveil.core.undercount import Undercount
    from keyveil.mechanisms.base import Mechanism
    from keyveil.mechanisms.dependence import Dependence, PairTerms
    from keyveil.mechanisms.effects import Effects
    from keyveil.mechanisms.families.set_response import Odds
    from keyveil.mechanisms.families.window import WindowCounts
    from keyveil.mechanisms.joint.cells import KeyTables
    from keyveil.mechanisms.joint.statistics import JointAnswers, Statistic
    from keyveil.mechanisms.merging import PartAnswer
    from keyveil.mechanisms.responses import Spread
    from keyveil.mechanisms.size_law import SizeLaw
    from keyveil.mechanisms.totals import Constraint

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

Takes = Literal["every set", "one key", "every key"]
"""Which records a mechanism can answer: any set of pairs (the empty one too), exactly one key, or a value for all keys.

Only the first suits devices: with the others, whether somebody answers at all depends on the record.
"""


@runtime_checkable
class SupportRates(Protocol):
    """A report says yes or no for a key."""

    def support_rates(self) -> tuple[Fraction, Fraction]:
        """How often it says yes for the key's holders and for everybody else: the p and q of a frequency oracle."""


@runtime_checkable
class KeyDependence(Protocol):
    """It is known how the estimates of two keys depend on each other, from how often one report supports both."""

    def dependence(self, population: bool = False) -> Dependence:
        """The constants of the covariance of two frequencies (docs/queries.md)."""


@runtime_checkable
class KeyCovariances(Protocol):
    """It is known how the estimates of two keys depend on each other, differently from pair to pair of keys."""

    def key_covariances(self, rows: Counts, columns: Counts, frequency: Floats, population: bool = False) -> PairTerms:
        """The covariances of the frequencies of some keys with those of others, [row, column], for one report.

        ``frequency`` is of all keys, within [0, 1]. The covariance of a key with itself is not looked at. Values of a
        person who holds both keys depend on each other at most as ``held`` says for people who are a sample.
        """


@runtime_checkable
class Parted(Protocol):
    """People answer one of several mechanisms, and what these say is merged."""

    def part_answers(self, tally: Tally) -> Sequence[PartAnswer]:
        """What the people of every part that was heard say, and how much it counts in the merged estimates.

        Not declared if the estimates of keys depend on each other in a way that one of the parts does not tell.
        """


@runtime_checkable
class KnownTotal(Protocol):
    """Something is known of the sum of all frequencies."""

    def constraint(self, estimates: Estimates) -> Constraint:
        """What holds for the frequencies behind these estimates."""


@runtime_checkable
class Histograms(Protocol):
    """Values are told as shares of people in cells of their range."""

    def histogram(self, tally: Tally, population: bool = False) -> Histogram:
        """The share of people with the key and a value in the cell, for every key and cell."""


def histogram_of(mechanism: Mechanism, tally: Tally, population: bool = False) -> Histogram | None:
    """How the values of every key are distributed, if the reports tell it."""
    told = can(mechanism, Histograms)
    return None if told is None else told.histogram(tally, population)


@runtime_checkable
class Cells(Histograms, Protocol):
    """Reports support cells of the value's range, so that the errors of a histogram are known."""

    def cell_odds(self) -> Sequence[Odds]:
        """How often a report supports cells, per key."""


@runtime_checkable
class Windows(Protocol):
    """Reports tell values through a sliding window."""

    def window_counts(self, tally: Tally) -> WindowCounts:
        """Counts of the window's outputs for every key, and how much of them is noise."""


@runtime_checkable
class JointStatistics(Protocol):
    """Reports tell about several keys at once."""

    def answer_jointly(
        self, tally: Tally, keys: Counts, statistics: Sequence[Statistic], population: bool = False
    ) -> JointAnswers:
        """Statistics of sets of keys ``[rows, places]``, with the covariance of the statistics of a row."""


@runtime_checkable
class ContingencyTables(Protocol):
    """Reports tell the cells of sets of keys, each key minus, absent or plus."""

    def contingency_tables(self, tally: Tally) -> KeyTables:
        """The sets of keys that reports are about, and how people are spread over the cells of each."""


@runtime_checkable
class PredictedVariance(Protocol):
    """Errors are known before anybody reports."""

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        """Variances and covariance of the estimates of f and f·m per key.

        ``frequency`` and ``mean`` (on [-1, 1]) are the truth per key, ``sizes[k]`` is the share of people who hold k
        pairs, ``n`` the number of people. Bias is not part of it: records within the cap are taken as given.
        """


class Foreseen(NamedTuple):
    """Errors of f·m per key where values are cut: what is wrong on average, and variances with and without allowance.

    ``product`` is the variance of f·m and ``covariance`` that with f; the ``stated`` ones are those that intervals will
    be made of, which may allow for more.
    """

    bias: Floats
    product: Floats
    covariance: Floats
    stated_product: Floats
    stated_covariance: Floats


@runtime_checkable
class ForeseenValues(Protocol):
    """Large values are cut off, so that errors of f·m depend on more than frequencies, means and set sizes.

    Only predictions look for it: it is no question that reports answer, so it is not among ``CAPABILITIES``.
    """

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
        """Errors of f·m for ``n`` people like those of the ``records``, or of whom only the other numbers are known.

        Half of the holders have a value above the mean by ``deviation``, half below. The rest is as in
        ``predicted_spread``, after the cap. ``None`` if nothing is cut, and ``predicted_spread`` says all.
        """


class ForeseenCases(Protocol):
    """What may be said of a cap, in equally likely cases."""

    @property
    def scales(self) -> Floats:
        """What frequencies will be divided by in each case."""

    def each(self) -> Sequence[Undercount]:
        """All that will be said in each case."""


@runtime_checkable
class ForeseenUndercount(Protocol):
    """What a cap hides is measured, stated, and maybe corrected. Only predictions look for it, too."""

    def foreseen_undercounts(self, frequency: Floats, spread: Spread, sizes: Floats, n: int) -> ForeseenCases | None:
        """What will be said of the cap, in equally likely cases; ``None`` if nobody is asked.

        ``frequency`` is what the cap leaves and ``spread`` its errors, ``sizes`` the shares of people by true set size.
        """


class CountDraws(Protocol):
    """Binomial and multinomial numbers; NumPy's generators are such a thing, and only the lab has them."""

    def binomial(self, n: Any, p: Any) -> Any: ...
    def multinomial(self, n: Any, pvals: Any) -> Any: ...


@runtime_checkable
class TallyLaw(Protocol):
    """The tally of many people can be drawn without drawing their reports."""

    def draw_tally(self, records: Records, coins: Coins, draws: CountDraws) -> Counts:
        """Counts in the law of ``fold`` over everybody's report."""


@runtime_checkable
class Announced(Protocol):
    """Which options a collector may set after it has seen answers, and the worst that it can do with them."""

    def announced(self) -> frozenset[str]:
        """The names of these options; all others are fixed before the first answer."""

    def announced_forms(self) -> Sequence[Mechanism]:
        """This mechanism under every announcement that matters, extremes included; call it at reduced sizes."""

    def announced_ratio(self) -> Ratio:
        """Closed form: the largest ratio of the probabilities of one report, whatever is announced."""

    def worst_announced(self) -> Mechanism:
        """This mechanism, at its own sizes, under the announcement whose reports tell most; for audits."""


@runtime_checkable
class LearnsSizes(Protocol):
    """Options follow from how many pairs people hold. A class says which, before there is a mechanism."""

    @classmethod
    def options_for_sizes(cls, law: SizeLaw, cap: int, keys: int) -> dict[str, Any]:
        """The options for people whose set sizes have this law, over so many ``keys``; few hold more than ``cap``."""


@runtime_checkable
class Capped(Protocol):
    """Only so many pairs of a record count: frequencies of records above the cap come out too low."""

    def cap(self) -> int:
        """The most pairs of a record that count in full."""


@runtime_checkable
class ReportEffects(Protocol):
    """It is known how far one report can move the estimates, whatever its sender chose."""

    def report_effects(self, tally: Tally) -> Sequence[Effects]:
        """The averages that the estimates from these reports consist of, and what one report can add to each.

        A report counts in one of them. Public words are taken as chosen freely.
        """


Capability = TypeVar("Capability")

_MEANING: dict[type, str] = {
    SupportRates: "yes or no for a key",
    KeyDependence: "how the estimates of two keys depend on each other",
    KeyCovariances: "how the estimates of two keys depend on each other, pair by pair",
    Parted: "what parts of the people say",
    KnownTotal: "what frequencies sum to",
    Histograms: "the distribution of values, as a histogram",
    Cells: "the distribution of values, cell by cell",
    Windows: "the distribution of values, through a window",
    JointStatistics: "how keys depend on each other",
    ContingencyTables: "the cells of sets of keys",
    PredictedVariance: "its errors before anybody reports",
    TallyLaw: "the law of its tally",
    Announced: "what may be announced to it",
    LearnsSizes: "which options suit people's set sizes",
    Capped: "how many pairs count",
    ReportEffects: "how far crafted reports can move its estimates",
}

KEYS_TOGETHER: tuple[type, ...] = (KeyDependence, KeyCovariances, JointStatistics, Parted)
"""Capabilities that tell how the estimates of keys depend on each other, each in its own way."""

CAPABILITIES = frozenset(_MEANING)
"""Every capability that there is."""


def can(mechanism: Any, capability: type[Capability]) -> Capability | None:
    """The mechanism seen as one that has the capability; ``None`` if it does not have it."""
    has = _has_methods(type(mechanism), capability)  # type: ignore[arg-type]  # classes can be hashed
    return mechanism if has and capability not in mechanism.lacks else None


@cache
def _has_methods(kind: type, capability: type) -> bool:
    """Python 3.11 asks for every method of a protocol each time, and a mechanism of parts asks thousands of times."""
    return issubclass(kind, capability)


def keys_together(mechanism: Any) -> bool:
    """Whether it is known how the estimates of keys depend on each other: what sums and comparisons of keys need."""
    return any(can(mechanism, one) for one in KEYS_TOGETHER)


def need(mechanism: Any, capability: type[Capability], code: str = "mechanism/capability") -> Capability:
    """The same, refused with a sentence that names the mechanisms that have it."""
    found = can(mechanism, capability)
    if found is None:
        raise MechanismError(
            code, f"Reports of {mechanism.title} do not tell {_MEANING[capability]}; those of {who_can(capability)} do."
        )
    return found


def who_can(*capabilities: type) -> str:
    """The names of the mechanisms that have one of these capabilities, as a phrase.

    Where the usual options do not bring it, the name comes with the first that do: "kvue with bins".
    """
    from keyveil.mechanisms.registry import kinds  # which loads every mechanism, and only a refusal needs it

    return _who_can(kinds(), capabilities)


@lru_cache(maxsize=64)  # a plan is refused the same by several mechanisms, and says of each why
def _who_can(_: tuple[tuple[str, type], ...], capabilities: tuple[type, ...]) -> str:
    """The phrase, as long as the mechanisms that there are stay the same."""
    from keyveil.mechanisms.registry import forms

    told: list[str] = []
    for _, of_name in groupby(forms(), key=lambda form: form[1].name):
        usual, *others = ((title, any(can(one, wanted) for wanted in capabilities)) for title, one in of_name)
        told += [usual[0]] if usual[1] else [title for title, has in others if has][:1]
    return ", ".join(told[:-1]) + " and " + told[-1] if len(told) > 1 else "".join(told) or "none"
