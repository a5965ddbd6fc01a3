"""What the machine can do at all: a kernel in C that is compiled on the spot, and the speed of its memory."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from keyveil.bench.rows import Race, benchmark
from keyveil.kernels.bits import count_bits
from keyveil.kernels.hashing import count_support

D, G = 1024, 4

# The same hash and the same comparison as ``kernels.hashing``, written so that a compiler finds vectors by itself.
C_SOURCE = """
#include <stdint.h>
#include <stddef.h>
void count(const uint64_t *seeds, const uint32_t *starts, const uint32_t *lengths, size_t n,
           const uint32_t *values, uint32_t *votes, size_t d) {
    for (size_t i = 0; i < n; i++) {
        uint64_t spread = seeds[i] * 0x9E3779B97F4A7C15u;
        spread ^= spread >> 32;
        uint32_t low = (uint32_t)spread, high = (uint32_t)(spread >> 32), begin = starts[i], length = lengths[i];
        for (size_t v = 0; v < d; v++) {
            uint32_t x = (values[v] ^ low) * 0x21F0AAADu;
            x = (x ^ (x >> 15)) * 0x735A2D97u;
            x = ((x ^ (x >> 15)) ^ high) * 0xD35A2D97u;
            votes[v] += (uint32_t)(x - begin) < length;
        }
    }
}
"""


@cache
def compiled() -> Any:
    """The kernel in C, for this processor; ``OSError`` where there is no compiler."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise OSError("there is no C compiler here")
    with tempfile.TemporaryDirectory(prefix="keyveil-") as folder:
        source, library = Path(folder) / "count.c", Path(folder) / "count.so"
        source.write_text(C_SOURCE, encoding="utf-8")
        options = ["-O3", "-march=native", "-mprefer-vector-width=512", "-shared", "-fPIC", "-o", str(library)]
        made = subprocess.run([compiler, *options, str(source)], capture_output=True, text=True)
        if made.returncode:
            raise OSError(f"the C compiler refused: {made.stderr.strip().splitlines()[-1]}")
        return ctypes.CDLL(str(library))


def count_in_c(seeds: Any, symbols: Any) -> Any:
    """What ``count_support`` counts, by the kernel in C."""
    library, cells = compiled(), symbols.astype(np.uint64)
    starts, stops = ((((cells + np.uint64(k)) << np.uint64(32)) + np.uint64(G - 1)) // np.uint64(G) for k in (0, 1))
    begin, length = starts.astype(np.uint32), (stops - starts).astype(np.uint32)
    values = np.arange(D, dtype=np.uint32)
    values ^= values >> np.uint32(16)
    votes = np.zeros(D, dtype=np.uint32)
    arrays = [ctypes.c_void_p(array.ctypes.data) for array in (seeds, begin, length, values, votes)]
    size = ctypes.c_size_t
    library.count(*arrays[:3], size(len(seeds)), arrays[3], arrays[4], size(D))
    return votes


@benchmark("olh-kernel-of-c", against="the same loop in C, compiled here for this processor", goal=0.9)
def olh_in_c(quick: bool) -> Race:
    rng = np.random.default_rng(1)
    n = 20_000 if quick else 100_000
    seeds, symbols = rng.integers(0, 1 << 64, n, dtype=np.uint64), rng.integers(0, G, n).astype(np.uint32)
    if not np.array_equal(count_in_c(seeds, symbols), count_support(seeds, symbols, G, D)):
        raise AssertionError("The kernel in C counts otherwise.")
    return Race(lambda: count_support(seeds, symbols, G, D), lambda: count_in_c(seeds, symbols), n)


@benchmark("bit-counting-of-memory", against="reading the same bytes once (a sum of 64-bit words)")
def of_memory(quick: bool) -> Race:
    n = 20_000 if quick else 400_000  # 51 MB: more than the caches hold
    words = np.random.default_rng(2).integers(0, 1 << 64, (n, D // 64), dtype=np.uint64)
    return Race(lambda: count_bits(words), lambda: words.sum(dtype=np.uint64), n)


@benchmark("copying", against="a second, in GB: how fast this machine copies memory")
def copying(quick: bool) -> Race:
    size = 1 << (24 if quick else 27)
    source, target = np.ones(size // 8), np.empty(size // 8)
    return Race(lambda: np.copyto(target, source), size / 1e9)
