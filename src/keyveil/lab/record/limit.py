"""How far a mechanism is from the information limit (docs/theory.md, the limit).

If keys are held independently, every ε-LDP report and every locally unbiased estimator obey
Σ_k tr(Cov(x_k, u_k) V_k⁻¹) ≤ n·C with C = (e^ε − 1)²/(4e^ε). V_k is the covariance of the estimates of the frequency f
and of f·m if people are drawn anew, too; for fixed people Cov/n is added to what the noise gives. The distance is n·C
over that sum: 1 is the limit. Where keys depend on each other it is indicative only.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from keyveil.frames.truth import Truth

Floats = NDArray[np.float64]

FEWEST = 8  # runs, below which covariances are not estimated


def information(epsilon: float) -> float:
    """C: the most that one report tells, as the largest variance of a likelihood ratio."""
    return math.expm1(epsilon) ** 2 / (4 * math.exp(epsilon))


def distance(
    frequencies: Floats, products: Floats | None, truth: Truth, squares: Floats, epsilon: float, n: int
) -> tuple[float | None, float | None]:
    """The distance from estimates run by run, [run, key], and its standard error (jackknife over runs).

    ``products`` are unbiased estimates of f·m, or None where a mechanism tells none: then all of its information is
    about frequencies. ``squares`` are mean squares of values.
    """
    runs, held = len(frequencies), np.flatnonzero(truth.count > 0)
    several = frequencies[:, held] if products is None else np.stack([frequencies[:, held], products[:, held]])
    if runs < FEWEST or not np.isfinite(several).all():
        return None, None
    f, m = truth.frequency[held], truth.mean[held]
    own = f * (1 - f), f * m * (1 - f), f * squares[held] - (f * m) ** 2  # variances and covariance of x and u
    if products is None:
        own = own[0], own[1], np.zeros_like(f)

    def at(rows: NDArray[np.intp]) -> float:
        told = _told(frequencies[rows][:, held], None if products is None else products[rows][:, held], own, n)
        return n * information(epsilon) / told if told > 0 else math.inf

    every = np.arange(runs)
    found = at(every)
    left_out = np.array([at(np.delete(every, one)) for one in every])
    if not math.isfinite(found) or not np.isfinite(left_out).all():
        return None, None
    return found, float(np.sqrt((runs - 1) * left_out.var()))


def _told(frequencies: Floats, products: Floats | None, own: tuple[Floats, Floats, Floats], n: int) -> float:
    """Σ tr(Cov V⁻¹). The inverse of a covariance of few runs is too large on average; a factor makes up for it."""
    x, both, u = own
    degrees = len(frequencies) - 1
    vf = frequencies.var(axis=0, ddof=1) + x / n
    if products is None:
        return float((degrees - 2) / degrees * (x / vf)[vf > 0].sum())
    vu = products.var(axis=0, ddof=1) + u / n
    off = (frequencies - frequencies.mean(axis=0)) * (products - products.mean(axis=0))
    c = off.sum(axis=0) / degrees + both / n
    determinant = vf * vu - c**2
    usable = determinant > 1e-12 * vf * vu
    shares = (x * vu - 2 * both * c + u * vf)[usable] / determinant[usable]
    return float((degrees - 3) / degrees * shares.sum())


def least_error(truth: Truth, epsilon: float, n: int) -> float:
    """The least mean squared error of frequencies of a locally unbiased estimator that spends all on frequencies.

    Σ f(1−f)/Var ≤ n·C is smallest in Σ Var if Var ∝ √(f(1−f)); what fixed people do not vary is taken off again.
    """
    f = truth.frequency[truth.count > 0]
    own = f * (1 - f)
    return max(float(np.sqrt(own).sum() ** 2 / (len(f) * n * information(epsilon)) - own.mean() / n), 0.0)
