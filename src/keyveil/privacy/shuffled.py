"""What an anonymous channel would add: the central (ε, δ) of one mechanism's honest reports after shuffling.

Variation-ratio analysis (Wang et al., VLDB 2024, arXiv 2304.05007). Let p be the largest ratio of probabilities of one
report under two records, and β the largest total variation of (public word, payload) over two records. Among n
reports in random order, one person's record is hidden at least as well as in this game (their Theorem 4.7): with
α = β / (p - 1), C is binomial (n - 1, 2α), A is binomial (C, 1/2), and one more lands on A's side with probability p·α,
on the other side with probability α; whoever sees (A, C - A) must tell which side was the likely one.

Keyveil's collector is no such channel: it receives reports one by one. So the number stands in ``certify`` and ``plan``
only, beside the local ε.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import universal_variation
from keyveil.core.errors import PrivacyError
from keyveil.privacy.certify import Certifiable
from keyveil.privacy.enumerate import LIMIT, law

Floats = NDArray[np.float64]

CLOSED, ENUMERATED, BOUND = "closed-form", "enumeration", "upper bound"
NO_CHANNEL = "Today's collector is not such a channel: it sees every report by itself, and the local epsilon counts."
DIGITS = 4  # decimals of the central epsilon, rounded up
_NEGLIGIBLE = 1e-6  # share of δ for values of C that are not looked at; added to the result
_SLACK = 1e-7  # relative error that is allowed for each term: the binomials here are off by less up to MOST_PEOPLE
_ROUNDING = 1e-15  # of numbers around one that are differences of floats: at ε = 30 they weigh e^30 times as much
LEAST_DELTA = 1e-100  # below it floats have no room for a part of δ
_EQUAL = 1e-9  # a closed form and an enumeration that differ by less are the same
MOST_PEOPLE = 10**8
_MANY, _MOST_STEPS = 1e6, 20_000
_FEW = 16  # factorials below it are exact
_EXACT = np.array(
    [0.0] + [math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2 * math.pi) for n in range(1, _FEW)]
)


class Shuffleable(Certifiable, Protocol):
    """A mechanism that says how far apart the laws of its reports can be."""

    @property
    def variation(self) -> Fraction: ...
    def word_shares(self) -> Iterable[tuple[int, Fraction]]: ...
    def reduced(self) -> Shuffleable: ...


@dataclass(frozen=True)
class Shuffled:
    """The central ε at δ of so many shuffled reports, rounded up, and what it was computed from."""

    people: int
    delta: float
    epsilon: float
    local_epsilon: float
    variation: Fraction
    method: str  # of the variation: enumeration, closed-form (confirmed by enumeration at small sizes) or upper bound

    def sentence(self) -> str:
        """For people, with the local ε and what is not there."""
        how = "at most " if self.method == BOUND else ""
        return (
            f"Shuffled among {self.people:,} honest reports of this mechanism and round, epsilon would be {how}"
            f"{self.epsilon:.{DIGITS}f} at delta {self.delta:g} (total variation {rounded_up(float(self.variation))}, "
            f"{self.method}); the local epsilon is {self.local_epsilon:g}. {NO_CHANNEL}"
        )

    def document(self) -> dict[str, Any]:
        """The object in ``keyveil certify --json`` and ``keyveil plan --json``."""
        return {
            "people": self.people,
            "delta": self.delta,
            "epsilon": self.epsilon,
            "local_epsilon": self.local_epsilon,
            "total_variation": rounded_up(float(self.variation)),
            "method": self.method,
            "note": NO_CHANNEL,
        }


def shuffled(mechanism: Shuffleable, people: int, delta: float, confirm: bool = True) -> Shuffled:
    """The central ε of so many shuffled reports of a mechanism.

    ``confirm`` holds the closed form of the total variation against enumeration at small sizes, which takes as long as
    a certificate; otherwise it is called an upper bound, which it is in any case.
    """
    if people < 1:
        raise PrivacyError("privacy/shuffled", f"At least one report is shuffled, not {people}.")
    if people > MOST_PEOPLE:
        raise PrivacyError("privacy/shuffled", f"At most {MOST_PEOPLE:,} shuffled reports are certified.")
    if not LEAST_DELTA <= delta < 1:
        raise PrivacyError("privacy/shuffled", f"Delta lies between {LEAST_DELTA:g} and 1, not at {delta:g}.")
    ratio = mechanism.ratio
    if ratio == math.inf:
        raise PrivacyError("privacy/shuffled", f"{mechanism.name} has no finite epsilon that shuffling could add to.")
    variation, method = largest_variation(mechanism) if confirm else (_at_most(mechanism), BOUND)
    exact = Fraction(ratio)
    central = central_epsilon(float(exact), float(variation), people, delta)
    local = math.nextafter(math.log(exact) * (1 + 1e-15), math.inf)
    return Shuffled(people, delta, central, math.ceil(local * 1e9) / 1e9, variation, method)


def largest_variation(mechanism: Shuffleable) -> tuple[Fraction, str]:
    """The largest total variation of (public word, payload) over two records, or a bound on it; and which it is."""
    small = mechanism.reduced()
    claimed, found = float(_at_most(small)), enumerated_variation(small)
    if found > claimed + _EQUAL:
        raise PrivacyError(
            "privacy/variation",
            f"Reports of {mechanism.name} differ by {found:.9f} at sizes {small.sizes}, more than {claimed:.9f}.",
        )
    if small == mechanism and mechanism.exhaustive:
        return min(Fraction(found) + Fraction(1, 10**12), _at_most(mechanism)), ENUMERATED
    return _at_most(mechanism), CLOSED if abs(found - claimed) < _EQUAL else BOUND


def enumerated_variation(mechanism: Shuffleable, limit: int = LIMIT) -> float:
    """The largest total variation over all pairs of records, averaged over public words; from all outcomes."""
    records = [list(record) for record in mechanism.every_record()]
    total = np.zeros((len(records), len(records)))
    entries = 0
    for word, share in mechanism.word_shares():
        laws = [law(partial(mechanism.respond, pairs, word), limit) for pairs in records]
        entries += sum(map(len, laws))
        if entries > limit:
            raise PrivacyError("privacy/too-large", f"The table of probabilities has more than {limit} entries.")
        reports = sorted(set().union(*laws), key=repr)
        table = np.array([[float(one.get(report, 0)) for report in reports] for one in laws])
        for who, row in enumerate(table):
            total[who] += float(share) * np.abs(table - row).sum(axis=1) / 2
    return float(total.max(initial=0.0))


def central_epsilon(ratio: float, variation: float, people: int, delta: float) -> float:
    """The least ε, rounded up, at which the game's hockey-stick divergence is certainly at most δ."""
    unit = 10.0**DIGITS
    low, high = 0, math.ceil(math.log(ratio) * unit + 1e-6)  # in units of the last digit; the local ε always holds
    while low < high:
        middle = (low + high) // 2
        if divergence(ratio, variation, people, middle / unit, delta * _NEGLIGIBLE) <= delta:
            high = middle
        else:
            low = middle + 1
    return high / unit


