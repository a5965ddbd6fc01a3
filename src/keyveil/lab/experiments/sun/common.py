"""What the experiments of Sun et al. 2019 share: their people, and the six mechanisms as they ran them."""

from __future__ import annotations

from keyveil.lab.experiments.shape import Axis, People, Series

UNIFORM, GAUSSIAN = People("uniform", n=10**5), People("gaussian", n=10**5)
MOVIES = People(
    "sparse",
    label="MovieLens",
    n=138_000,
    options=(("keys", 100), ("pairs", 15.0)),
    file="movielens_top100",
    stands_for="the 100 most rated films of MovieLens: as many people and keys, 15 pairs a person",
)
LOW, MIDDLE, HIGH = (
    People("grid", label=f"{word} means", n=10**5, options=(("mean", mean),))
    for word, mean in (("low", -0.8), ("middle", 0.0), ("high", 0.8))
)
BUDGETS = Axis("epsilon", (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5), "privacy budget ε", log=True, quick=(0.1, 0.8, 1.6, 5))
FREQUENCIES = Axis("recipe", (0.05, 0.2, 0.6, 0.8), "frequency of all keys", name="frequency")

PRIVKV = Series("PrivKV", "privkv:estimator=published")
PRIVKV_A = Series("PrivKV-A", "privkv")
PRIVKVM = Series("PrivKVM, 10 rounds", "privkvm:rounds=10,estimator=published")
F2M = Series("F2M", "f2m:default=1")
KVUE = Series("KVUE", "kvue", exact=True)
KVOH = Series("KVOH", "kvoh:constrained=false", exact=True)
ALL = (PRIVKV, PRIVKV_A, PRIVKVM, F2M, KVUE, KVOH)

PULLED = (
    "PrivKV as published pulls means towards 0 (erratum A5): a bias, and less variance for it, which errs least where "
    "means are near 0, keys are rare or budgets small. Of those that do not pull KVUE errs least on average."
)


def but(*left_out: Series) -> tuple[str, ...]:
    """The labels of all without some."""
    return tuple(one.label for one in ALL if one not in left_out)
