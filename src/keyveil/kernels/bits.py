"""Column sums of packed bits: how many people set each bit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.kernels.backend import kernel

_BLOCK = 1 << 13  # rows at once: their carries stay in the cache
_UNPACKED = 1 << 10  # rows that the twin unpacks at once


def _count_bits_numpy(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    counts = np.zeros(64 * words.shape[1], dtype=np.int64)
    for first in range(0, len(words), _UNPACKED):
        octets = np.ascontiguousarray(words[first : first + _UNPACKED]).view(np.uint8)
        counts += np.unpackbits(octets, axis=1, bitorder="little").sum(axis=0, dtype=np.uint16)
    return counts


@kernel(twin=_count_bits_numpy, work=lambda words: 64 * words.size)
def count_bits(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """For ``words[n, w]`` the sums of its 64 w columns; bit b of word j is column 64 j + b.

    Counters stand upright: one word of ``ones``, ``twos`` and ``fours`` holds a binary digit of 64 columns. Eight rows
    at a time go through full adders; what overflows, one row of weight eight, is kept. The kept rows are an array
    eight times shorter that is then counted in the same way, until nothing is left.
    """
    n, width = words.shape
    counts = np.zeros(64 * width, dtype=np.int64)
    kept = np.zeros((_BLOCK // 8, width), dtype=np.uint64)
    digits = np.zeros((3, width), dtype=np.uint64)
    ones, twos, fours = digits[0], digits[1], digits[2]
    blank = np.zeros(width, dtype=np.uint64)
    for first in range(0, n, _BLOCK):
        source, start, rows, scale = words, first, min(_BLOCK, n - first), 0
        while rows > 0:
            digits[:] = np.uint64(0)
            stop = start + rows
            for i in range(start, stop, 8):
                a = source[i]
                b = source[i + 1] if i + 1 < stop else blank
                c = source[i + 2] if i + 2 < stop else blank
                d = source[i + 3] if i + 3 < stop else blank
                e = source[i + 4] if i + 4 < stop else blank
                f = source[i + 5] if i + 5 < stop else blank
                g = source[i + 6] if i + 6 < stop else blank
                h = source[i + 7] if i + 7 < stop else blank
                over = kept[(i - start) // 8]
                for j in range(width):
                    half = ones[j] ^ a[j]
                    one = half ^ b[j]
                    two_a = (ones[j] & a[j]) | (half & b[j])
                    half = one ^ c[j]
                    two_b = (one & c[j]) | (half & d[j])
                    one = half ^ d[j]
                    half = one ^ e[j]
                    two_c = (one & e[j]) | (half & f[j])
                    one = half ^ f[j]
                    half = one ^ g[j]
                    two_d = (one & g[j]) | (half & h[j])
                    ones[j] = half ^ h[j]

                    half = twos[j] ^ two_a
                    two = half ^ two_b
                    four_a = (twos[j] & two_a) | (half & two_b)
                    half = two ^ two_c
                    four_b = (two & two_c) | (half & two_d)
                    twos[j] = half ^ two_d

                    half = fours[j] ^ four_a
                    over[j] = (fours[j] & four_a) | (half & four_b)
                    fours[j] = half ^ four_b
            for digit in range(3):
                for j in range(width):
                    for bit in range(64):
                        counts[64 * j + bit] += np.int64((digits[digit, j] >> np.uint64(bit)) & np.uint64(1)) << scale
                scale += 1
            # A last group of fewer than eight rows may overflow too, so it keeps a row like the others.
            source, start, rows = kept, 0, (rows + 7) // 8 if rows > 1 else 0
    return counts