def divergence(ratio: float, variation: float, people: int, epsilon: float, left_out: float = 1e-15) -> float:
    """An upper bound on the probability δ that ε fails in the game, tight up to ``left_out`` and rounding.

    P(a, c - a) > e^ε·Q(a, c - a) holds for all a above a threshold, because P / Q increases in a. So δ is, for each c,
    a few tails of binomials with probability 1/2. The threshold is computed with an error below one, so what its
    neighbours would add is added.
    """
    if variation <= 0 or ratio <= 1:
        return 0.0
    factor = math.exp(epsilon)
    alpha = variation / (ratio - 1)
    mine = ratio * alpha
    beside = max(1 - alpha - mine - _ROUNDING, 0.0)  # it lowers δ, so it is rounded down
    ahead = mine - factor * alpha + _ROUNDING * (mine + factor * alpha)
    chance = min(2 * alpha, 1.0)
    others = people - 1
    expected, nats = others * chance, math.log(2 / left_out)
    far = math.sqrt(2 * expected * (1 - chance) * nats) + 2 * nats / 3  # Bernstein: beyond it lies ``left_out``
    first, last = max(math.floor(expected - far), 0), min(math.ceil(expected + far), others) + 1
    total = 0.0
    for start in range(first, last + 1, 1 << 20):
        c = np.arange(start, min(start + (1 << 20), last + 1), dtype=np.float64)
        same, fewer = (_binomial(count, others, chance) for count in (c, c - 1))  # nothing, or one, was added to it
        w, u, v = same * beside * (1 - factor), fewer * ahead, fewer * (alpha - factor * mine)
        least = _threshold(c, w, u, v)
        terms = w * _above(least, c), u * _above(least - 1, c - 1), v * _above(least, c - 1)
        sums = sum(terms) + _SLACK * sum(np.abs(term) for term in terms)
        sums += np.maximum(_beyond(least, c, w, u, v), 0.0) + np.maximum(-_beyond(least + 1, c, w, u, v), 0.0)
        total += float(np.maximum(sums, 0.0).sum())
    return total + left_out


