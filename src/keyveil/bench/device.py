"""What a process pays: a device one report at a time and for its first one, a server for its first tally."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial

from keyveil.bench.rows import REGISTRY, Benchmark, Race, benchmark
from keyveil.bench.usual import record_for, usual
from keyveil.core.coins import Coins
from keyveil.core.errors import MechanismError
from keyveil.mechanisms.registry import find_mechanism, mechanism_names

PER_KEY = 0.2e-6  # seconds: 200 µs at 1000 keys, 2 ms at 10 000

_REPORT = (
    "from keyveil.core.schema import Schema\n"
    "from keyveil.core.coins import Coins\n"
    "from keyveil.mechanisms.registry import create\n"
    "m = create('ssr', Schema(keys=1000), 1, max_pairs=8)\n"
    "m.encode(m.perturb({3: 1, 5: 0}, Coins()))\n"
)
_NEEDED = (
    "import numpy, msgspec\n"
    "from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes\n"
    "Cipher(algorithms.AES256(bytes(32)), modes.CTR(bytes(16))).encryptor()\n"
)


def _single(name: str, keys: int, quick: bool) -> Race:
    calls = 20 if quick else 200
    try:
        mechanism = usual(name, keys)
    except MechanismError as refused:
        raise OSError(str(refused)) from refused  # a row that cannot be measured
    record, coins = record_for(mechanism), Coins()

    def side() -> None:
        for _ in range(calls):
            mechanism.perturb(record, coins)

    return Race(side, calls * PER_KEY * keys, calls)


for _keys in (1000, 10_000):
    for _name in mechanism_names():
        if find_mechanism(_name).takes == "every set":
            _told = f"{1e6 * PER_KEY * _keys:,.0f} µs"
            REGISTRY.append(Benchmark(f"single-{_name}-{_keys}", _told, 1, partial(_single, _name, _keys)))


def _of_children() -> float:
    """Processor seconds of the processes that ended so far."""
    times = os.times()
    return times.children_user + times.children_system


@benchmark(
    "first-report", against="a process that only imports NumPy, cryptography and msgspec", goal=round(1 / 1.5, 3)
)
def first_report(quick: bool) -> Race:
    report, needed = ([sys.executable, "-c", program] for program in (_REPORT, _NEEDED))
    return Race(
        partial(subprocess.run, report, check=True), partial(subprocess.run, needed, check=True), clock=_of_children
    )


_TALLY = (
    "import numpy as np\n"
    "from keyveil.core.report import Reports\n"
    "from keyveil.core.schema import Schema\n"
    "from keyveil.kernels import backend\n"
    "from keyveil.mechanisms.registry import create\n"
    "{first}\n"
    "m = create('kvue', Schema(keys=100), 1)\n"
    "m.tally(Reports(np.zeros((65_536, 16), np.uint8), np.zeros(65_536, int)), 1)\n"
)


@benchmark("first-tally", against="the same process with machine code from the first call on", goal=1)
def first_tally(quick: bool) -> Race:
    usual, at_once = ([sys.executable, "-c", _TALLY.format(first=line)] for line in ("", "backend.TWIN_WORK = 0"))
    return Race(
        partial(subprocess.run, usual, check=True), partial(subprocess.run, at_once, check=True), clock=_of_children
    )
