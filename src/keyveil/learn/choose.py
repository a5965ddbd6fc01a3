"""Which method has the least error for given questions? Found by simulation on the estimates (docs/consistency.md).

The estimates, made consistent by Norm-Sub, are taken for the truth; collections are drawn from it with the noise of the
mechanism, all methods are applied, and the one with the smallest loss wins. Norm-Sub and not PowerNS makes the truth: a
power law would choose itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keyveil.core.coins import Coins
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.extras import extra
from keyveil.core.schema import Schema
from keyveil.learn.consistency import finite
from keyveil.learn.constraints import constraint_of
from keyveil.learn.methods import METHODS, Noise, known, possible, projected, run
from keyveil.learn.processed import unbiased
from keyveil.learn.source import source
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import SupportRates, can
from keyveil.mechanisms.totals import Constraint

Floats = NDArray[np.float64]
Loss = Callable[[Floats, Floats], float]
Questions = Loss | Sequence[Sequence[str | int]] | NDArray[np.floating] | None

MOST_KEYS = 10_000
REPEATS = 30  # simulated collections: docs/consistency.md
TIE = 2.0  # paired standard errors within which two methods are as good as each other


@dataclass(frozen=True)
class MethodScore:
    """The mean loss of a method over the simulated collections, and the standard error of that mean."""

    method: str
    loss: float
    se: float


@dataclass(frozen=True)
class Choice:
    """All methods that were possible, best first; ``best`` is the simplest of those that are as good as the first."""

    best: str
    ranking: tuple[MethodScore, ...]

    def rows(self) -> list[dict[str, str | float]]:
        """One dictionary per method, as frames take them."""
        return [asdict(score) for score in self.ranking]


def choose(
    frequencies: Estimates | ArrayLike,
    questions: Questions = None,
    *,
    coins: Coins | None = None,
    p: float | None = None,
    q: float | None = None,
    n: int | None = None,
    total: float | None = None,
    upper: float | None = None,
    fixed_sum: bool = False,
    mechanism: Mechanism | None = None,
    methods: Sequence[str] = METHODS,
    repeats: int = REPEATS,
) -> Choice:
    """Rank the methods for these ``questions``: sets of keys, rows of weights over keys, or a loss(answers, truth).

    Without questions every key is one. Sets and weights are judged by the mean squared error of their answers.
    Estimates bring their noise and constraint along (``mechanism`` and ``total`` as in ``postprocess.estimates``);
    a vector needs p, q, n and its sum (1 unless given), and ``fixed_sum`` for oracles whose estimates always have
    the same sum, as those of grr and ss. At most 10 000 keys.
    """
    if repeats < 2:
        raise MechanismError("choose/repeats", f"A standard error needs at least two repeats, not {repeats}.")
    if isinstance(frequencies, Estimates):
        collection = _collected(frequencies, total, mechanism)
        schema: Schema | None = frequencies.schema
    else:
        collection = _given(frequencies, p, q, n, 1.0 if total is None else total, upper, fixed_sum)
        schema = None
    names = [name for name in METHODS if name in {known(one) for one in methods}]
    usable = [name for name in names if possible(name, collection.constraint, collection.noise)]
    if not usable:
        raise MechanismError("choose/methods", "None of these methods is possible with what is known here.")
    ask = _loss_of(questions, schema, len(collection.truth))
    source = Coins() if coins is None else coins
    losses = np.array([_losses(usable, collection, ask, source) for _ in range(repeats)])
    return _ranked(usable, losses)


@dataclass(frozen=True, eq=False)
class _Collection:
    """A truth, and how a collection would see it."""

    truth: Floats
    sd: Floats
    noise: Noise
    constraint: Constraint
    fixed_sum: bool

    def draw(self, coins: Coins) -> Floats:
        wide = _before_centring(self.sd) if self.fixed_sum else self.sd
        errors = wide * normals(len(self.truth), coins)
        if self.fixed_sum:  # as in a multinomial law: whoever supports one key does not support another
            errors -= wide**2 / (wide @ wide) * errors.sum()
        drawn: Floats = self.truth + errors
        return drawn


def _before_centring(sd: Floats) -> Floats:
    """Deviations of independent errors that have the deviations ``sd`` once their sum is taken out: W - W²/ΣW = sd²."""
    wide = variance = sd**2
    for _ in range(20):
        wide = variance / (1 - wide / wide.sum())
    return np.sqrt(wide)


def normals(count: int, coins: Coins) -> Floats:
    """Standard normal numbers."""
    with extra("local", "Simulated errors"):
        from scipy.special import ndtri
    uniform = ((coins.words(count) >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
    drawn: Floats = ndtri(uniform)
    return drawn


def _collected(estimates: Estimates, total: float | None, mechanism: Mechanism | None) -> _Collection:
    raw = unbiased(estimates)
    values, se = raw.frequency.values, raw.frequency.se
    _few_enough(len(values))
    if not (np.isfinite(values).all() and np.isfinite(se).all() and (se > 0).all()):
        raise MechanismError("choose/unknown", "Some keys have no estimate; too few reports to choose a method.")
    constraint = constraint_of(raw, total, mechanism)
    own = source(raw, mechanism)
    rates = None if own is None else can(own, SupportRates)
    p, q = (
        (None, None) if rates is None else map(float, rates.support_rates())
    )  # mle and mle-apx are left out without them
    noise = Noise(p, q, raw.n, se)
    return _Collection(run("norm-sub", values, constraint, noise), se, noise, constraint, constraint.always)


def _given(
    vector: ArrayLike,
    p: float | None,
    q: float | None,
    n: int | None,
    total: float,
    upper: float | None,
    fixed_sum: bool,
) -> _Collection:
    if p is None or q is None or n is None:
        raise MechanismError("postprocess/constants", "Choosing for a vector needs p, q and n.")
    noise, constraint = Noise(p, q, n), Constraint(total, total, upper)
    _few_enough(np.size(vector))
    truth = run("norm-sub", finite(vector), constraint, noise)
    support = np.clip(q + (p - q) * truth, 0, 1)
    sd = np.sqrt(support * (1 - support) / n) / (p - q)
    return _Collection(truth, np.maximum(sd, 1e-300), noise, constraint, fixed_sum)


def _few_enough(d: int) -> None:
    if d > MOST_KEYS:
        raise MechanismError(
            "choose/too-many-keys",
            f"Choosing by simulation takes at most {MOST_KEYS:,} keys, not {d:,}; choose on a part of them.",
        )


def _loss_of(questions: Questions, schema: Schema | None, d: int) -> Callable[[Floats, Floats, bool], float]:
    """The loss of a vector against the truth; with ``floored`` negative answers count as zero."""

    def squares(answers: Floats, truth: Floats, floored: bool) -> float:
        return float(np.mean(((np.maximum(answers, 0) if floored else answers) - truth) ** 2))

    if questions is None:
        return squares
    if callable(questions):
        loss = questions
        return lambda answers, truth, floored: float(loss(np.maximum(answers, 0) if floored else answers, truth))
    weights = _weights(questions, schema, d)
    return lambda answers, truth, floored: squares(weights @ answers, weights @ truth, floored)


def _weights(questions: Sequence[Sequence[str | int]] | NDArray[np.floating], schema: Schema | None, d: int) -> Floats:
    if isinstance(questions, np.ndarray):
        if questions.ndim != 2 or questions.shape[1] != d or not len(questions):
            raise MechanismError("choose/questions", f"Weights of questions need {d} columns, one for each key.")
        return np.asarray(questions, dtype=np.float64)
    weights = np.zeros((len(questions), d))
    for row, keys in zip(weights, questions, strict=True):
        for key in keys:
            at = schema.index(key) if schema is not None else key
            if not isinstance(at, int | np.integer) or not 0 <= at < d:
                raise MechanismError("choose/questions", f"A question names {key!r}, which is not one of the {d} keys.")
            row[at] = 1.0
    if not len(weights):
        raise MechanismError("choose/questions", "There are no questions to choose for.")
    return weights


def _losses(
    methods: Sequence[str], collection: _Collection, ask: Callable[[Floats, Floats, bool], float], coins: Coins
) -> list[float]:
    drawn = collection.draw(coins)
    losses, made = [], {"post-pos": drawn}  # of post-pos the answers are floored, not the vector
    for method in methods:
        if method == "power-ns" and "power" in made:  # fitting the law is nearly all of the work
            made[method] = projected(made["power"], collection.constraint)
        elif method not in made:
            made[method] = run(method, drawn, collection.constraint, collection.noise)
        losses.append(ask(made[method], collection.truth, method == "post-pos"))
    return losses


def _ranked(methods: Sequence[str], losses: Floats) -> Choice:
    repeats = len(losses)
    mean, se = losses.mean(axis=0), losses.std(axis=0, ddof=1) / math.sqrt(repeats)
    order = np.argsort(mean, kind="stable")
    behind = losses - losses[:, order[:1]]  # the collections are the same for all methods
    apart = TIE * behind.std(axis=0, ddof=1) / math.sqrt(repeats)
    best = methods[int(np.flatnonzero(behind.mean(axis=0) <= apart)[0])]
    return Choice(best, tuple(MethodScore(methods[at], float(mean[at]), float(se[at])) for at in order))
