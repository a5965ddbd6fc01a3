"""A tally with fewer reports that are like those it has."""

from __future__ import annotations

import numpy as np

from keyveil.core.tally import Tally
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.report_laws import ReportParts


def thinned(mechanism: Mechanism, tally: Tally, left: int) -> Tally:
    """``left`` reports like those of the tally: every count in proportion, of every part by itself."""
    share = left / max(tally.reports, 1)
    if not isinstance(mechanism, ReportParts):
        return Tally(tally.fingerprint, left, np.rint(tally.counts * share).astype(np.int64))
    own = [mechanism.part_tally(tally, number) for number in range(len(mechanism.parts))]
    ends = np.rint(np.cumsum([0, *(one.reports for one in own)]) * share).astype(np.int64)  # so that they add up
    fewer = np.diff(ends).tolist()
    return mechanism.whole_tally([thinned(*one) for one in zip(mechanism.parts, own, fewer, strict=True)])
