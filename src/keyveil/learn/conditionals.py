"""Questions about keys together: "will those who ordered burgers order Pepsi?", answered with an interval.

    conditionals = Conditionals(mechanism, tally, min_reports=1000)
    conditionals.frequency("pepsi", given={"burger": True, "fries": False})
    conditionals.mean("pepsi", given={"burger": True})
    conditionals.matrix("lift").plot()

Works on the reports of ``moments``, ``marginals`` and ``ioh``. Ratios have Fieller's intervals; what the reports cannot
tell is flagged, and what they could never tell is an error that says which mechanism could.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.core.discovery import told_from_absent
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import FLAGS, Column, Interval
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.learn.matrix import KINDS, Matrix
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import JointStatistics, need
from keyveil.mechanisms.joint.ranks import Ints
from keyveil.mechanisms.joint.statistics import JointAnswers, Statistic, share, total
from keyveil.mechanisms.responses import Floats, Spread, fieller, normal_quantile

INSUFFICIENT, SUPPRESSED = FLAGS.index("insufficient"), FLAGS.index("suppressed")
Given = Mapping[str, bool]


class Ratio(NamedTuple):
    """Two statistics of a row of keys, the second of which is divided by the first."""

    keys: Ints  # [1, places]
    whole: Statistic
    part: Statistic


@dataclass(frozen=True, eq=False)
class Conditionals:
    """What the reports of a tally say about keys together.

    Below ``min_reports`` reports nothing is answered, and nothing about a group that is estimated to be smaller.
    """

    mechanism: Mechanism
    tally: Tally
    min_reports: int = 0
    confidence: float = 0.95
    population: bool = False

    def __post_init__(self) -> None:
        need(self.mechanism, JointStatistics, "question/no-joint")
        normal_quantile(self.confidence)
        self.tally.refuse_other(self.mechanism.fingerprint, self.mechanism.tally_shape)

    @property
    def schema(self) -> Schema:
        return self.mechanism.schema

    def frequency(self, key: str, given: Given | None = None) -> Interval:
        """How many of the people who hold (True) and lack (False) the given keys hold the key."""
        keys, condition = self._with_key(key, given)
        if 0 in condition:
            return Interval(1.0, 1.0, 1.0, 0.0)
        column = self._frequencies(keys, condition)
        return _interval(column, 0)

    def mean(self, key: str, given: Given | None = None) -> Interval:
        """The mean value of a key among its holders who also hold (True) and lack (False) the given keys."""
        keys, condition = self._with_key(key, given)
        return _interval(_in_units(self.schema, self._means(keys, condition), keys[:, 0]), 0)

    def ratio(self, of: Literal["frequency", "mean"], key: str, given: Given | None = None) -> Ratio:
        """What ``frequency`` or ``mean`` (on [-1, 1]) is a ratio of: a row of keys, the lower and the upper part."""
        keys, condition = self._with_key(key, given)
        held = share({**condition, 0: True})
        return Ratio(keys, *((share(condition), held) if of == "frequency" else (held, total(0, condition))))

    def share(self, condition: Given) -> Interval:
        """How many of all people hold (True) and lack (False) these keys."""
        keys, places = self._condition(condition)
        return _interval(self._shares(keys, places), 0)

    def matrix(self, kind: str = "frequency") -> Matrix:
        """All pairs of keys: ``frequency`` or ``mean`` of a key given another, their ``joint`` share, or the ``lift``.

        The lift P[both] / (P[one]·P[other]) is 1 where two keys are independent.
        """
        if kind not in KINDS:
            raise MechanismError("question/kind", f"There is a matrix of {', '.join(KINDS)}, not of {kind!r}.")
        d, together = self.schema.d, {0: True, 1: True}
        pairs = np.argwhere(~np.eye(d, dtype=bool))
        each = np.arange(d)[:, None]
        alone = self._shares(each, {0: True})
        if kind == "frequency":
            one = np.ones(d)
            own, others = Column(Schema(keys=d), one, 0 * one, one, one), self._frequencies(pairs, {1: True})
        elif kind == "mean":
            own = _in_units(self.schema, self._means(each, {}), each[:, 0])
            others = _in_units(self.schema, self._means(pairs, {1: True}), pairs[:, 0])
        elif kind == "joint":
            own, others = alone, self._shares(pairs, together)
        else:
            own, others = self._lifts(each, (0, 0)), self._lifts(pairs, (0, 1))
        return Matrix.of(self.schema, kind, alone.values, own, others, pairs)

    def dependent(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.bool_]:
        """For each pair of keys, whether people hold both more or less often than if the two were independent, [pair].

        Tests P[both] - P[one]·P[other] = 0 from both sides, with errors to first order. All pairs are decided together
        by Benjamini and Yekutieli's rule, because pairs share keys: whatever their dependence, the expected share of
        independent pairs among those told is at most 1 - ``confidence`` (docs/decisions/0128-pairs-of-keys.md).
        """
        keys = np.array([[self._index(one), self._index(other)] for one, other in pairs], dtype=np.int64).reshape(-1, 2)
        answers = self._answer(keys, [share({0: True, 1: True}), share({0: True}), share({1: True})])
        both, one, other = answers.values.T
        slopes = np.array([np.ones(len(keys)), -other, -one])
        variance = np.einsum("ir,rij,jr->r", slopes, answers.covariance, slopes)
        people = self.tally.reports * np.minimum(one, other)
        known = (answers.respondents > 0) & (variance > 0) & (people >= self.min_reports)
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = np.where(known, np.abs(both - one * other) / np.sqrt(variance), np.nan)
        return told_from_absent(scores, "by", (1 + self.confidence) / 2)  # half of the level for either side

    # -- ratios -------------------------------------------------------------------------------------------------

    def _shares(self, keys: Ints, condition: Mapping[int, bool]) -> Column:
        answers = self._answer(keys, [share(condition)])
        value, se = answers.values[:, 0], np.sqrt(answers.covariance[:, 0, 0])
        z, unknown = normal_quantile(self.confidence), answers.respondents == 0
        low, high = np.where(unknown, 0, value - z * se), np.where(unknown, 1, value + z * se)
        flag = np.where(unknown, INSUFFICIENT, 0).astype(np.int8)
        column = Column(Schema(keys=len(keys)), value, se, low, high, flag)
        return self._suppressed(column, np.ones(len(keys)), (0.0, 1.0))

    def _frequencies(self, keys: Ints, condition: Mapping[int, bool]) -> Column:
        """Of the people who fulfil the condition, those who hold the key at place 0."""
        answers = self._answer(keys, [share(condition), share({**condition, 0: True})])
        column = self._ratio(answers, (0.0, 1.0))
        return self._suppressed(column, answers.values[:, 0], (0.0, 1.0))

    def _means(self, keys: Ints, condition: Mapping[int, bool]) -> Column:
        """The mean at place 0 among its holders who fulfil the condition, on [-1, 1]."""
        answers = self._answer(keys, [share({**condition, 0: True}), total(0, condition)])
        column = self._ratio(answers, (-1.0, 1.0))
        return self._suppressed(column, answers.values[:, 0], (-1.0, 1.0))

    def _lifts(self, keys: Ints, places: tuple[int, int]) -> Column:
        """P[both] / (P[one]·P[other]) with errors to first order."""
        answers = self._answer(keys, [share(dict.fromkeys(places, True)), *(share({place: True}) for place in places)])
        (both, one, other), z = answers.values.T, normal_quantile(self.confidence)
        singles = np.sqrt(answers.covariance[:, (1, 2), (1, 2)])
        known = (answers.respondents > 0) & (answers.values[:, 1:] > 0).all(axis=1)
        sure = known & (answers.values[:, 1:] > z * singles).all(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = np.array([1 / (one * other), -both / (one**2 * other), -both / (one * other**2)])
            lift = np.where(known, both / (one * other), np.nan)
            se = np.where(known, np.sqrt(np.einsum("ir,rij,jr->r", slopes, answers.covariance, slopes)), np.nan)
            low, high = np.where(sure, lift - z * se, 0.0), np.where(sure, lift + z * se, np.inf)
        flag = np.where(sure, 0, INSUFFICIENT).astype(np.int8)
        column = Column(Schema(keys=len(keys)), lift, se, low, high, flag)
        return self._suppressed(column, np.minimum(one, other), (0.0, np.inf))

    def _ratio(self, answers: JointAnswers, limits: tuple[float, float]) -> Column:
        """The second answer over the first."""
        whole, part = np.where(answers.respondents > 0, answers.values.T, np.nan)
        spread = Spread(answers.covariance[:, 0, 0], answers.covariance[:, 1, 1], answers.covariance[:, 0, 1])
        column = fieller(Schema(keys=len(whole)), whole, part, spread, normal_quantile(self.confidence))
        unknown = column.flag > 0
        low, high = np.where(unknown, limits[0], column.low), np.where(unknown, limits[1], column.high)
        return Column(column.schema, column.values, column.se, low, high, column.flag)

    def _suppressed(self, column: Column, group: Floats, limits: tuple[float, float]) -> Column:
        """Nothing about too few people."""
        people = self.tally.reports * np.clip(np.nan_to_num(group), 0, 1)
        few = people < self.min_reports
        value, se = (np.where(few, np.nan, part) for part in (column.values, column.se))
        low, high = np.where(few, limits[0], column.low), np.where(few, limits[1], column.high)
        return Column(column.schema, value, se, low, high, np.where(few, SUPPRESSED, column.flag))

    # -- statistics ---------------------------------------------------------------------------------------------

    def _answer(self, keys: Ints, statistics: Sequence[Statistic]) -> JointAnswers:
        reports = need(self.mechanism, JointStatistics, "question/no-joint")
        return reports.answer_jointly(self.tally, keys, statistics, self.population)

    def _with_key(self, key: str, given: Given | None) -> tuple[Ints, dict[int, bool]]:
        """The key at place 0 and the given ones after it; the key itself may be given, too, if it is held."""
        first, rest = self._index(key), dict(given or {})
        own = {name for name in rest if self._index(name) == first}
        if any(not rest[name] for name in own):
            raise MechanismError("question/contradiction", f"Nobody holds {key!r} among the people who lack it.")
        keys, condition = self._condition({name: held for name, held in rest.items() if name not in own})
        shifted = {place + 1: held for place, held in condition.items()}
        return np.concatenate(([[first]], keys), axis=1), {**shifted, **({0: True} if own else {})}

    def _condition(self, given: Given) -> tuple[Ints, dict[int, bool]]:
        keys: dict[int, bool] = {}
        for name, held in given.items():
            if not isinstance(held, bool | np.bool_):
                raise MechanismError("question/condition", f"A condition on {name!r} is True or False, not {held!r}.")
            if keys.setdefault(self._index(name), bool(held)) != held:
                raise MechanismError("question/contradiction", f"Nobody both holds and lacks {name!r}.")
        return np.array([list(keys)], dtype=np.int64).reshape(1, -1), dict(enumerate(keys.values()))

    def _index(self, key: str) -> int:
        return self.schema.place(key)


def _interval(column: Column, row: int) -> Interval:
    value, low, high, se = (float(part[row]) for part in (column.values, column.low, column.high, column.se))
    return Interval(value, low, high, se, FLAGS[column.flag[row]])


def _in_units(schema: Schema, column: Column, keys: NDArray[np.int64]) -> Column:
    """Means of these keys from [-1, 1] to the schema's units."""
    with np.errstate(over="ignore", invalid="ignore"):  # a wild mean on a logarithmic scale is simply unknown
        values, low, high = (schema.from_unit(part, keys) for part in (column.values, column.low, column.high))
        se = column.se * schema.slope(column.values, keys)
    return Column(column.schema, values, se, low, high, column.flag).flagged("insufficient", ~np.isfinite(values))
