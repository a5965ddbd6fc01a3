"""Encoded payloads in bulk: the loop of their codec, compiled where that is possible.

This is the one way from bytes to answers. The check of an upload, the folding of a collector, and ``keyveil tally`` all
come here, so they cannot disagree about what a device could have sent.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from keyveil.core.codecs.loops import STEPS
from keyveil.core.codecs.payloads import FINE, REFUSED, Decoded, Flaws, Loop, Payloads
from keyveil.core.codecs.symbols import Codec
from keyveil.core.errors import ReportError
from keyveil.core.report import Payload
from keyveil.kernels.backend import twinless

if TYPE_CHECKING:  # the codec that is asked is loaded, and no other
    from keyveil.core.codecs.labelled_keys import LabelledKeys
    from keyveil.core.codecs.members import Members


def read(codec: Codec, payloads: Payloads, keep: bool = True) -> Decoded:
    """Rows and flaws of encoded payloads; without rows (``None``) if only flaws are wanted."""
    reader = getattr(codec, "read", None)  # of a ``BulkCodec``; isinstance takes as long as to read a hundred payloads
    if reader is None:
        return _one_by_one(codec, payloads)
    decoded: Decoded = reader(payloads, keep, fast)
    return decoded


def count_members(codec: Members, payloads: Payloads) -> tuple[NDArray[np.int64], Flaws]:
    """How many payloads without a flaw hold each symbol: int64[symbols]; and the flaws."""
    decoded, counts = codec.count(payloads, False, fast)
    return counts, decoded.flaws


def count_labels_of(codec: LabelledKeys, payloads: Payloads) -> tuple[NDArray[np.int64], Flaws]:
    """How many payloads without a flaw say each label about each key: int64[labels, keys]; and the flaws."""
    return codec.count(payloads, fast)


@cache
def fast(loop: Loop) -> Loop:
    """The loop as a kernel: compiled, or in plain Python where there is no compiler."""
    return twinless(loop, steps=STEPS)


def _one_by_one(codec: Codec, payloads: Payloads) -> Decoded:
    """For codecs of others, which may know single payloads only."""
    flaws: Flaws = np.zeros(len(payloads), dtype=np.int8)
    said: list[Payload] = []
    for number in range(len(payloads)):
        try:
            said.append(codec.decode(payloads.one(number)))
        except ReportError:
            flaws[number] = REFUSED
    if not said:
        return Decoded(np.zeros(len(payloads), dtype=np.int64), flaws)
    rows = codec.stack(said)
    return Decoded(rows[np.maximum(np.cumsum(flaws == FINE) - 1, 0)], flaws)
