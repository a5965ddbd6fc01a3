"""Questions as data, answered as data: what the command line and a collector's ``POST /queries`` have in common.

    {"kind": "conditional", "key": "pepsi", "given": {"burger": true, "fries": false}}
    {"kind": "quantiles", "quantiles": ["0.25", "0.5"], "keys": ["pepsi"]}      without keys: of every key;
                                                        "within": "uniform"     values are evenly spread within cells
    {"kind": "subset", "keys": ["burger", "fries"]}
    {"kind": "compare", "keys": ["burger", "fries"], "of": "mean"}              without of: frequencies
    {"kind": "top", "count": 10}

Where a schema has groups, "de/*" and "*/fries" among the keys stand for all keys of a group, and for a key in all
groups. Each may say a ``confidence``; a collector also takes a ``round``. A question is read strictly, before any
number is looked at. Answers are rows of plain numbers; what is not known is ``None``, and a flag says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from keyveil.core.canonical import exact
from keyveil.core.errors import KeyveilError, MechanismError
from keyveil.core.estimates import Estimates, Interval
from keyveil.core.groups import matching
from keyveil.core.hints import did_you_mean
from keyveil.core.tally import Tally
from keyveil.learn.comparisons import Of
from keyveil.learn.places import Within
from keyveil.mechanisms.base import Mechanism

if TYPE_CHECKING:
    from keyveil.learn.distributions import Distributions

MOST_QUANTILES = 100
MOST_CONDITIONS = 32
MOST_ROUNDS = 1 << 16
LEAST_CONFIDENCE, MOST_CONFIDENCE = 1e-3, 1 - 1e-9  # beyond them normal quantiles are 0 or infinite in doubles

Row = dict[str, Any]

_FIELDS = {  # of each kind: what it must say, and what it may
    "conditional": ({"key"}, {"given"}),
    "quantiles": ({"quantiles"}, {"keys", "within"}),
    "subset": ({"keys"}, set[str]()),
    "compare": ({"keys"}, {"of"}),
    "top": ({"count"}, set[str]()),
}
KINDS = tuple(_FIELDS)


@dataclass(frozen=True)
class Question:
    """A question whose document is well formed; ``answer`` refuses what the reports cannot answer."""

    kind: str
    key: str = ""
    given: Mapping[str, bool] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    quantiles: tuple[float, ...] = ()
    of: Of = "frequency"
    within: Within = "any"
    count: int = 0
    round: int | None = None
    confidence: float | None = None

    @property
    def asks(self) -> str:
        """What the reports must be able to answer, as ``mechanisms.questions.ASKABLE`` calls it."""
        return "compare-means" if self.kind == "compare" and self.of == "mean" else self.kind

    @classmethod
    def read(cls, document: Any) -> Question:
        """The question that a document asks, refused with the first thing that is wrong."""
        if not isinstance(document, Mapping):
            raise _refused("document", f"A question is an object with a kind, not a {type(document).__name__}.")
        kind = document.get("kind")
        if not isinstance(kind, str) or kind not in _FIELDS:
            hint, there = did_you_mean(kind, KINDS), f"{', '.join(KINDS[:-1])} or {KINDS[-1]}"
            raise _refused("kind", f"A question's kind is {there}, not {kind!r}{hint}.")
        needed, wanted = _FIELDS[kind]
        missing, strange = needed - set(document), set(document) - needed - wanted - {"kind", "round", "confidence"}
        if missing:
            raise _refused("document", f"A question of kind {kind} says {', '.join(sorted(missing))}.")
        if strange:
            hint = did_you_mean(min(strange, key=str), needed | wanted | {"round", "confidence"})
            told = ", ".join(sorted(map(repr, strange)))
            raise _refused("document", f"A question of kind {kind} has no {told}{hint}.")
        read = cls(kind, **{name: _READ[name](document[name]) for name in document if name != "kind"})
        return read.checked()

    def checked(self) -> Question:
        """The question itself, refused if its keys, which may stand for several or be the same, are too many or few."""
        if self.kind == "compare" and len(set(self.keys)) != 2:
            raise _refused("keys", f"Two different keys are compared, not {len(set(self.keys))}.")
        return self


def answer(
    question: Mapping[str, Any] | Question,
    mechanism: Mechanism,
    tally: Tally,
    estimates: Estimates,
    min_reports: int = 0,
    confidence: float = 0.95,
    population: bool = False,
) -> list[Row]:
    """The rows that answer a question; nothing about fewer than ``min_reports`` reports.

    A confidence in the question goes before ``confidence``. What these reports can never tell is an error that says
    which mechanism could.
    """
    read = question if isinstance(question, Question) else Question.read(question)
    read = replace(read, keys=tuple(matching(mechanism.schema, read.keys))).checked() if read.keys else read
    if tally.reports < min_reports:
        raise MechanismError("question/too-few", f"There are {tally.reports} reports, fewer than {min_reports}.")
    sure = confidence if read.confidence is None else read.confidence
    match read.kind:
        case "conditional":
            return [_conditional(read, mechanism, tally, min_reports, sure, population)]
        case "quantiles":
            named = bool(read.keys) or estimates.header.decision == "per-key"
            laws = _laws(mechanism, tally, sure, population, read.within, named)
            return _quantiles(read, laws, estimates, min_reports)
        case "subset":
            return [_subset(read, mechanism, tally, estimates, sure)]
        case "compare":
            return [_comparison(read, mechanism, tally, estimates, sure)]
        case _:
            return _ranking(read, estimates, sure)


def numbers(one: Interval) -> Row:
    """An interval as JSON has it: unknown and boundless numbers are ``None``."""
    return {name: part if isinstance(part, str) else known(part) for name, part in asdict(one).items()}


def known(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


# -- answers --------------------------------------------------------------------------------------------------------


def _conditional(
    question: Question, mechanism: Mechanism, tally: Tally, min_reports: int, confidence: float, population: bool
) -> Row:
    from keyveil.learn.conditionals import Conditionals

    conditionals = Conditionals(mechanism, tally, min_reports, confidence, population)
    frequency = numbers(conditionals.frequency(question.key, question.given))
    try:
        mean: Row | None = numbers(conditionals.mean(question.key, question.given))
    except MechanismError as refused:
        if refused.code != "question/no-values":
            raise
        mean = None  # these reports carry no values
    return {"key": question.key, "given": dict(question.given), "frequency": frequency, "mean": mean}


def _laws(
    mechanism: Mechanism, tally: Tally, confidence: float, population: bool, within: Within, per_key: bool
) -> Distributions:
    from keyveil.learn.distributions import distribution

    return distribution(mechanism, tally, confidence=confidence, population=population, within=within, per_key=per_key)


def _quantiles(question: Question, laws: Distributions, estimates: Estimates, min_reports: int) -> list[Row]:
    rows = []
    for key in question.keys or laws.schema.keys:
        few = _holders(key, laws.n, estimates) < min_reports
        for level in question.quantiles:
            found = laws.quantile(level, key)
            if few:
                edges = laws.of(key).edges
                found = Interval(math.nan, float(edges[0]), float(edges[-1]), math.nan, "suppressed")
            rows.append({"key": key, "quantile": level, "value": numbers(found)})
    return rows


def _holders(key: str, reports: int, estimates: Estimates) -> float:
    """How many people hold the key, as estimated; all who reported where frequencies are not estimated."""
    if estimates.frequency.absent:
        return reports
    frequency = estimates.frequency[key].value
    return 0.0 if math.isnan(frequency) else reports * frequency


def _subset(question: Question, mechanism: Mechanism, tally: Tally, estimates: Estimates, confidence: float) -> Row:
    from keyveil.learn.comparisons import subset_sum

    found = subset_sum(estimates, question.keys, mechanism=mechanism, tally=tally, confidence=confidence)
    return {"keys": list(question.keys), "sum": numbers(found)}


def _comparison(question: Question, mechanism: Mechanism, tally: Tally, estimates: Estimates, confidence: float) -> Row:
    from keyveil.learn.comparisons import compare_keys

    first, second = question.keys
    found = compare_keys(estimates, first, second, question.of, mechanism=mechanism, tally=tally, confidence=confidence)
    return {
        "keys": [first, second],
        "of": question.of,
        "difference": numbers(found.difference),
        "p_value": known(found.p_value),
    }


def _ranking(question: Question, estimates: Estimates, confidence: float) -> list[Row]:
    from keyveil.learn.ranking import top

    found = top(estimates, question.count, confidence=confidence)
    return [
        {
            "key": one.key,
            **numbers(one.frequency),
            "selected_low": known(one.selected_low),
            "selected_high": known(one.selected_high),
            "rank": one.rank,
            "best": one.best,
            "worst": one.worst,
            "certain": one.key in found.certain,
        }
        for one in found.keys
    ]


# -- reading --------------------------------------------------------------------------------------------------------


def _name(given: Any) -> str:
    if not isinstance(given, str):
        raise _refused("key", f"A key is named by a string, not {given!r}.")
    return given


def _names(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list | tuple) or not given:
        raise _refused("keys", "The keys of a question are a list of at least one name.")
    return tuple(_name(one) for one in given)


def _condition(given: Any) -> dict[str, bool]:
    if not isinstance(given, Mapping) or len(given) > MOST_CONDITIONS:
        raise _refused("given", f"A condition is an object of at most {MOST_CONDITIONS} keys, each true or false.")
    for name, held in given.items():
        if not isinstance(held, bool):
            raise _refused("given", f"A condition on {name!r} is true or false, not {held!r}.")
    return {_name(name): held for name, held in given.items()}


def _levels(given: Any) -> tuple[float, ...]:
    if not isinstance(given, list | tuple) or not 1 <= len(given) <= MOST_QUANTILES:
        raise _refused("quantiles", f"Quantiles are a list of 1 to {MOST_QUANTILES} numbers from 0 to 1.")
    return tuple(_share(one, "quantiles", "A quantile is a number from 0 to 1") for one in given)


def _confidence(given: Any) -> float:
    share = _share(given, "confidence", "A confidence is a number between 0 and 1")
    if not LEAST_CONFIDENCE <= share <= MOST_CONFIDENCE:
        least, most = LEAST_CONFIDENCE, MOST_CONFIDENCE
        raise _refused("confidence", f"A confidence lies between {least:g} and {most:.10g}, not at {given!r}.")
    return share


def _share(given: Any, code: str, sentence: str) -> float:
    """A number from 0 to 1, spelled as a number or as a decimal string."""
    try:
        share = exact(given)
    except ValueError:
        share = None
    if share is None or not 0 <= share <= 1:
        raise _refused(code, f"{sentence}, not {given!r}.")
    return float(share)


def _whole(code: str, most: int) -> Callable[[Any], int]:
    def read(given: Any) -> int:
        if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= most:
            raise _refused(code, f"The {code} of a question is a whole number from 1 to {most}, not {given!r}.")
        return given

    return read


def _of(given: Any) -> Of:
    if given not in ("frequency", "mean"):
        raise _refused("of", f"Keys are compared by frequency or mean, not {given!r}.")
    return "mean" if given == "mean" else "frequency"


def _within(given: Any) -> Within:
    if given not in ("any", "uniform"):
        raise _refused("within", f"Within cells values have any law or a uniform one, not {given!r}.")
    return "uniform" if given == "uniform" else "any"


_READ: dict[str, Callable[[Any], Any]] = {
    "key": _name,
    "given": _condition,
    "keys": _names,
    "quantiles": _levels,
    "of": _of,
    "within": _within,
    "count": _whole("count", 1 << 31),
    "round": _whole("round", MOST_ROUNDS),
    "confidence": _confidence,
}


def _refused(code: str, sentence: str) -> KeyveilError:
    return MechanismError(f"question/{code}", sentence)
