"""What is known or assumed of the people of a collection: how many there are, which keys they hold, what values.

invented(20_000, keys=100, pairs=5)         from numbers: everything else is assumed, and said in ``about``
sampled(population, schema, n=20_000)       from a file of people, or a named synthetic population
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.epsilon import read_fraction
from keyveil.core.errors import PlanError
from keyveil.core.records import Records
from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.mechanisms.size_law import PLACES, SizeLaw

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

TYPICAL = 0.5  # root mean square of a value on [-1, 1] where nothing is known of values; as in ``apart``
MOST_HELD = 0.9  # share of the people who hold the most frequent of invented keys, unless all are held more often
GOLDEN = (math.sqrt(5) - 1) / 2  # its multiples, without whole parts, lie evenly in [0, 1] whatever their number is
MOST_PEOPLE = 10**12
MOST_LOOKED_AT = 100  # keys over which errors of means are averaged, where there are more
RARE, TERMS = 0.1, 24  # frequencies up to which a series of so many terms is exact to 1e-16: (2·0.1)^24
CLOSE = 0.02  # relative difference up to which two statements about the mean set size agree


class Kept(NamedTuple):
    """What a cap leaves of every key: the share of its holders who keep it, and the mean of their values."""

    share: Floats
    mean: Floats


@dataclass(frozen=True, eq=False)
class People:
    """``n`` people; per key the share of holders and the mean of their values on [-1, 1]; the law of set sizes.

    ``energy`` is the mean square of a value on [-1, 1], ``about`` says in words where all this comes from. ``sample``
    are some of these people, with the keys of a schema, if there are any.
    """

    n: int
    frequency: Floats
    mean: Floats
    law: SizeLaw
    energy: float
    about: str
    sample: Population | None = None
    values: Floats | None = None  # of the pairs of the sample, on [-1, 1]
    schema: Schema | None = None  # of the sample

    @property
    def d(self) -> int:
        """How many keys there are."""
        return len(self.frequency)

    @property
    def pairs(self) -> float:
        """Pairs a person, on average."""
        return float(self.frequency.sum())

    @property
    def typical(self) -> float:
        """The root mean square of a value on [-1, 1]."""
        return math.sqrt(self.energy)

    @cached_property
    def by_frequency(self) -> Places:
        """The places of all keys, the most frequent first."""
        return np.argsort(-self.frequency, kind="stable")

    @cached_property
    def typical_keys(self) -> Places:
        """The places of all keys, or of ``MOST_LOOKED_AT`` that stand evenly among them by frequency."""
        order = self.by_frequency[: int(np.count_nonzero(self.frequency > 0))]
        if len(order) <= MOST_LOOKED_AT:
            return order
        return order[((np.arange(MOST_LOOKED_AT) + 0.5) * len(order) / MOST_LOOKED_AT).astype(np.intp)]

    @cached_property
    def known_records(self) -> Records | None:
        """The sample as devices see it."""
        return None if self.sample is None or self.schema is None else self.sample.records(self.schema)

    def of(self, n: int) -> Self:
        """As many people as given, of the same kind."""
        return replace(self, n=n)

    @cached_property
    def spread(self) -> Floats:
        """Per key, the standard deviation of values around their mean that fits ``energy``.

        The variance is the same share of 1 - m² for every key, and no value leaves [-1, 1].
        """
        held = max(self.pairs, 1e-12)
        squares = float(self.frequency @ self.mean**2) / held
        share = min(max((self.energy - squares) / max(1 - squares, 1e-12), 0.0), 1.0)
        deviation: Floats = np.minimum(np.sqrt(share * (1 - self.mean**2)), 1 - np.abs(self.mean))
        return deviation

    def kept(self, cap: int) -> Kept:
        """What is left of every key if a uniform choice of ``cap`` pairs of larger records counts.

        From the sample if there is one; otherwise as if large records held the same keys and values as small ones.
        """
        sizes, shares = self.law.sizes, self.law.of_people
        if self.sample is None or self.values is None:
            whole = float(shares @ sizes)
            share = float(shares @ np.minimum(sizes, cap)) / whole if whole else 1.0
            return Kept(np.full(self.d, share), self.mean)
        own = self.sample.sizes
        chance = np.repeat(np.minimum(1.0, cap / np.maximum(own, 1)), own)
        held, left, total = (
            np.bincount(self.sample.keys, weights, minlength=self.d)
            for weights in (np.ones(len(chance)), chance, chance * self.values)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            return Kept(np.where(held > 0, left / held, 1.0), np.where(left > 0, total / left, self.mean))

    def together(self, first: int, second: int) -> float:
        """The share of the people who hold both of two keys.

        From the sample if there is one; otherwise in proportion to both frequencies, as the law of set sizes has it.
        """
        if self.sample is not None:
            one, other = (self._users[self.sample.keys == key] for key in (first, second))
            return len(np.intersect1d(one, other, assume_unique=True)) / self.sample.n
        f, sizes = self.frequency, self.law.sizes
        pairs = float(self.law.of_people @ (sizes * (sizes - 1.0)))
        times = pairs / max(float(f.sum() ** 2 - f @ f), 1e-300)
        return min(times * float(f[first] * f[second]), float(f[first]), float(f[second]))

    @cached_property
    def _users(self) -> Places:
        """The person of every pair of the sample."""
        return (
            np.zeros(0, dtype=np.intp)
            if self.sample is None
            else np.repeat(np.arange(self.sample.n), self.sample.sizes)
        )

    def cut(self, cap: int) -> Floats:
        """Shares of the people by number of pairs that count, 0, 1, …, ``cap``."""
        shares = self.law.by_size
        counted: Floats = np.bincount(np.minimum(np.arange(len(shares)), cap), shares).astype(np.float64)
        return counted

    def cap_for(self, share: float) -> int:
        """The cap that this share of the people do not exceed, at least 1 and at most the number of keys."""
        if share not in self._caps:  # every mechanism of a plan asks for the same few
            self._caps[share] = min(self.law.quantile(min(share, 1.0)), self.d)
        return self._caps[share]

    @cached_property
    def _caps(self) -> dict[float, int]:
        return {}


def invented(
    n: Any,
    keys: Any,
    pairs: Any = None,
    *,
    sizes: Any = None,
    frequency: Sequence[float] | Floats | None = None,
    mean: Sequence[float] | Floats | None = None,
    typical: Any = None,
) -> People:
    """People from numbers; ``pairs`` is the mean set size, ``sizes`` the law of set sizes ("5", "1:0.2,2:0.8").

    Unless ``frequency`` is given, the k-th key is held in proportion to 1/k, by at most nine of ten people. Unless
    ``mean`` is given, means lie evenly within ± ``typical``, the root mean square of a value. Unless ``sizes`` are
    given, each key is held independently of the others.
    """
    people, d = _count("people", n), _count("keys", keys)
    told: list[str] = []
    law = None if sizes is None else SizeLaw.read(sizes)
    held = _mean_size(pairs, law, frequency, d)
    if frequency is None:
        f = _falling(d, held)
        told.append("the k-th key is held in proportion to 1/k")
    else:
        f = _numbers("frequency", frequency, d, 0, 1)
    if law is None:
        law = independent_sizes(f)
        told.append("keys are held independently of each other")
    square = (TYPICAL if typical is None else number("a typical value", typical)) ** 2
    if not 0 < square <= 1:
        raise PlanError("plan/people", "A typical value is the root mean square on [-1, 1]: above 0, and at most 1.")
    if mean is None:
        m = np.asarray(math.sqrt(square) * (2 * (GOLDEN * np.arange(1, d + 1) % 1) - 1), dtype=np.float64)
        told.append(f"means lie evenly between ±{math.sqrt(square):.2g} of the middle of the range")
    else:
        m = _numbers("mean", mean, d, -1, 1)
        square = max(square, float(f @ m**2) / max(held, 1e-12)) if typical is None else square
    about = f"{people:,} people with {held:.3g} pairs on average of {d:,} keys" + (": " if told else "")
    return People(people, f, m, law, square, about + ", ".join(told) + ".")


def expected_shares(given: Any, names: Sequence[str] | None) -> Floats | Sequence[float] | None:
    """Shares of holders of all keys from a text or mapping such as "fries:0.4,pepsi:0.1"; or "0.4,0.1", key by key.

    ``names`` are the keys, if they have names. Anything else is returned as it is.
    """
    if not isinstance(given, str | Mapping):
        shares: Floats | Sequence[float] | None = given
        return shares
    if isinstance(given, str):
        parts = [(name.strip(), share) for name, _, share in (one.rpartition(":") for one in given.split(","))]
    else:
        parts = [(str(name), share) for name, share in given.items()]
    each = [number("a share of the people", share) for _, share in parts]
    if not any(name for name, _ in parts):
        return each
    numbers = {name: share for (name, _), share in zip(parts, each, strict=True)}
    known = [str(place) for place in range(len(parts))] if names is None else list(names)
    wrong = [name for name in numbers if name not in known] or [name for name in known if name not in numbers]
    if wrong or len(numbers) < len(parts):
        raise PlanError(
            "plan/people", f"Expected shares name every key once, as in fries:0.4,pepsi:0.1; {_first(wrong, numbers)}"
        )
    return np.array([numbers[name] for name in known])


def _first(wrong: list[str], numbers: Mapping[str, float]) -> str:
    if not wrong:
        return "a key is named twice."
    return f"there is no key {wrong[0]!r}." if wrong[0] in numbers else f"{wrong[0]!r} is missing."


def sampled(population: Population, schema: Schema, n: int | None = None, name: str = "the sample") -> People:
    """People like those of a sample, as many as given or as there are in it; keys and ranges are the schema's."""
    if population.n < 1:
        raise PlanError("plan/sample", "The sample has nobody in it.")
    known = population.keyed(schema)
    unknown = known.notes.get("unknown", 0) - population.notes.get("unknown", 0)
    if known.pairs == 0 or (unknown > 0 and schema.other is None):
        raise PlanError(
            "plan/sample",
            f"The sample has {unknown:,} pairs with keys that the schema does not name"
            f"{'' if known.pairs else ', and none that it does'}; plan with the keys of the sample, or name them all.",
        )
    truth, values = known.truth(schema), schema.to_unit(known.keys, known.values)
    shares = np.round(np.bincount(known.sizes) / known.n, PLACES)
    people = _count("people", known.n if n is None else n)
    return People(
        people,
        truth.frequency,
        np.nan_to_num(truth.mean),
        SizeLaw.of(shares.tolist()),
        float(np.mean(values**2)),
        f"{people:,} people like the {known.n:,} of {name}, with {truth.mean_size:.3g} pairs on average of "
        f"{schema.d:,} keys.",
        known,
        values,
        schema,
    )


