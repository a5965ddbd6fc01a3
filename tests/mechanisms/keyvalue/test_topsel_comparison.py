"""TopSel on the two data sets with long tails on which it was first compared with the published mechanisms.

Four errors of every cell were stated then, for all keys and for the twenty most frequent ones: mean squared errors of
estimates without shrinkage, frequencies cut to [0, 1] and means to [-1, 1] (0 where there is none). Here each is
measured as a ratio to what was stated; at most 1.15 is wanted. The twenty keys of one run say little, so the ratio that
is held to this comes from the exact law of the counts of each key, and real reports must agree with it.

What was stated rests on plain ratios for means, which we do not show for weak keys (docs/decisions, 11). They are
measured, too: by them one of 32 cells is 1.19, which twenty to forty runs of twenty keys can hardly tell from 1.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray

from keyveil.core.records import Records
from keyveil.core.schema import GRID
from keyveil.core.tally import Tally
from keyveil.frames.truth import Truth
from keyveil.lab import datasets
from keyveil.lab.coins import SeededCoins
from keyveil.lab.metrics import most_frequent
from keyveil.mechanisms.keyvalue.topsel_cover import TopSelCover
from tests.mechanisms.keyvalue.sets import make

Floats = NDArray[np.float64]

COLUMNS = ("f all", "f top20", "m all", "m top20", "plain m all", "plain m top20")
# The first is the best published error over the factor by which it was beaten, to two digits; as are the others.
STATED = {
    ("zipf-beta", "0.5"): (1.95e-5, 3.6e-5, 0.41, 0.184),
    ("zipf-beta", "1"): (4.7e-6, 9.5e-6, 0.42, 0.092),
    ("zipf-beta", "2"): (8.7e-7, 1.8e-6, 0.416, 0.0285),
    ("zipf-beta", "4"): (8.5e-8, 2.06e-7, 0.43, 2.9e-3),
    ("sparse", "0.5"): (1.85e-4, 3.2e-4, 0.4375, 0.142),
    ("sparse", "1"): (3.2e-5, 6.2e-5, 0.439, 0.0375),
    ("sparse", "2"): (6.2e-6, 1.34e-5, 0.44, 9.6e-3),
    ("sparse", "4"): (7.3e-7, 1.95e-6, 0.445, 1.05e-3),
}
WANTED = np.array([1.15] * 4 + [1.25] * 2)
RUNS = {"zipf-beta": 20, "sparse": 5}  # of a million real reports
DRAWN, DRAWN_OF_ALL = 1000, 10  # by the law of a key; the errors of all keys hardly differ from run to run


@dataclass(frozen=True, eq=False)
class Crowd:
    """People, what is true of them, and the law of their set sizes."""

    records: Records
    truth: Truth
    top: NDArray[np.intp]

    @classmethod
    @lru_cache(maxsize=1)
    def of(cls, name: str, n: int) -> Crowd:
        data = datasets.load(name, n=n)
        truth = data.population.truth(data.schema)
        return cls(data.population.records(data.schema), truth, most_frequent(truth.frequency, 20))

    def mechanism(self, epsilon: str) -> TopSelCover:
        sizes = {int(size): int(count) for size, count in enumerate(np.bincount(self.records.sizes)) if count}
        made = make("topsel", self.records.d, epsilon, sizes=sizes)
        assert isinstance(made, TopSelCover)
        return made

    def errors(self, mechanism: TopSelCover, tally: Tally) -> Floats:
        """Mean squared errors in the order of the columns."""
        estimates, held = mechanism.estimate(tally), self.truth.frequency > 0
        product = estimates.product
        assert product is not None
        frequency = (np.clip(estimates.frequency.values, 0, 1) - self.truth.frequency) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            plain = np.where(estimates.frequency.values > 0, product / estimates.frequency.values, np.nan)
        parts = [frequency, frequency[self.top]]
        for means in (estimates.mean.values, plain):
            squares = (np.nan_to_num(np.clip(means, -1, 1)) - np.nan_to_num(self.truth.mean)) ** 2
            parts += [squares[held], squares[self.top]]
        return np.array([part.mean() for part in parts])


def real_tally(crowd: Crowd, mechanism: TopSelCover, run: int) -> Tally:
    """Everybody reports, and everything is counted."""
    tally = Tally.empty(mechanism.fingerprint, mechanism.tally_shape)
    for block in mechanism.reports(crowd.records, SeededCoins(2, run)):
        tally = tally + mechanism.tally(block)
    return tally


class KeyLaw:
    """Draws the supports of some keys, each in its exact law when every report has a seed of its own.

    A report supports no sign of a key, one, or both. How often depends on the size of the sender's set and on the sign
    it holds, if any; so people are counted by these, and a multinomial number stands for them. Keys are drawn
    independently of each other, which does not touch the mean of any error over keys.
    """

    def __init__(self, crowd: Crowd, mechanism: TopSelCover, keys: NDArray[np.intp]) -> None:
        self.mechanism, self.keys = mechanism, keys
        records, d = crowd.records, crowd.records.d
        self.places = np.full(d, -1)
        self.places[keys] = np.arange(len(keys))
        mine = np.flatnonzero(self.places[records.keys] >= 0)
        sizes = records.sizes
        self.classes = int(sizes.max()) + 1
        self.cells = self.places[records.keys[mine]] * self.classes + np.repeat(sizes, sizes)[mine]
        self.chances = ((1 + records.values[mine] / GRID) / 2).astype(np.float32)  # of the high sign
        self.people = np.bincount(sizes, minlength=self.classes)
        own, other = mechanism.cover.by_size
        signs, t = mechanism.cover.sharing, mechanism.channel.outputs
        hashed = mechanism.hashing == "hash"
        opposite = signs * own + (1 - signs) * (1 - own) / (t - 1) if hashed else other
        # own sign alone, the opposite one alone, both, none; by size
        self.holder = _law(own - signs * own, opposite - signs * own, signs * own)
        self.stranger = _law(other * (1 - signs), other * (1 - signs), signs * other)

    def tally(self, rng: np.random.Generator) -> Tally:
        shape = len(self.keys), self.classes
        high = rng.random(len(self.chances), dtype=np.float32) < self.chances
        lows, highs = np.bincount(2 * self.cells + high, minlength=2 * shape[0] * shape[1]).reshape(-1, 2).T
        supports = np.zeros((2, len(self.keys)), dtype=np.int64)
        for sign, holders in enumerate((lows.reshape(shape), highs.reshape(shape))):
            alone, opposite, both, _ = np.moveaxis(rng.multinomial(holders, self.holder).sum(axis=1), -1, 0)
            supports[sign] += alone + both
            supports[1 - sign] += opposite + both
        strangers = self.people - (lows + highs).reshape(shape)
        low, high_only, both, _ = np.moveaxis(rng.multinomial(strangers, self.stranger).sum(axis=1), -1, 0)
        supports += np.stack((low + both, high_only + both))
        counts = np.zeros(self.mechanism.tally_shape, dtype=np.int64)
        counts[:, self.keys] = supports
        return Tally(self.mechanism.fingerprint, int(self.people.sum()), counts)


def _law(*parts: Floats) -> Floats:
    told = np.clip(np.stack(parts, axis=1), 0, 1)
    return np.column_stack((told, 1 - told.sum(axis=1)))


def expected(crowd: Crowd, mechanism: TopSelCover, runs: int, of_all: int) -> tuple[Floats, Floats]:
    """Errors by the exact law of each key, with their standard errors; ``of_all`` runs for the columns of all keys."""
    fresh = replace(mechanism, cohorts=0) if mechanism.cohorts != 1 else mechanism
    rng = np.random.default_rng(3)
    everything = KeyLaw(crowd, fresh, np.arange(crowd.records.d))
    some = KeyLaw(crowd, fresh, crowd.top)
    rows = np.array([crowd.errors(fresh, everything.tally(rng)) for _ in range(of_all)])
    top = np.array([crowd.errors(fresh, some.tally(rng)) for _ in range(runs)])
    (mean, se), (mean_top, se_top) = _averaged(rows), _averaged(top)
    mean[1::2], se[1::2] = mean_top[1::2], se_top[1::2]
    return mean, se


def _averaged(rows: Floats) -> tuple[Floats, Floats]:
    return rows.mean(axis=0), rows.std(axis=0, ddof=1) / np.sqrt(len(rows))


@pytest.mark.parametrize(("name", "epsilon"), [("zipf-beta", "0.5"), ("sparse", "4")])
def test_the_law_of_a_key_is_that_of_real_reports(name: str, epsilon: str) -> None:
    """40 mean supports over 25 runs of 5000 people, real and drawn: six standard errors are a false alarm below 1e-7.

    Their spread is known to 3 %.
    """
    crowd = Crowd.of(name, 5000)
    mechanism = replace(crowd.mechanism(epsilon), cohorts=0)
    law, rng = KeyLaw(crowd, mechanism, crowd.top), np.random.default_rng(5)
    real = np.array([real_tally(crowd, mechanism, run).counts[:, crowd.top] for run in range(25)])
    drawn = np.array([law.tally(rng).counts[:, crowd.top] for _ in range(25)])
    noise = np.sqrt((real.var(axis=0).mean() + drawn.var(axis=0).mean()) / 25)
    assert abs(real.mean(axis=0) - drawn.mean(axis=0)).max() < 6 * noise
    assert real.std(axis=0).mean() == pytest.approx(drawn.std(axis=0).mean(), rel=0.15)


def test_a_tenth_of_zipf() -> None:
    """Errors grow tenfold with a tenth of the people; 1024 keys, half of them cut to 0: a run is off by 3 %."""
    crowd = Crowd.of("zipf-beta", 100_000)
    mechanism = crowd.mechanism("1")
    errors = [crowd.errors(mechanism, real_tally(crowd, mechanism, run))[0] / 10 for run in range(4)]
    assert np.mean(errors) <= WANTED[0] * STATED["zipf-beta", "1"][0]


@pytest.mark.soak
@pytest.mark.parametrize(("name", "epsilon"), STATED, ids=lambda part: str(part))
def test_the_comparison(name: str, epsilon: str, record_property: Callable[[str, object], None]) -> None:
    """A million people: ratios to what was stated, expected and measured, each with its standard error.

    What is expected, known to about 2 %, must not exceed 1.15 (1.25 for plain ratios); what is measured must lie within
    five standard errors of it.
    """
    begin, stated = time.perf_counter(), np.array(STATED[name, epsilon])[[0, 1, 2, 3, 2, 3]]
    crowd = Crowd.of(name, 1_000_000)
    mechanism = crowd.mechanism(epsilon)
    mean, se = (part / stated for part in expected(crowd, mechanism, DRAWN, DRAWN_OF_ALL))
    rows = [crowd.errors(mechanism, real_tally(crowd, mechanism, run)) / stated for run in range(RUNS[name])]
    measured, measured_se = _averaged(np.array(rows))
    drawn = np.sqrt([DRAWN_OF_ALL, DRAWN] * 3)
    measured_se = np.maximum(measured_se, se * drawn / np.sqrt(len(rows)))  # few runs say little about their spread
    way = mechanism.hashing if mechanism.kappa is None else f"{mechanism.hashing} {mechanism.kappa}"
    record_property("buckets", f"{mechanism.buckets} by {way}, {mechanism.cohorts or 'no'} cohorts")
    for at, column in enumerate(COLUMNS):
        record_property(column, f"{mean[at]:.3f} ± {se[at]:.3f} (measured {measured[at]:.3f} ± {measured_se[at]:.3f})")
    record_property("seconds", round(time.perf_counter() - begin))
    assert (mean <= WANTED).all(), "worse than stated"
    assert (abs(measured - mean) < 5 * np.hypot(se, measured_se)).all(), "real reports do something else"
