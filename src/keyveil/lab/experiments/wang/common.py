"""What the experiments of Wang et al. 2020 share: OLH, eleven methods, two populations, and one form.

OLH spends exactly ε, so published and exact are the same.
"""

from __future__ import annotations

from keyveil.lab.experiments.shape import PUBLISHED, Axis, People, Series

NAMES = {
    "base": "Base",
    "base-pos": "Base-Pos",
    "post-pos": "Post-Pos",
    "base-cut": "Base-Cut",
    "norm": "Norm",
    "norm-mul": "Norm-Mul",
    "norm-sub": "Norm-Sub",
    "norm-cut": "Norm-Cut",
    "mle-apx": "MLE-Apx",
    "power": "Power",
    "power-ns": "PowerNS",
}
METHODS = tuple(Series(label, "olh", decoder=decoder, exact=True) for decoder, label in NAMES.items())
LABELS = tuple(NAMES.values())
FREE = ("Base", "Base-Pos", "Post-Pos", "Base-Cut", "Power")
"""Methods whose frequencies need not add up to 1."""
SUMMING = ("Norm", "Norm-Mul", "Norm-Sub", "MLE-Apx", "Norm-Cut", "PowerNS")
"""Methods that use that frequencies add up to 1: the six of which the paper says that they do well on sets."""
OTHER_EMOJI = (
    "How much is gained depends on how far the true frequencies lie below the noise; the paper's counts of emoji are "
    "not to be had, and people and keys of others stand in."
)

ZIPF = People("zipf", n=10**6)
EMOJI = People(
    "zipf",
    label="Emoji",
    n=884_427,
    options=(("exponent", 1.0), ("keys", 1573)),
    file="emojistats,emoji_sentiment",
    stands_for="the counts of an emoji keyboard: as many people and keys, by Zipf's law with exponent 1",
)
RANKS = Axis(
    "points",
    (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 57, 80, 113, 160, 226, 320, 452, 640, 905, 1024),
    "rank of the key by true frequency",
    log=True,
)
BUDGETS = Axis("epsilon", (0.2, 0.6, 1, 1.4, 1.8, 2.4, 3, 4), "privacy budget ε", quick=(0.2, 1, 2.4, 4))
ONE_FORM = (PUBLISHED,)


def but(*labels: str) -> tuple[str, ...]:
    """All methods without some."""
    return tuple(label for label in LABELS if label not in labels)
