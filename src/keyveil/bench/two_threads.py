"""What the second core gains: every fold and every perturbation by default, against one thread, by the clock."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter

from keyveil.bench.rows import REGISTRY, Benchmark, Race
from keyveil.bench.usual import people, usual
from keyveil.core.coins import Coins
from keyveil.core.errors import MechanismError
from keyveil.kernels.threads import WORTH_IT, available
from keyveil.mechanisms.registry import mechanism_names

KEYS = 64


def _default(name: str, verb: str, quick: bool) -> Race:
    if available() < 2:
        raise OSError("there is one core here")
    try:
        mechanism = usual(name, KEYS)
    except MechanismError:
        mechanism = usual(name, 8)  # a mechanism for few keys
    coins, records = Coins(), people(mechanism, WORTH_IT)
    if verb == "perturb":
        return _race(partial(mechanism.perturb_many, records, coins))
    return _race(partial(mechanism.tally, mechanism.perturb_many(records, coins)))


def _race(work: Callable[..., object]) -> Race:
    return Race(work, partial(work, threads=1), WORTH_IT, clock=perf_counter)


for _name in mechanism_names():
    for _verb in ("perturb", "tally"):
        REGISTRY.append(Benchmark(f"threads-{_name}-{_verb}", "one thread", 1.7, partial(_default, _name, _verb)))