def rounded_up(number: float, digits: int = 9) -> float:
    """A number with so many decimals that is not below the given one."""
    unit = 10.0**digits
    return math.ceil(number * unit) / unit


def _threshold(c: Floats, w: Floats, u: Floats, v: Floats) -> Floats:
    """For each c the largest a at which P is at most e^ε·Q.

    Divided by the probability of a of c fair coins, P - e^ε·Q is w + u·2a/c + v·2(c - a)/c: a line in a.
    """
    slope = 2 * (u - v)
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = -(w + 2 * v) * c / slope
    return np.where(slope > 0, np.floor(np.clip(crossing, -1.0, c)), c)


def _beyond(a: Floats, c: Floats, w: Floats, u: Floats, v: Floats) -> Floats:
    """P - e^ε·Q at one a of each c."""
    heads = 2 * a / np.maximum(c, 1)
    beyond: Floats = _binomial(a, c, 0.5) * (w + u * heads + v * (2 - heads))
    return beyond


def _binomial(count: Floats, trials: Floats | float, chance: float) -> Floats:
    """Probabilities of counts in so many trials (Loader's saddle-point form, which keeps its digits at any size)."""
    trials = np.asarray(trials, dtype=np.float64)
    inside = (count >= 0) & (count <= trials)
    k = np.clip(count, 0, np.maximum(trials, 0))
    rest = np.maximum(trials - k, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.where((k > 0) & (rest > 0), np.sqrt(trials / (2 * np.pi * k * rest)), 1.0)
    gap = _stirling(trials) - _stirling(k) - _stirling(rest)
    log = gap - _deviance(k, trials * chance) - _deviance(rest, trials * (1 - chance))
    return np.where(inside, root * np.exp(log), 0.0)


def _stirling(n: Floats) -> Floats:
    """log n! less Stirling's formula √(2πn)·(n/e)^n; 0 at 0."""
    many = np.maximum(n, _FEW)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * many**2)) / many**2) / many**2) / many
    return np.where(n < _FEW, _EXACT[np.clip(n, 0, _FEW - 1).astype(np.int64)], series)


def _deviance(n: Floats, expected: Floats) -> Floats:
    """n·log(n / expected) + expected - n."""
    with np.errstate(divide="ignore", invalid="ignore"):
        step = (n - expected) / expected
        off = np.where(n > 0, expected * ((1 + step) * np.log1p(step) - step), expected)
    return np.where(expected > 0, off, np.where(n > 0, np.inf, 0.0))


def _above(least: Floats, count: Floats) -> Floats:
    """The probability that more than ``least`` of ``count`` fair coins show heads."""
    inside = (least >= 0) & (least < count)
    known, trials = np.where(inside, least, 0.0), np.where(inside, count, 1.0)
    low = 2 * (known + 1) <= trials  # then the other tail is the small one
    small = _tail(np.where(low, trials - known, known + 1), trials)
    return np.where(inside, np.where(low, 1 - small, small), np.where(count > least, 1.0, 0.0))


def _tail(heads: Floats, trials: Floats) -> Floats:
    """The probability of ``heads`` or more, at least half, of fair coins: an incomplete beta function at 1/2.

    Its continued fraction takes about √trials steps. SciPy knows better for very many, but takes long to load.
    """
    a, b = heads, trials - heads + 1
    if trials.max(initial=0.0) > _MANY:
        from scipy.special import betainc

        return np.asarray(betainc(a, b, 0.5), dtype=np.float64)
    c, d = np.ones_like(a), 1 / (1 - (a + b) / (2 * (a + 1)))
    fraction = d.copy()
    for step in range(1, _MOST_STEPS):
        for part in (
            step * (b - step) / (2 * (a + 2 * step - 1) * (a + 2 * step)),
            -(a + step) * (a + b + step) / (2 * (a + 2 * step) * (a + 2 * step + 1)),
        ):
            d, c = 1 / (1 + part * d), 1 + part / c
            fraction *= c * d
        if np.all(np.abs(c * d - 1) < 1e-14):
            break
    return _binomial(a, trials, 0.5) / 2 * fraction


def _at_most(mechanism: Shuffleable) -> Fraction:
    """What the mechanism says, and never more than any mechanism of its ratio can have."""
    return min(mechanism.variation, universal_variation(mechanism.ratio))
