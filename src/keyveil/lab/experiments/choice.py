"""A method of consistency chosen on synthetic people (Wang et al. 2020, Fig. 9), as a decoder and as a reading."""

from __future__ import annotations

from collections.abc import Sequence

from keyveil.core.estimates import Estimates
from keyveil.lab.coins import SeededCoins
from keyveil.lab.experiments.readings import Points, Run, categories
from keyveil.learn.choose import choose
from keyveil.learn.postprocess import estimates as processed
from keyveil.mechanisms.capabilities import SupportRates, need

CHOSEN = "chosen"
AMONG = ("base", "base-pos", "post-pos", "base-cut", "norm", "norm-mul", "norm-sub", "norm-cut", "power", "power-ns")
COLLECTIONS = 10  # synthetic ones for a choice; methods that differ little are told apart by more


def chosen(estimates: Estimates, seed: int) -> str:
    """The method with the least error for the categories, on people that Norm-Sub makes of the estimates."""
    questions = categories(estimates.schema.d)
    return choose(estimates, questions, coins=SeededCoins(seed, 0), methods=AMONG, repeats=COLLECTIONS).best


def picks_itself(run: Run, points: Points) -> Sequence[float]:
    """1 if the choice on people that PowerNS makes of the estimates is PowerNS again, otherwise 0."""
    assert run.raw is not None
    mechanism = run.history[-1].round.mechanism
    p, q = map(float, need(mechanism, SupportRates).support_rates())
    made = processed("power-ns", run.raw).frequency.values
    questions, coins = categories(len(made)), SeededCoins(run.seed, 1)
    found = choose(made, questions, coins=coins, p=p, q=q, n=run.raw.n, methods=AMONG, repeats=COLLECTIONS)
    return [float(found.ranking[0].method == "power-ns")]