def independent_sizes(frequency: Floats) -> SizeLaw:
    """The law of the number of keys that somebody holds who holds each of them independently, to four decimals.

    By Fourier transform of its characteristic function, on a window of ten standard deviations around the mean.
    """
    mean, deviation = float(frequency.sum()), math.sqrt(float((frequency * (1 - frequency)).sum()))
    low = max(0, math.floor(mean - 10 * deviation) - 5)
    window = min(len(frequency), math.ceil(mean + 10 * deviation) + 10) - low + 1
    turns = np.exp(2j * math.pi * np.arange(window) / window)
    few, rest = frequency[frequency > RARE], frequency[frequency <= RARE]
    logs = np.zeros(window, dtype=np.complex128)
    with np.errstate(divide="ignore", invalid="ignore"):
        for part in np.array_split(few, max(1, len(few) * window >> 20)):
            logs += np.log(1 + part[:, None] * (turns - 1)).sum(axis=0)
        power = np.ones_like(rest)
        for term in range(1, TERMS + 1):  # the series of log(1 + f·x), summed over all rare keys at once
            power = power * rest
            logs -= float(power.sum()) * (1 - turns) ** term / term
        shares = np.fft.fft(np.nan_to_num(np.exp(logs)) * turns**-low).real / window
    return SizeLaw.of([0.0] * low + np.round(np.maximum(shares, 0), PLACES).tolist())


