"""The methods by name, and what each of them needs to know."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import MechanismError
from keyveil.core.hints import did_you_mean
from keyveil.learn import consistency
from keyveil.learn.gauss import gauss
from keyveil.learn.power import power
from keyveil.mechanisms.totals import Constraint

Floats = NDArray[np.float64]

METHODS = (  # the simplest first: ties are decided by it
    "base",
    "base-pos",
    "post-pos",
    "base-cut",
    "norm",
    "norm-mul",
    "norm-sub",
    "norm-cut",
    "mle-apx",
    "mle",
    "gauss",
    "gauss-ns",
    "power",
    "power-ns",
)
SUPPORTS = ("mle-apx", "mle")  # take the probabilities that a report supports a key
UNBIASED = ("base", "norm")  # the only ones with intervals of their own
SUMMING = ("norm", "norm-mul", "mle-apx", "mle")  # make no sense without a sum
LIMITED = ("norm-sub", "norm-cut", "gauss-ns", "power-ns")  # need only an upper limit of the sum, if that


@dataclass(frozen=True)
class Cut:
    """What Base-Cut lets pass: so many absent keys on average (``alpha``), or the ``keep`` largest values."""

    alpha: float = consistency.FALSE_POSITIVES
    keep: int | None = None


USUAL_CUT = Cut()


@dataclass(frozen=True, eq=False)
class Noise:
    """What is known of the error: support probabilities p of a holder and q of others, n reports, deviation sigma."""

    p: float | None = None
    q: float | None = None
    n: int | None = None
    sigma: Floats | float | None = None

    def __post_init__(self) -> None:
        if self.p is not None and self.q is not None and not 0 <= self.q < self.p <= 1:
            raise MechanismError("postprocess/constants", f"p = {self.p} and q = {self.q} must be 0 ≤ q < p ≤ 1.")
        if self.n is not None and self.n < 1:
            raise MechanismError("postprocess/constants", f"There must be at least one report, not {self.n}.")
        if self.sigma is not None and not (np.isfinite(self.sigma).all() and np.min(self.sigma) > 0):
            raise MechanismError("postprocess/constants", "Standard deviations must be positive.")
        if self.sigma is None and self.p is not None and self.q is not None and self.n is not None:
            object.__setattr__(self, "sigma", math.sqrt(self.q * (1 - self.q) / self.n) / (self.p - self.q))

    def suffices(self, method: str) -> bool:
        if method in SUPPORTS:
            return self.p is not None and self.q is not None
        if method in ("base-cut", "gauss", "gauss-ns"):
            return self.sigma is not None
        return method not in ("power", "power-ns") or (self.sigma is not None and self.n is not None)


def known(method: str) -> str:
    """The name of a method, refused if there is none of it."""
    if method not in METHODS:
        hint = did_you_mean(method, [*METHODS, "bayes"]) or f"; there are {', '.join(METHODS)} and bayes"
        raise MechanismError("postprocess/unknown", f"There is no method {method!r}{hint}.")
    return method


def possible(method: str, constraint: Constraint, noise: Noise) -> bool:
    """Whether what is known is enough for the method."""
    return noise.suffices(method) and (constraint.total is not None or method not in SUMMING)


def run(method: str, raw: Floats, constraint: Constraint, noise: Noise, cut: Cut = USUAL_CUT) -> Floats:
    """One method on unbiased estimates. Where it would leave the box, the nearest vector inside is given."""
    total, most, upper = constraint.total, constraint.most, constraint.upper
    if known(method) == "base":
        return raw
    if not noise.suffices(method) and not (method == "base-cut" and cut.keep is not None):
        sigma = dict.fromkeys(("base-cut", "gauss", "gauss-ns"), "sigma, or p, q and n")
        needs = (dict.fromkeys(SUPPORTS, "p and q") | sigma).get(method, "n, and sigma or p and q")
        raise MechanismError("postprocess/constants", f"{method} needs {needs}; give them, or the mechanism.")
    if method in SUMMING and total is None:
        raise MechanismError(
            "postprocess/no-sum",
            f"{method} needs the sum of the frequencies, which these reports do not tell; give the mean set size as "
            "total, or use norm-sub, base-cut or power.",
        )
    if method in ("base-pos", "post-pos"):
        return np.minimum(consistency.base_pos(raw), _or_more(upper))
    if method == "base-cut":
        return np.minimum(consistency.base_cut(raw, noise.sigma, cut.alpha, cut.keep), _or_more(upper))
    if method in ("power", "power-ns"):
        assert noise.sigma is not None and noise.n is not None
        scale = 1.0 if total is None or total == 0 else total
        expected = np.minimum(power(raw, noise.sigma, noise.n, scale), _or_more(upper))
        return expected if method == "power" else projected(expected, constraint)
    if method in ("gauss", "gauss-ns"):
        assert noise.sigma is not None
        likely = np.minimum(gauss(raw, noise.sigma), _or_more(upper))
        return likely if method == "gauss" else projected(likely, constraint)
    if method == "norm-sub":
        return projected(raw, constraint)
    if method == "norm-cut":
        return np.minimum(consistency.norm_cut(raw, most if total is None else total), _or_more(upper))
    assert total is not None
    if method == "norm":
        return consistency.norm(raw, total)
    if method == "norm-mul":
        answer = consistency.norm_mul(raw, total)
    else:
        assert noise.p is not None and noise.q is not None
        if method == "mle":
            return consistency.mle(raw, noise.p, noise.q, total, upper)
        answer = consistency.mle_apx(raw, noise.p, noise.q, total)
    return answer if upper is None or answer.max() <= upper else consistency.norm_sub(answer, total, upper)


def projected(vector: Floats, constraint: Constraint) -> Floats:
    """The nearest vector that the constraint allows: Norm-Sub, and the second step of PowerNS."""
    if constraint.total is not None:
        return consistency.norm_sub(vector, constraint.total, constraint.upper)
    return consistency.norm_sub_at_most(vector, constraint.most, constraint.upper)


def _or_more(upper: float | None) -> float:
    return math.inf if upper is None else upper
