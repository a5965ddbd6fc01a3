"""Signs of crafted reports: statistics of single reports against their known law, whatever people hold.

Two things are looked at (``mechanisms.report_laws``). *What reports are about*, where public words say it: whoever
chooses his id speaks about the key that he wants, and then that key has more reports than a hash gives it. The tally
shows that. *Which keys a report supports*, where all but one are noise: how many they are, and which of them come
together. That is counted in a sketch, a second tally beside the first with a fingerprint of its own, which holds
nothing about people and adds up like any tally.

Every test is calibrated: on honest reports the chance of an alarm is at most the level (docs/robustness.md).
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import MechanismError
from keyveil.core.report import Reports
from keyveil.core.tally import Tally
from keyveil.kernels.normal import binomial_scores
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.counting import BLOCK
from keyveil.mechanisms.report_laws import Asked, AskedAbout, OnePairRates, OnePairSupports

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

LEVEL = 0.01  # the chance of an alarm on honest reports
GROUPS = 16  # of keys whose common support is counted
MOST_NUMBERS = 33  # numbers of supported keys that are told apart when keys are counted; larger ones are one class
EXPECTED = 10.0  # reports that a class of the test of counts has at least: fewer have no normal law
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
    signs: list[Sign] = []
    if tally.reports and isinstance(mechanism, AskedAbout):
        signs += _about(mechanism, mechanism.asked_about(tally), tally.reports)
    if sketched is not None:
        sketched.refuse_other(sketch_fingerprint(mechanism), _shape(mechanism))
        if sketched.reports and isinstance(mechanism, OnePairSupports):
            numbers, crossed, _ = parts_of(mechanism, sketched)
            signs += [_numbers(mechanism.one_pair_rates(), numbers), _together(mechanism, crossed, sketched.reports)]
    return Detection(tuple(signs), level)


# -- the sketch -----------------------------------------------------------------------------------------------------


def sketch_fingerprint(mechanism: Mechanism) -> bytes:
    """What a sketch belongs to: reports of this mechanism, and this kind of sketch."""
    return hashlib.sha256(b"keyveil sketch 1 " + mechanism.fingerprint).digest()


def sketch(mechanism: Mechanism, reports: Reports) -> Tally:
    """How many reports support 0, 1, …, d keys; how often groups of keys come together; and the keys by that number."""
    if not isinstance(mechanism, OnePairSupports):
        raise MechanismError(
            "detect/no-sketch",
            f"Reports of {mechanism.title} support no keys by noise of a known law; there is no sketch.",
        )
    counts, members = np.zeros(_shape(mechanism), dtype=np.int64), _groups(mechanism)
    for some in reports.blocks(BLOCK):
        supported = mechanism.supported(some.payloads)
        numbers = np.bincount(supported.sum(axis=1), minlength=mechanism.schema.d + 1)
        in_groups = supported.astype(np.int64) @ members
        rows = np.minimum(supported.sum(axis=1), MOST_NUMBERS - 1)
        by_number = np.zeros((MOST_NUMBERS, mechanism.schema.d), dtype=np.int64)
        np.add.at(by_number, rows, supported)
        crossed = in_groups.T @ in_groups
        counts += np.concatenate((numbers, in_groups.sum(axis=0), crossed.reshape(-1), by_number.reshape(-1)))
    return Tally(sketch_fingerprint(mechanism), len(reports), counts)


def _shape(mechanism: Mechanism) -> tuple[int, ...]:
    d, groups = mechanism.schema.d, min(GROUPS, mechanism.schema.d)
    return (d + 1 + groups + groups**2 + MOST_NUMBERS * d,)


def parts_of(mechanism: Mechanism, sketched: Tally) -> tuple[Counts, Counts, Counts]:
    """The three parts of a sketch: numbers of keys, groups together, and keys by number [number, key]."""
    d, groups = mechanism.schema.d, min(GROUPS, mechanism.schema.d)
    numbers, crossed, by_number = np.split(sketched.counts, [d + 1, d + 1 + groups + groups**2])
    return numbers, crossed, by_number.reshape(MOST_NUMBERS, d)


def _groups(mechanism: Mechanism) -> Counts:
    """Which group every key belongs to, [key, group]: key k to group k modulo their number."""
    d = mechanism.schema.d
    groups = min(GROUPS, d)
    members: Counts = (np.arange(d)[:, None] % groups == np.arange(groups)).astype(np.int64)
    return members


# -- what reports are about -----------------------------------------------------------------------------------------


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
    expected = n * asked.shares
    large = expected >= EXPECTED
    squares = float((((asked.counts - expected) ** 2) / expected)[large].sum())
    spread = _chi_squared(squares, int(np.count_nonzero(large)) - 1)
    uneven = "Reports are spread over keys more unevenly than ids give: somebody may choose ids."
    return [
        Sign("one key", min(1.0, len(scores) * _tail(float(scores[most]))), told, keys),
        Sign("all keys", spread, uneven),
    ]


# -- which keys reports support -------------------------------------------------------------------------------------


def _numbers(rates: OnePairRates, numbers: Counts) -> Sign:
    """How many keys reports support, against noise with one key or none that reports are about."""
    d = len(numbers) - 1
    share, squares, classes = about_a_key(rates, numbers)
    chance = _chi_squared(squares, classes - 1 - (not rates.always))
    expected = numbers.sum() * law_of_numbers(rates, d, share)
    most = int(np.argmax((numbers - expected) / np.sqrt(np.maximum(expected, 1))))
    surplus = round(float(numbers[most] - expected[most]))
    told = f"There are {surplus:,} more reports that support exactly {most} of {d} keys than noise gives."
    return Sign("number of keys", chance, told)


def law_of_numbers(rates: OnePairRates, d: int, share: float) -> Floats:
    """The law of how many of d keys a report supports, if a ``share`` of the reports is about one of them."""
    one = np.convolve(binomial(d - 1, rates.other), (1 - rates.own, rates.own))
    law: Floats = share * one + (1 - share) * binomial(d, rates.other)
    return law


def about_a_key(rates: OnePairRates, numbers: Counts) -> tuple[float, float, int]:
    """The share of reports about a key that fits best, the sum of squares of the fit, and its classes."""
    shares = np.ones(1) if rates.always else np.linspace(0, 1, 201)
    one, none = (numbers.sum() * law_of_numbers(rates, len(numbers) - 1, share) for share in (1.0, 0.0))
    tried = [(*_fit(numbers, share * one + (1 - share) * none), float(share)) for share in shares]
    squares, classes, share = min(tried)
    return share, squares, classes


def _fit(numbers: Counts, expected: Floats) -> tuple[float, int]:
    """The sum of squares over classes that are large enough, and how many classes there are."""
    total, squares, classes, seen = 0.0, 0.0, 0, 0.0
    left = float(expected.sum())
    for count, share in zip(numbers.tolist(), expected.tolist(), strict=True):
        total, seen, left = total + share, seen + count, left - share
        if total >= EXPECTED and left >= EXPECTED:
            squares, classes, total, seen = squares + (seen - total) ** 2 / total, classes + 1, 0.0, 0.0
    if total >= EXPECTED / 2:
        squares, classes = squares + (seen - total) ** 2 / total, classes + 1
    return squares, max(classes, 1)


def _together(mechanism: Mechanism, counts: Counts, n: int) -> Sign:
    """Whether two groups of keys are supported together more often than noise explains.

    With x the support of a group less what noise gives it, x of two groups are independent given the one key that a
    report is about, and one of them has mean zero: their product has mean zero whatever people hold.
    """
    assert isinstance(mechanism, OnePairSupports)
    rates, members = mechanism.one_pair_rates(), _groups(mechanism)
    sizes, groups = members.sum(axis=0), members.shape[1]
    if groups < 2:
        return Sign("keys together", 1.0, "There is only one key.")
    sums, products = counts[:groups], counts[groups:].reshape(groups, groups)
    noise, quiet = sizes * rates.other, sizes * rates.other * (1 - rates.other)
    means = sums / n
    crossed = products / n - np.outer(noise, means) - np.outer(means, noise) + np.outer(noise, noise)
    loud = np.diag(crossed) - quiet
    variance = np.outer(loud, quiet) + np.outer(quiet, loud) + np.outer(quiet, quiet)
    upper = np.triu_indices(groups, 1)
    scores = crossed[upper] * math.sqrt(n) / np.sqrt(np.maximum(variance[upper], 1e-12))
    most = int(np.argmax(scores))
    pair = upper[0][most], upper[1][most]
    excess = round(float(n * crossed[pair]))
    suspects = [mechanism.schema.keys[key] for key in np.flatnonzero(members[:, pair[0]] | members[:, pair[1]])]
    shown = ", ".join(suspects[:_NAMED]) + (" …" if len(suspects) > _NAMED else "")
    told = f"Keys out of {shown} are supported together about {excess:,} times more often than noise gives."
    return Sign("keys together", min(1.0, len(scores) * _tail(float(scores[most]))), told, tuple(suspects))


# -- laws -----------------------------------------------------------------------------------------------------------


def _tail(score: float) -> float:
    """P(Z ≥ score) of a standard normal number."""
    return 0.5 * math.erfc(score / math.sqrt(2))


def _chi_squared(squares: float, degrees: int) -> float:
    """P(χ² ≥ squares), by the cube root of Wilson and Hilferty; within a few per cent from three degrees on."""
    if degrees < 1:
        return 1.0
    spread = 2 / (9 * degrees)
    return 1 - NormalDist().cdf(((squares / degrees) ** (1 / 3) - (1 - spread)) / math.sqrt(spread))


def binomial(trials: int, chance: float) -> Floats:
    """The law of a binomial number, 0 … trials."""
    k = np.arange(trials + 1)
    choose = np.array([math.lgamma(trials + 1) - math.lgamma(i + 1) - math.lgamma(trials - i + 1) for i in k])
    law: Floats = np.exp(choose + k * math.log(chance) + (trials - k) * math.log1p(-chance))
    return law
