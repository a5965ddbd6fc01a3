"""Signs of crafted reports: statistics of single reports against their known law, whatever people hold.

Two things are looked at (``mechanisms.report_laws``). *What reports are about*, where public words say it: whoever
chooses his id speaks about the key that he wants, and then that key has more reports than a hash gives it. The tally
shows that. *Which symbols a report supports*: how many they are, and which of them come together. That is counted in a
sketch (``robustness.sketches``), which holds nothing about people and adds up like any tally.

Every test is calibrated: on honest reports the chance of an alarm is at most the level (docs/robustness.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import MechanismError
from keyveil.core.tally import Tally
from keyveil.kernels.normal import binomial_scores
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.report_laws import Asked, AskedAbout, ReportParts, Together
from keyveil.robustness.sketches import MOST_NUMBERS, Counts, Section, read_sketch

Floats = NDArray[np.float64]

LEVEL = 0.01  # the chance of an alarm on honest reports
EXPECTED = 10.0  # reports that a class of the test of counts has at least: fewer have no normal law
FEWEST = 3.0  # pairs of symbols that are expected together at least; below it the gamma law is no good one for counts
SWEEPS, HALVINGS = 30, 40  # of the fit of a mixture; more change no share by 1e-6 (tests/robustness/test_detection.py)
_NAMED = 5  # keys that a sentence names


@dataclass(frozen=True)
class Sign:
    """What one test says: the chance of so much or more on honest reports, in words, and the keys it is about."""

    test: str
    chance: float
    sentence: str
    keys: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        return {"test": self.test, "chance": self.chance, "sentence": self.sentence, "keys": list(self.keys)}


@dataclass(frozen=True)
class Detection:
    """All tests that there are for a mechanism; an alarm where one of them is beyond its part of the level."""

    signs: tuple[Sign, ...]
    level: float = LEVEL

    @property
    def found(self) -> tuple[Sign, ...]:
        """The tests that raise an alarm."""
        return tuple(one for one in self.signs if one.chance <= self.level / max(len(self.signs), 1))

    @property
    def alarm(self) -> bool:
        return bool(self.found)

    def document(self) -> dict[str, Any]:
        return {
            "alarm": self.alarm,
            "level": self.level,
            "tests": [one.test for one in self.signs],
            "found": [one.document() for one in self.found],
        }

    def __str__(self) -> str:
        if not self.signs:
            return "Nothing of a single report has a known law here, so crafted ones cannot be told."
        if not self.alarm:
            return "Reports look as honest ones do."
        return " ".join(one.sentence for one in self.found)


def detect(mechanism: Mechanism, tally: Tally, sketched: Tally | None = None, level: float = LEVEL) -> Detection:
    """Hold a tally, and a sketch of the same reports where there is one, against the law of honest reports."""
    if not 0 < level < 1:
        raise MechanismError("detect/level", f"The level of an alarm lies between 0 and 1, not at {level:g}.")
    signs = list(_of_words(mechanism, tally))
    if sketched is not None:
        for section, counts in read_sketch(mechanism, sketched):
            if counts["reports"][0]:
                signs += _of_symbols(section, counts)
    return Detection(tuple(signs), level)


def tests_words(mechanism: Mechanism) -> bool:
    """Whether the tally alone shows something: public words say what a report is about."""
    parts = mechanism.parts if isinstance(mechanism, ReportParts) else ()
    return any(isinstance(one, AskedAbout) for one in (mechanism, *parts))


# -- what reports are about -----------------------------------------------------------------------------------------


def _of_words(mechanism: Mechanism, tally: Tally) -> Iterator[Sign]:
    """Of the mechanism itself, and of each of its parts."""
    if tally.reports and isinstance(mechanism, AskedAbout):
        yield from _about(mechanism, mechanism.asked_about(tally), tally.reports)
    if isinstance(mechanism, ReportParts):
        for number, part in enumerate(mechanism.parts):
            own = mechanism.part_tally(tally, number)
            if own.reports and isinstance(part, AskedAbout):
                yield from _about(part, part.asked_about(own), own.reports)


def _about(mechanism: Mechanism, asked: Asked, n: int) -> list[Sign]:
    """Too many reports about one thing, and too uneven ones about all."""
    scores = np.empty(len(asked.counts))
    for share in np.unique(asked.shares):
        some = asked.shares == share
        counts = asked.counts[some].astype(np.float64)
        scores[some] = binomial_scores(counts, np.full(len(counts), float(n)), float(share))
    most = int(np.argmax(scores))
    surplus = round(float(asked.counts[most] - n * asked.shares[most]))
    keys = tuple(mechanism.schema.keys[key] for key in asked.keys[most] if key >= 0)
    about = f"about {', '.join(keys)}" if keys else f"in part {most + 1}"
    told = f"There are {surplus:,} more reports {about} than ids give: somebody may choose ids."
    spread = spread_chance(asked.counts, n * asked.shares)
    uneven = "Reports are spread over keys more unevenly than ids give: somebody may choose ids."
    return [
        Sign("one key", min(1.0, len(scores) * _tail(float(scores[most]))), told, keys),
        Sign("all keys", spread, uneven),
    ]


def spread_chance(counts: Counts, expected: Floats) -> float:
    """The chance of counts that differ as much from what is expected; small classes are counted as one.

    What is too small even together joins the smallest of the others, so that the classes always hold every report.
    """
    large = expected >= EXPECTED
    seen, law = counts[large].astype(np.float64), expected[large]
    others, rest = float(counts[~large].sum()), float(expected[~large].sum())
    if rest >= EXPECTED:
        seen, law = np.append(seen, others), np.append(law, rest)
    elif len(law):
        least = int(law.argmin())
        seen[least], law[least] = seen[least] + others, law[least] + rest
    return chi_squared_tail(float(((seen - law) ** 2 / law).sum()), len(law) - 1)


# -- which symbols reports support ----------------------------------------------------------------------------------


def _of_symbols(section: Section, counts: dict[str, Counts]) -> Iterator[Sign]:
    laws = section.laws
    if laws.numbers is not None:
        yield _numbers(section, laws.numbers, counts)
    if laws.together is not None:
        if section.labels > 1:
            yield _labels(section, laws.together, counts["labels"])
        yield _together(section, laws.together, counts)


def _numbers(section: Section, laws: Floats, counts: dict[str, Counts]) -> Sign:
    """How many symbols reports support, against the mixture of the laws that fits best."""
    numbers = counts["numbers"]
    fit = fitted(laws, numbers)
    most = int(np.argmax((numbers - fit.expected) / np.sqrt(np.maximum(fit.expected, 1))))
    surplus = round(float(numbers[most] - fit.expected[most]))
    keys: tuple[str, ...] = ()
    if "by number" in counts:
        keys = _standing_out(section, counts["by number"][min(most, MOST_NUMBERS - 1)])
    whose = f", most of them {', '.join(keys)}" if keys else ""
    what = "keys" if section.labels == 1 else "symbols"
    told = f"There are {surplus:,} more reports that support exactly {most} of {section.symbols} {what}"
    return Sign(f"number of {what}", fit.chance, f"{told} than noise gives{whose}.", keys)


def _standing_out(section: Section, supports: Counts) -> tuple[str, ...]:
    """The keys that stand out among those that reports of one number support; none if no key does."""
    usual = float(np.median(supports))
    out = np.flatnonzero(supports > usual + 5 * math.sqrt(usual + 1))
    most = out[np.argsort(-supports[out])][:_NAMED]
    return tuple(section.mechanism.schema.keys[key] for key in most)


@dataclass(frozen=True, eq=False)
class Fit:
    """A mixture of known laws beside counts: its shares, what it expects, and the chance of a worse fit."""

    shares: Floats
    expected: Floats
    chance: float


def fitted(laws: Floats, numbers: Counts) -> Fit:
    """The most likely mixture of the laws, from classes that are large enough for the test of fit."""
    n = float(numbers.sum())
    shares = _likely(laws, numbers)
    starts = _classes(n * (shares @ laws))
    grouped, seen = np.add.reduceat(laws, starts, axis=1), np.add.reduceat(numbers, starts)
    shares = _likely(grouped, seen)
    expected = n * (shares @ grouped)
    squares = float(((seen - expected) ** 2 / np.maximum(expected, 1e-12)).sum())
    free = int(np.count_nonzero(shares > 1e-3)) - 1  # a law that has no share fits nothing away
    return Fit(shares, n * (shares @ laws), chi_squared_tail(squares, len(starts) - 1 - free))


def _likely(laws: Floats, numbers: Counts) -> Floats:
    """The shares of a mixture under which the numbers are most likely.

    Weight goes from one law to another, two at a time, each time to the best point between them; the likelihood is
    concave, so that bisection of its slope finds it. Two laws are done after one step.
    """
    shares = np.full(len(laws), 1 / len(laws))
    pairs = [(one, other) for one in range(len(laws)) for other in range(one)]
    for _ in range(SWEEPS if len(pairs) > 1 else 1):
        for one, other in pairs:
            both = shares[one] + shares[other]
            rest = shares @ laws - shares[one] * laws[one] - shares[other] * laws[other]
            low, high = 0.0, float(both)
            for _ in range(HALVINGS):
                middle = (low + high) / 2
                mixed = np.maximum(rest + middle * laws[one] + (both - middle) * laws[other], 1e-300)
                rising = float(numbers @ ((laws[one] - laws[other]) / mixed)) > 0
                low, high = (middle, high) if rising else (low, middle)
            shares[one], shares[other] = (low + high) / 2, both - (low + high) / 2
    return shares


def _classes(expected: Floats) -> NDArray[np.int64]:
    """Where classes of neighbouring numbers begin, each with enough reports."""
    starts, total, left = [0], 0.0, float(expected.sum())
    for at, share in enumerate(expected.tolist()[:-1]):
        total, left = total + share, left - share
        if total >= EXPECTED and left >= EXPECTED:
            starts.append(at + 1)
            total = 0.0
    return np.array(starts)


def _labels(section: Section, law: Together, labels: Counts) -> Sign:
    """Whether reports support several symbols of one key, which nobody holds, more often than noise explains."""
    values = np.arange(section.labels + 1, dtype=np.float64)
    pairs = values * (values - 1) / 2
    centred = pairs - law.base * section.labels * (section.labels - 1) / 2 - law.slope * (section.labels - 1) * values
    n = labels.sum(axis=1)
    mean, square = labels @ centred / n, labels @ centred**2 / n
    scores = _scores(law, mean, square - mean**2, labels @ pairs / n, n)
    most = int(np.argmax(scores))
    key, excess = section.mechanism.schema.keys[most], round(float(n[most] * mean[most]))
    told = f"About {excess:,} more reports support two values of {key} at once than noise gives."
    return Sign("values of one key", min(1.0, len(scores) * _tail(float(scores[most]))), told, (key,))


def _together(section: Section, law: Together, counts: dict[str, Counts]) -> Sign:
    """Whether two groups of symbols are supported together more often than noise explains.

    With S and T how many symbols of two groups of a and b a report supports, S·T - slope·(b·S + a·T) - a·b·base has a
    mean of at most zero whatever people hold. Its spread comes from the sums of squares.
    """
    groups, n = section.groups, float(counts["reports"][0])
    sizes = np.bincount(np.arange(section.symbols) % groups, minlength=groups).astype(np.float64)
    sums, products = counts["sums"] / n, counts["products"] / n
    squares, crossed, second = counts["squares"] / n, counts["crossed"] / n, np.diag(products)
    of_one, of_other, fixed = law.slope * sizes[None, :], law.slope * sizes[:, None], law.base * np.outer(sizes, sizes)
    linear = of_one * sums[:, None] + of_other * sums[None, :]
    mean = products - linear - fixed
    square = (
        squares
        - 2 * (of_one * crossed + of_other * crossed.T)
        - 2 * fixed * (products - linear)
        + of_one**2 * second[:, None]
        + of_other**2 * second[None, :]
        + 2 * of_one * of_other * products
        + fixed**2
    )
    upper = np.triu_indices(groups, 1)
    scores = _scores(law, mean[upper], (square - mean**2)[upper], products[upper], np.full(len(upper[0]), n))
    most = int(np.argmax(scores))
    one, other = int(upper[0][most]), int(upper[1][most])
    excess, keys = round(n * float(mean[one, other])), section.laws.keys
    places = np.unique(np.concatenate((keys[one::groups], keys[other::groups])))
    suspects = tuple(section.mechanism.schema.keys[key] for key in places)
    shown = ", ".join(suspects[:_NAMED]) + (" …" if len(suspects) > _NAMED else "")
    out_of = "" if len(suspects) <= 2 else "Keys out of "
    told = f"{out_of}{shown} are supported together about {excess:,} times more often than noise gives."
    return Sign("keys together", min(1.0, len(scores) * _tail(float(scores[most]))), told, suspects)


def _scores(law: Together, mean: Floats, variance: Floats, together: Floats, n: Floats) -> Floats:
    """Means as normal numbers: by the gamma law of the same variance and skewness, after Wilson and Hilferty.

    The third moment is that of a product of two independent bits with the chance ``law.slope``, relative to how often
    both are one; half a count is taken off, since counts are whole. Where too few are expected nothing is told.
    """
    usual = together - np.maximum(mean, 0)  # how often both come together without the surplus that is to be judged
    # The surplus itself widens the spread: by (1 - slope)⁴ for each pair, the square of what one adds.
    spread = np.sqrt(np.maximum(variance - (together - usual) * (1 - law.slope) ** 4, variance / 4) + 1e-12)
    plain = (n * mean - 0.5) / (np.sqrt(n) * spread)
    third = usual * ((1 - law.slope) * (1 - 2 * law.slope)) ** 2
    shape = 4 / np.maximum(third / np.sqrt(n) / spread**3, 1e-4) ** 2
    scores = 3 * np.sqrt(shape) * (np.cbrt(np.maximum(1 + plain / np.sqrt(shape), 0)) - 1 + 1 / (9 * shape))
    return np.where((variance > 1e-12) & (n * usual >= FEWEST), scores, 0.0)


# -- laws -----------------------------------------------------------------------------------------------------------


def _tail(score: float) -> float:
    """P(Z ≥ score) of a standard normal number."""
    return 0.5 * math.erfc(score / math.sqrt(2))


def chi_squared_tail(squares: float, degrees: int) -> float:
    """P(χ² ≥ squares), exactly: the tail of two degrees fewer and one more term (Abramowitz and Stegun 26.4.4)."""
    if degrees < 1 or squares <= 0:
        return 1.0
    half, odd = squares / 2, degrees % 2
    terms = (power / 2 * math.log(half) - half - math.lgamma(power / 2 + 1) for power in range(odd, degrees, 2))
    return (math.erfc(math.sqrt(half)) if odd else 0.0) + sum(math.exp(term) for term in terms)
