"""The mechanisms under contract, at the sizes that each check needs."""

from __future__ import annotations

from typing import Any

from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.families.key_value import KeyValue
from keyveil.mechanisms.registry import create, find_mechanism, mechanism_names
from keyveil.testing.people import EXTREME

NAMES = mechanism_names()
# A quarter to a half of the public suite's sizes, for every form and for all mutants; soak tests take more. 480 scores
# see variances that are 36 % off; standard errors that are 30 % off make them 0.59 or 2.04 times as large as stated.
SCORES, REPEATS, DRAWS, BULK, SINGLES = 480, 100, 2000, 20_000, 600
CAP = {"max_pairs": 8}  # of eight keys: nobody is cut, so estimates are unbiased
TWO = {"max_pairs": 2}  # as many as ``two_halves`` gives: sampling one of many pairs would drown means in noise
OPTIONS: dict[str, dict[str, Any]] = {  # what a mechanism cannot do without
    "wsr": CAP,
    "ssr": CAP,
    "wheel": CAP,
    "collision": CAP,
    "topsel": {"padding": 8},
    "pckv-ue": TWO,
    "pckv-grr": TWO,
    "kv-sw": TWO,
    "split": TWO,
    "apart": {
        "max_pairs": 2,
        "set_sizes": "2",
        "typical": "0.9",
        "expected": 10**9,
    },  # so that nothing is cut: cutting moves means, as far as is allowed
}
FORMS: list[tuple[str, dict[str, Any]]] = [  # of a mechanism, with channels or estimates of their own
    *((name, {}) for name in NAMES),
    ("hr", {"form": "bit"}),
    ("kvue", {"bins": 4}),
    ("kvue", {"bins": 4, "rounding": "cell"}),
    ("kvue", {"levels": {"0": [-1, 0, 1], "1": [-1, "-0.5", "0.5", 1]}}),
    ("apart", {"mode": "dense", "max_pairs": None, "set_sizes": None}),
    ("block", {"width": 2, "states": 2}),
    ("block", {"width": 2, "states": 4}),
    ("privkv", {"fake_mean": "0.5"}),
    ("f2m", {"estimator": "mle"}),
    ("kvoh", {"bits": "optimised"}),
    ("ioh", {"oracle": "grr"}),
    ("moments", {"order": 1, "law": "uniform"}),
    ("marginals", {"oracle": "oue"}),
    ("wsr", {"bins": 4}),
    ("wsr", {"weights": "1,1,1,2,2,3,3,9"}),
    ("ssr", {"bins": 3}),
    ("ssr", {"bins": 4}),
    ("ssr", {"levels": [-1, "-0.5", "0.5", 1]}),
    ("kv-sw", {"levels": [-1, "-0.5", "0.5", 1]}),
    ("square-wave", {"levels": [-1, "-0.5", "0.5", 1]}),
    ("topsel", {"mode": "direct", "padding": 0}),
    ("topsel", {"kappa": "0.2"}),
    ("split", {"groups": "kvue:2,wsr:1,privkv:3", "options": "wsr.bins=4"}),
    ("ssr", {"max_pairs": 2, "overflow": "0.1"}),
    ("wsr", {"max_pairs": 2, "bins": 4, "overflow": "0.1"}),
    ("pckv-ue", {"overflow": "0.1"}),
    ("kv-sw", {"overflow": "0.1"}),
    ("split", {"overflow": "0.1"}),
]
PUBLISHED: list[tuple[str, dict[str, Any]]] = [  # other numbers in the same channels
    ("privkv", {"split": "paper"}),
    ("f2m", {"default": "0.5"}),
    ("f2m", {"split": "paper", "default": "1"}),
    ("pckv-ue", {"split": "paper"}),
    ("pckv-grr", {"split": "paper"}),
    ("kv-sw", {"split": "paper"}),
]
BIASED: list[tuple[str, dict[str, Any]]] = [  # other means from the same reports, biased by design
    ("privkv", {"estimator": "published"}),
    ("privkv", {"estimator": "iterated"}),
    ("pckv-ue", {"estimator": "published"}),
    ("pckv-grr", {"estimator": "published"}),
]
VARIANTS = FORMS + PUBLISHED + BIASED


def label(name: str, options: dict[str, Any]) -> str:
    """What a variant is called."""
    given = {option: value for option, value in options.items() if value is not None}
    told = (f"levels{len(value)}" if option == "levels" else value for option, value in given.items())
    return name + "".join(f"-{one}" for one in told)


IDS = [label(*variant) for variant in VARIANTS]

# few, where a report says little of each
KEYS = {"mean-est": 5, "ioh": 3, "moments": 4, "marginals": 4, "pckv-ue": 4, "pckv-grr": 4, "kv-sw": 4, "split": 4}

# Key and value go through two channels of ε/2: together they spend less than ε, and their means are biased by design.
BASELINES = {"krr-harmony", "shist-harmony", "rappor-meanest"}
BIASED_MEANS = BASELINES
# Budgets that are added up as printed are less than ε together (kv-sw's only at sizes that can be enumerated).
NOT_TIGHT = BASELINES | {f"{name}-paper" for name in ("privkv", "pckv-ue", "pckv-grr", "kv-sw")}


def tiny(name: str, epsilon: str = "1", **options: Any) -> Mechanism:
    """A mechanism that can be enumerated."""
    return usual(name, epsilon, **options).reduced()


def usual(name: str, epsilon: str = "1", **options: Any) -> Mechanism:
    """A mechanism of everyday size for statistics."""
    return made(name, KEYS.get(name, 8), epsilon, {**OPTIONS.get(name, {}), **options})


def made(name: str, keys: int, epsilon: str, options: dict[str, Any]) -> Mechanism:
    """A mechanism for so many keys; levels among the options are the schema's."""
    own = {option: value for option, value in options.items() if option != "levels" and value is not None}
    return create(name, Schema(keys=keys, levels=options.get("levels")), epsilon, **own)


def extreme(name: str, epsilon: str = "4", **options: Any) -> Mechanism:
    """A mechanism of so little noise, for the three keys of ``EXTREME``, that who holds what is seen in the errors."""
    keys = len(EXTREME[0])
    given = {**OPTIONS.get(name, {}), **options}
    given |= {most: min(given[most], keys) for most in ("max_pairs", "padding") if given.get(most)}
    if "weights" in given:
        given["weights"] = ",".join(given["weights"].split(",")[-keys:])
    return made(name, keys, epsilon, given)


def estimates_products(name: str, options: dict[str, Any]) -> bool:
    """Whether a variant has unbiased estimates of f and f·m: not frequencies alone, nor means of everybody."""
    no_means = "rounding" in options or options.get("states") == 2
    return issubclass(find_mechanism(name), KeyValue) and name not in BASELINES and not no_means


def large(name: str, epsilon: str = "1", **options: Any) -> Mechanism:
    """More keys than fit into a word, where the mechanism takes them, and sets larger than the reduced ones."""
    keys = {"ioh": 4}.get(name, 100)
    given = {**OPTIONS.get(name, {}), **options}
    given.pop("weights", None)
    if given.get("max_pairs"):
        given["max_pairs"] = 5
    return made(name, keys, epsilon, given)