def _falling(d: int, pairs: float) -> Floats:
    """Frequencies in proportion to 1/k with the given sum; the most frequent are cut to what is possible."""
    most, shape = max(MOST_HELD, (1 + pairs / d) / 2), 1 / np.arange(1, d + 1)
    low, high = 0.0, float(d)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(middle * shape, most).sum() < pairs else (low, middle)
    falling: Floats = np.minimum(high * shape, most)
    return falling


def _mean_size(pairs: Any, law: SizeLaw | None, frequency: Any, d: int) -> float:
    """Pairs a person from whatever says it; refused if nothing does, or two things say different numbers."""
    said: dict[str, float] = {}
    if pairs is not None:
        said["pairs"] = number("the mean set size", pairs)
    if law is not None:
        said["the law of set sizes"] = law.mean
    if frequency is not None:
        said["the frequencies"] = float(np.sum(np.asarray(frequency, dtype=np.float64)))
    if not said:
        raise PlanError(
            "plan/people",
            "Say how many pairs people hold on average (pairs=5, --pairs 5), or give a sample of such people.",
        )
    (first, value), *others = said.items()
    if not 0 < value <= d:
        raise PlanError("plan/people", f"People hold more than 0 and at most {d:,} pairs, not {value:g}.")
    for name, other in others:
        if abs(other - value) > CLOSE * value:
            raise PlanError("plan/people", f"People hold {value:g} pairs by {first}, and {other:g} by {name}.")
    return value


def _count(what: str, given: Any) -> int:
    try:
        number = int(given)
        whole = number == float(given)
    except (TypeError, ValueError, OverflowError):
        number, whole = 0, False
    if not whole or not 1 <= number <= MOST_PEOPLE:
        raise PlanError(
            "plan/people", f"A plan needs a whole number of {what} from 1 to {MOST_PEOPLE:,}, not {given!r}."
        )
    return number


def number(what: str, given: Any) -> float:
    """A finite number that somebody gave for something; refused in words if it is none."""
    try:
        return float(read_fraction(given))
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        raise PlanError("plan/people", f"A plan takes a number for {what}, not {given!r}.") from None


def _numbers(what: str, given: Sequence[float] | Floats, d: int, low: float, high: float) -> Floats:
    try:
        numbers = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise PlanError("plan/people", f"A plan takes numbers for {what}, one for each key.") from None
    if numbers.shape != (d,) or not (np.isfinite(numbers) & (numbers >= low) & (numbers <= high)).all():
        raise PlanError(
            "plan/people", f"A plan takes {d:,} numbers from {low:g} to {high:g} for {what}, one for each key."
        )
    return numbers
