"""What the experiments of Wang et al. 2020 share: OLH, eleven methods, two populations, and one form.

OLH spends exactly ε, so published and exact are the same.
"""

from __future__ import annotations

from keyveil.lab.experiments.shape import PUBLISHED, People, Series

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
OTHERS = tuple(label for label in LABELS if label != "PowerNS")

ZIPF = People("zipf", n=10**6)
EMOJI = People(
    "zipf",
    label="Emoji",
    n=884_427,
    options=(("exponent", 1.0), ("keys", 1573)),
    file="emoji_sentiment",
    stands_for="the counts of an emoji keyboard, which are no longer to be had: as many people and keys, Zipf exponent 1",
)
ONE_FORM = (PUBLISHED,)
