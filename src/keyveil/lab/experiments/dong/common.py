"""What the experiments of Dong et al. 2023 share: their people, and Adaptive beside PCKV-GRR.

Everybody holds five of twenty keys. Every run draws new people and new means: of one draw of twenty means the rarest
two or three would decide more than the mechanism does.
"""

from __future__ import annotations

from keyveil.lab.experiments.shape import People, Series

LINEAR = People("linear-s", label="linear frequencies", n=20_000, options=(("slope", 1.0),), fresh=True)
PCKV = Series("PCKV-GRR", "pckv-grr:max_pairs=5,overflow=off")
SPLIT = (
    "With the same budget for keys all estimate frequencies alike, but they do not spend the same: PCKV-GRR spends "
    "less than it asks for (erratum E8), Adaptive more nearly all (errata E5, E6). At the same exact ε PCKV-GRR "
    "gains most."
)
RUNS = 30  # of a quick run; the paper has 100


def adaptive(theta: str, more: str = "", label: str = "") -> Series:
    """Adaptive as published, with the exponent θ of its sampling."""
    who = f"adaptive:max_pairs=5,variant=published,theta={theta},overflow=off{more}"
    return Series(label or f"Adaptive, θ = {theta}", who)


EVEN, ONE, TWO = adaptive("0"), adaptive("1"), adaptive("2")
