"""What single reports add to a tally, each as the few cells that it touches.

An attacker looks at thousands of reports, and a tally may have millions of cells; a report touches few of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyveil.core.report import Reports
from keyveil.core.tally import Tally
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.counting import cells_of

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Added:
    """The counts that one report adds: ``numbers`` at the flat ``cells`` of a tally, which rise, and zero elsewhere."""

    shape: tuple[int, ...]
    cells: Counts
    numbers: Counts

    @property
    def kind(self) -> bytes:
        """Equal for reports that add the same."""
        return self.cells.tobytes() + self.numbers.tobytes()

    @property
    def amount(self) -> int:
        """The sum of all counts without their signs."""
        return int(np.abs(self.numbers).sum())

    def times(self, reports: int) -> Counts:
        """What so many such reports add, in the shape of the tally."""
        counts = np.zeros(self.shape, dtype=np.int64)
        counts.flat[self.cells] = reports * self.numbers
        return counts

    def tally(self, fingerprint: bytes, reports: int) -> Tally:
        """So many such reports."""
        return Tally(fingerprint, reports, self.times(reports))


def single_counts(mechanism: Mechanism, reports: Reports) -> list[Added]:
    """What every report adds."""
    words, found, known = mechanism.read_words(reports.publics), [], cells_of(mechanism)
    if known is not None:
        places, once = known.places(words, reports.payloads), np.ones(1, dtype=np.int64)
        return [Added(mechanism.tally_shape, places[at : at + 1], once) for at in range(len(places))]
    counts = np.zeros(mechanism.tally_shape, dtype=np.int64)
    flat = counts.reshape(-1)
    for at in range(len(reports)):
        mechanism.add(counts, reports.payloads[at : at + 1], words[at : at + 1])
        cells = np.flatnonzero(flat)
        found.append(Added(counts.shape, cells, flat[cells]))
        flat[cells] = 0
    return found


def weighed(single: Sequence[Added], cells: Counts, weights: Floats) -> Floats:
    """For every report the sum of its counts times the weights of rising ``cells``, which hold all that it touches."""
    owners = np.repeat(np.arange(len(single)), [len(one.cells) for one in single])
    touched, numbers = (np.concatenate([getattr(one, name) for one in single]) for name in ("cells", "numbers"))
    terms = weights[np.searchsorted(cells, touched)] * numbers
    sums: Floats = np.bincount(owners, weights=terms, minlength=len(single)).astype(np.float64)
    return sums
