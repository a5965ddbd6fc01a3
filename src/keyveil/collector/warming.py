"""``python -m keyveil.collector.warming [NAME…]``: compile the loops that a collector runs, and keep the machine code.

It is kept where ``NUMBA_CACHE_DIR`` says. The image of the container is built with it, so that a collector answers
quickly from its first report on (Dockerfile; ``kernels.backend.prepare`` brings the code to where it is used).
"""

from __future__ import annotations

import sys
from collections.abc import Collection

import numpy as np

from keyveil.core.codecs.payloads import Payloads
from keyveil.core.coins import Coins
from keyveil.core.report import PUBLIC_BYTES
from keyveil.kernels.backend import prepare
from keyveil.mechanisms.registry import forms


def warm(names: Collection[str] = ()) -> int:
    """Check and count one report of every mechanism, in its usual forms; how many of them there were."""
    prepare()
    warmed = 0
    for _, mechanism in forms():
        if names and mechanism.name not in names:
            continue
        report = mechanism.perturb_pairs(next(iter(mechanism.every_record())), Coins())
        publics = np.frombuffer(report.public, np.uint8).reshape(1, PUBLIC_BYTES)
        payloads = Payloads.of([mechanism.encode(report)])
        mechanism.read_encoded(payloads, mechanism.read_words(publics), keep=False)
        mechanism.tally_good(publics, payloads)
        warmed += 1
    return warmed


if __name__ == "__main__":
    sys.stdout.write(f"{warm(sys.argv[1:])} forms of mechanisms can be counted at once.\n")
