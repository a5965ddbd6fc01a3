"""What a process pays: a device one report at a time and for its first one, a server for its first tally."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import partial

from keyveil.bench.rows import REGISTRY, Benchmark, Race, benchmark
from keyveil.bench.usual import record_for, usual
from keyveil.core.coins import Coins
from keyveil.core.errors import MechanismError
from keyveil.mechanisms.registry import find_mechanism, mechanism_names

PREFIX = "PYTHONPYCACHEPREFIX"
PER_KEY = 0.2e-6  # seconds: 200 µs at 1000 keys, 2 ms at 10 000

_REPORT = (
    "from keyveil.core.schema import Schema\n"
    "from keyveil.core.coins import Coins\n"
    "from keyveil.mechanisms.registry import create\n"
    "m = create('ssr', Schema(keys=1000), 1, max_pairs=8)\n"
    "m.encode(m.perturb({3: 1, 5: 0}, Coins()))\n"
)
_FROM_DOCUMENT = (  # as a device gets it: every option is named
    "import json, sys\n"
    "from keyveil.core.coins import Coins\n"
    "from keyveil.mechanisms.registry import from_document\n"
    "m = from_document(json.loads(sys.argv[1]))\n"
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
    import resource  # there is none on Windows

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _processes(contestant: list[str], rival: list[str]) -> Race:
    """Two programs with their arguments, each in a process of its own.

    Both find byte code, as installed packages do: it is kept in a folder of the race, and written by the first turns.
    """
    kept = tempfile.TemporaryDirectory(prefix="keyveil-bench-")  # removed with the last reference to it
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def side(program: list[str]) -> None:
        subprocess.run([sys.executable, "-c", *program], check=True, env=environment | {PREFIX: kept.name})

    return Race(partial(side, contestant), partial(side, rival), clock=_of_children)


_IMPORTS = "a process that only imports NumPy, cryptography and msgspec"


@benchmark("first-report", against=_IMPORTS, goal=round(1 / 1.5, 3))
def first_report(quick: bool) -> Race:
    return _processes([_REPORT], [_NEEDED])


def _first_of(name: str, quick: bool) -> Race:
    return _processes([_FROM_DOCUMENT, json.dumps(usual(name, 1000).document())], [_NEEDED])


for _name in ("kvue", "pckv-ue", "topsel", "apart"):
    REGISTRY.append(Benchmark(f"first-report-{_name}", _IMPORTS, round(1 / 1.5, 3), partial(_first_of, _name)))


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
    return _processes([_TALLY.format(first="")], [_TALLY.format(first="backend.TWIN_WORK = 0")])
