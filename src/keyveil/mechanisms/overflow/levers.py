"""What attackers can do by an overflow group: few people, whose answers correct the frequencies of all keys.

How far that goes is no average of what reports say. So it is computed: some of the people who are replaced were in the
group and answered otherwise, some of the crafted reports all answer the same there, and the rest do what they can where
the frequencies are corrected so (docs/decisions/0144-limits-of-other-answers.md).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from keyveil.core.tally import Tally

LEAVE, COME = (0.0, 0.3, 1.0), (0.0, 0.05, 0.15, 0.3, 0.6, 1.0)
"""Of the attackers, those in whose places were people of the group, and those who answer in it: where few are enough to
raise all frequencies, the rest raise one."""


def lever_groups(group: Tally, attackers: int) -> Iterator[tuple[Tally, int, int]]:
    """Tallies of the overflow group that so many attackers can make.

    Beside each stands how many of them may have replaced people who were not in the group, and how many may say
    something else.
    """
    for answer, alike in enumerate(np.eye(len(group.counts), dtype=np.int64)):
        for leave in sorted({round(share * attackers) for share in LEAVE}):
            kept = _without_farthest(group.counts, answer, leave)
            for come in sorted({round(share * attackers) for share in COME}):
                counts = kept + come * alike
                left = attackers - (group.reports - int(kept.sum()))
                yield Tally(group.fingerprint, int(counts.sum()), counts), left, attackers - come


def _without_farthest(counts: NDArray[np.int64], answer: int, gone: int) -> NDArray[np.int64]:
    """The counts of answers without so many people, those first whose answers differ most from this one."""
    left = counts.copy()
    for other in np.argsort(-np.abs(np.arange(len(counts)) - answer), kind="stable").tolist():
        if other != answer:
            fewer = min(gone, int(left[other]))
            left[other], gone = left[other] - fewer, gone - fewer
    return left
