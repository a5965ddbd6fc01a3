"""How long a plan takes: against estimates of the same number of keys, and the command against another command."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import count
from time import process_time

from keyveil.bench.rows import Race, benchmark
from keyveil.core.coins import Coins
from keyveil.core.schema import Schema
from keyveil.mechanisms.registry import create
from keyveil.planning.ask import plan
from keyveil.planning.people import invented
from keyveil.planning.trials import tried_people

KEYS, MANY_KEYS, PAIRS, PEOPLE = 1_000, 20_000, 5, 20_000
ESTIMATES = 50
FEW_SECONDS = 3.0
MORE = 1.0  # seconds that the command may take beyond --help

_PLAN = ["plan", "--users", "20000", "--keys", "100", "--pairs", "5"]


def _planned(keys: int) -> Race:
    """Plans for one person more each time, so that nothing of the last one answers the next."""
    people = count(PEOPLE)
    schema = Schema(keys=keys)
    made = create("ssr", schema, 1, max_pairs=PAIRS)
    crowd = tried_people(invented(2_000, keys, PAIRS), schema)
    tally = made.tally(made.perturb_many(crowd.records(schema), Coins()))

    def estimates() -> None:
        for _ in range(ESTIMATES):
            made.estimate(tally)

    return Race(lambda: plan(users=next(people), keys=keys, pairs=PAIRS), estimates)


@benchmark("plan-1000-keys", against=f"{ESTIMATES} estimates of ssr", goal=1.0)
def plan_of_a_thousand(quick: bool) -> Race:
    return _planned(100 if quick else KEYS)


@benchmark("plan-20000-keys", against=f"{FEW_SECONDS:g} s", goal=1.0)
def plan_of_many(quick: bool) -> Race:
    return Race(_planned(100 if quick else MANY_KEYS).contestant, FEW_SECONDS)


@benchmark("plan-command", against=f"keyveil --help and {MORE:g} s", goal=1.0)
def command(quick: bool) -> Race:
    """Processor seconds of whole processes."""
    _run(_PLAN)  # compiled files are there from now on
    _run(["--help"])
    return Race(lambda: _run(_PLAN), min(_seconds(["--help"]) for _ in range(1 if quick else 3)) + MORE, clock=_clock)


def _clock() -> float:
    import resource  # only where there are POSIX processes

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime + process_time()


def _seconds(arguments: list[str]) -> float:
    start = _clock()
    _run(arguments)
    return _clock() - start


def _run(arguments: list[str]) -> None:
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-m", "keyveil", *arguments], check=True, capture_output=True, env=compiled)
