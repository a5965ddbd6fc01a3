"""Rates of one core: ids, tallies with their ids, wire bytes in both directions, and tables of cohorts."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.bench.rows import REGISTRY, Benchmark, Race, benchmark
from keyveil.bench.usual import people, usual
from keyveil.core.coins import Coins
from keyveil.core.report import Reports
from keyveil.core.tally import Tally
from keyveil.kernels.hashing import count_support
from keyveil.kernels.siphash import siphash_many
from keyveil.mechanisms.counting import BLOCK

IDS, UNREAD = 150_000_000, 300_000_000  # a second: ids to hash, and reports whose ids are not read
COHORTS: dict[str, Any] = {"set_sizes": "5", "cohorts": 1 << 16, "buckets": 64}
KEYS = 1000  # of reports on the wire


def _publics(n: int) -> NDArray[np.uint8]:
    return np.random.default_rng(1).integers(0, 256, (n, 16), dtype=np.uint8)


def _hashing(publics: NDArray[np.uint8]) -> None:
    for at in range(0, len(publics), BLOCK):
        siphash_many(bytes(16), publics[at : at + BLOCK])


@benchmark("id-hash", against=f"{IDS:,} ids a second", goal=1)
def id_hash(quick: bool) -> Race:
    n = 1 << (18 if quick else 20)
    publics = _publics(n)
    return Race(lambda: _hashing(publics), n / IDS, n)


def _tally(name: str, options: dict[str, Any], rate: float | None, quick: bool) -> Race:
    """``tally`` on one thread, ids included, at 100 keys; against a rate, or against hashing the ids alone."""
    n = 1 << (18 if quick else 22)
    mechanism: Any = usual(name, 100, **options)
    publics = _publics(n)
    reports = Reports(publics, np.random.default_rng(2).integers(0, mechanism.codec.outputs, n))
    return Race(lambda: mechanism.tally(reports, 1), n / rate if rate else partial(_hashing, publics), n)


for _name in ("grr", "pckv-grr", "wsr"):
    REGISTRY.append(Benchmark(f"tally-{_name}", f"{UNREAD:,} reports a second", 1, partial(_tally, _name, {}, UNREAD)))
for _name in ("kvue", "privkv"):
    REGISTRY.append(Benchmark(f"tally-{_name}", "hashing the same ids", 0.9, partial(_tally, _name, {}, None)))
REGISTRY.append(
    Benchmark("tally-topsel-cohorts", "60,000,000 reports a second", 1, partial(_tally, "topsel", COHORTS, 6e7))
)


# -- wire bytes -----------------------------------------------------------------------------------------------------


def _wire(name: str, verb: str, rate: float, quick: bool) -> Race:
    """Reports of 1000 keys: from bytes to counts, decoded to counts, or to bytes; against a rate."""
    n = 2_000 if quick else 20_000
    mechanism = usual(name, KEYS, max_pairs=5)
    reports = mechanism.perturb_many(people(mechanism, n), Coins())
    payloads = mechanism.encode_many(reports)
    sides = {
        "wire": lambda: mechanism.tally_good(reports.publics, payloads),
        "decoded": lambda: mechanism.tally(reports, 1),
        "encoding": lambda: mechanism.encode_many(reports),
    }
    return Race(sides[verb], n / rate, n)


for _name, _verb, _rate, _goal in (
    ("ssr", "wire", 2e6, 1),
    ("ssr", "decoded", 1e7, 1),
    ("pckv-ue", "wire", 2e5, 1),
    ("kv-sw", "wire", 2e5, 1),
    ("ssr", "encoding", 1e6, None),
    ("pckv-ue", "encoding", 1e6, None),
    ("kv-sw", "encoding", 1e6, None),
):
    REGISTRY.append(
        Benchmark(
            f"{_verb}-{_name}-{KEYS}",
            f"{_rate:,.0f} reports a second",
            _goal,
            partial(_wire, _name, _verb, _rate),
        )
    )


# -- hashed symbols -------------------------------------------------------------------------------------------------


def _hashes(name: str, options: dict[str, Any], quick: bool) -> Race:
    """A fold that hashes every symbol for every report, against the kernel of ``olh`` with as many hashes."""
    n = 2_000 if quick else 20_000
    mechanism: Any = usual(name, KEYS, **options)
    rows = np.random.default_rng(3).integers(0, mechanism.codec.outputs, n)
    words = np.random.default_rng(4).integers(0, 1 << 64, n, dtype=np.uint64)
    symbols = np.random.default_rng(5).integers(0, 4, n)
    return Race(
        lambda: mechanism.fold(rows, words), lambda: count_support(words, symbols, 4, mechanism.symbols), reports=n
    )


for _name, _options in (("topsel", {"set_sizes": "5", "hashing": "hash"}), ("wheel", {"max_pairs": 5})):
    REGISTRY.append(
        Benchmark(f"hashes-{_name}", "the kernel of olh, hash for hash", 0.7, partial(_hashes, _name, _options))
    )


# -- estimates from tables of cohorts -------------------------------------------------------------------------------


def _cohorts(hashing: str, limit: float, again: bool, quick: bool) -> Race:
    """Estimates of 20 000 keys from 65 536 cohorts (quick: a sixteenth), the first time or asked again."""
    part = 16 if quick else 1
    options = {**COHORTS, "cohorts": COHORTS["cohorts"] // part, "hashing": hashing}
    mechanism = usual("topsel", 20_000, **options)
    counts = np.random.default_rng(1).integers(0, 4, mechanism.tally_shape)
    tally = Tally(mechanism.fingerprint, int(counts.sum()), counts)
    if again:
        return Race(lambda: mechanism.estimate(tally), limit)
    # A tally of its own each time: what was counted is kept for the tally that was asked about last.
    return Race(lambda: mechanism.estimate(Tally(tally.fingerprint, tally.reports, counts)), limit / part)


for _name, _limit in (("hash", 3.0), ("partition", 6.0)):
    for _again, _told, _seconds in ((False, "first", _limit), (True, "again", 0.01)):
        REGISTRY.append(
            Benchmark(
                f"cohorts-{_name}-{_told}",
                f"{_seconds:g} processor seconds",
                1,
                partial(_cohorts, _name, _seconds, _again),
            )
        )
