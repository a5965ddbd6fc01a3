"""Seconds a report that peers take, one JSON object; run by the Python of their own environment, without Keyveil.

Each is called in the fastest way that it offers, best of several runs; times are processor seconds.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

D, EPSILON = 1024, 1.0

Times = dict[str, dict[str, float]]


def per_report(work: Callable[[], object], reports: int, repeats: int) -> float:
    """Seconds of one report, best of some runs; the first one compiles."""
    work()
    best = float("inf")
    for _ in range(repeats):
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return best / reports


def main() -> None:
    """All times of both peers, by operation and peer."""
    repeats = 3 if "--quick" in sys.argv else 7
    found: Times = {}

    def note(operation: str, peer: str, work: Callable[[], object], reports: int) -> None:
        found.setdefault(operation, {})[peer] = per_report(work, reports, repeats)

    pure_ldp(note)
    multi_freq_ldpy(note)
    sys.stdout.write(json.dumps(found) + "\n")


def pure_ldp(note: Callable[..., None]) -> None:
    """Clients and servers of pure-ldp."""
    import pure_ldp.frequency_oracles as oracles

    def both(kind: str, options: dict[str, Any]) -> tuple[Any, Any]:
        return tuple(getattr(oracles, kind + side)(EPSILON, D, **options) for side in ("Client", "Server"))

    hadamard = oracles.HadamardResponseServer(EPSILON, D)
    pairs = {
        "olh": (*both("LH", {"use_olh": True}), 500, 10),
        "oue": (*both("UE", {"use_oue": True}), 500, 500),
        "grr": (*both("DE", {}), 5000, 5000),
        "hr": (oracles.HadamardResponseClient(EPSILON, D, hadamard.get_hash_funcs()), hadamard, 2000, 2000),
    }
    for name, (client, server, many, counted) in pairs.items():
        reports = [client.privatise(1 + value % D) for value in range(counted)]
        note(f"{name}-perturbation", "pure-ldp", _asking(partial(_privatised, client), many), many)
        note(f"{name}-tally", "pure-ldp", _counting(server, reports), counted)


def multi_freq_ldpy(note: Callable[..., None]) -> None:
    """Functions of multi-freq-ldpy; its clients are compiled by Numba."""
    from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI, GRR_Client
    from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Aggregator_MI, LH_Client
    from multi_freq_ldpy.pure_frequency_oracles.SS import SS_Aggregator_MI, SS_Client
    from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client

    functions: dict[str, tuple[Any, Callable[[list[Any]], object], int, int]] = {
        "olh": (LH_Client, lambda reports: LH_Aggregator_MI(reports, D, EPSILON), 500, 10),
        "oue": (UE_Client, lambda reports: UE_Aggregator_MI(reports, EPSILON), 500, 500),
        "grr": (GRR_Client, lambda reports: GRR_Aggregator_MI(reports, D, EPSILON), 5000, 5000),
        "ss": (SS_Client, lambda reports: SS_Aggregator_MI(reports, D, EPSILON), 500, 500),
    }
    for name, (client, aggregate, many, counted) in functions.items():
        reports = [client(value % D, D, EPSILON) for value in range(counted)]
        ask = _asking(partial(_answered, client), many)
        note(f"{name}-perturbation", "multi-freq-ldpy", ask, many)
        note(f"{name}-tally", "multi-freq-ldpy", partial(aggregate, reports), counted)


def _privatised(client: Any, value: int) -> object:
    return client.privatise(1 + value)  # pure-ldp counts values from one


def _answered(client: Any, value: int) -> object:
    return client(value, D, EPSILON)


def _asking(perturb: Callable[[int], object], many: int) -> Callable[[], object]:
    return lambda: [perturb(value % D) for value in range(many)]


def _counting(server: Any, reports: list[Any]) -> Callable[[], object]:
    def work() -> None:
        for report in reports:
            server.aggregate(report)

    return work


if __name__ == "__main__":
    main()
