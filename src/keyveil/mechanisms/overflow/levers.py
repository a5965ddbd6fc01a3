"""What attackers can do by an overflow group: few people, whose answers correct the frequencies of all keys.

How far that goes is no average of what reports say. So it is computed: some of the attackers all answer the same in
the group, in the places of others or of those in the group who answered otherwise, and the rest do what they can where
the frequencies are corrected so (docs/decisions/0144-limits-of-other-answers.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from keyveil.core.tally import Tally
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.thinning import thinned

SHARES = (0.05, 0.15, 0.3, 0.5, 0.75, 1.0)
"""Of the attackers, those who answer in the group: where few are enough to raise frequencies, the rest raise one."""


def lever_tallies(main: Mechanism, told: Sequence[Tally], attackers: int) -> Iterator[tuple[list[Tally], int]]:
    """Tallies of the ``main`` group and of the overflow group that so many attackers can make, and how many are left.

    ``told`` are the two tallies as they are.
    """
    most, group = told
    for count in sorted({round(share * attackers) for share in SHARES} - {0}):
        for answer in range(len(group.counts)):
            come = count * np.eye(len(group.counts), dtype=np.int64)[answer]
            everybody = most.reports + group.reports
            for others in (group.counts, _without_farthest(group.counts, answer, count)):
                counts = others + come
                left = everybody - int(counts.sum())
                if 0 <= left <= most.reports:
                    new = Tally(group.fingerprint, int(counts.sum()), counts)
                    yield [thinned(main, most, left), new], attackers - count


def _without_farthest(counts: NDArray[np.int64], answer: int, gone: int) -> NDArray[np.int64]:
    """The counts of answers without so many people, those first whose answers differ most from this one."""
    left = counts.copy()
    for other in np.argsort(-np.abs(np.arange(len(counts)) - answer), kind="stable").tolist():
        if other != answer:
            fewer = min(gone, int(left[other]))
            left[other], gone = left[other] - fewer, gone - fewer
    return left
