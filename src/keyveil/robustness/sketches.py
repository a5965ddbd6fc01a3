"""Sketches: which symbols reports support, summed over all reports, for detection and recovery.

A sketch is a second tally beside the first, with a fingerprint of its own. It holds sums over reports only, adds up
like any tally, and has a size that does not grow with reports; so it can be kept after the reports themselves are gone.
For every part of the mechanism of whose symbols something is known (``mechanisms.report_laws``) it counts:

    reports      how many there are
    numbers      how many of them support 0, 1, … symbols
    labels       of each key, how many of them support 0, 1, … of its symbols
    groups       sums, squares and products of how many symbols of each of some groups a report supports
    by number    the supports of each key, by how many keys the report supports
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import MechanismError
from keyveil.core.report import Reports
from keyveil.core.tally import Tally
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.counting import BLOCK
from keyveil.mechanisms.report_laws import OnePairSupports, ReportParts, ReportSymbols, SymbolLaws

Counts = NDArray[np.int64]

GROUPS = 32  # of symbols whose products are counted: symbol s belongs to group s modulo their number
MOST_NUMBERS = 33  # numbers of supported keys that are told apart when keys are counted; larger ones are one class
MOST_SYMBOLS = 4096
"""Of a mechanism with more there is no sketch. Up to here no sum of products leaves 64 bits: 128⁴ · 10¹⁰ reports."""
_CELLS = 1 << 24  # symbols of a block of reports that are looked at at once


@dataclass(frozen=True, eq=False)
class Section:
    """One part of a mechanism in a sketch, and how its counts are laid out."""

    mechanism: Mechanism
    number: int | None  # of the part; none if the mechanism has no parts
    laws: SymbolLaws

    @property
    def symbols(self) -> int:
        return len(self.laws.keys)

    @property
    def labels(self) -> int:
        """How many symbols speak of one key; 0 if they speak of none."""
        return 0 if self.laws.keys[0] < 0 else self.symbols // self.mechanism.schema.d

    @property
    def groups(self) -> int:
        return min(GROUPS, self.symbols)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The parts of a section in order, with their shapes; those of which nothing is known are left out."""
        d, groups, shapes = self.mechanism.schema.d, self.groups, dict[str, tuple[int, ...]](reports=(1,))
        if self.laws.numbers is not None:
            shapes["numbers"] = (self.symbols + 1,)
        if self.laws.together is not None:
            shapes |= {"sums": (groups,), "products": (groups, groups)}
            shapes |= {"squares": (groups, groups), "crossed": (groups, groups)}
            if self.labels > 1:
                shapes["labels"] = (d, self.labels + 1)
        if isinstance(self.mechanism, OnePairSupports):
            shapes["by number"] = (MOST_NUMBERS, d)
        return shapes

    @property
    def size(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes.values())

    def counted(self, rows: Any) -> Counts:
        """The counts of some payloads, end to end."""
        assert isinstance(self.mechanism, ReportSymbols)
        supported = self.mechanism.supported(rows)
        numbers, found = supported.sum(axis=1), {"reports": np.array([len(supported)])}
        shapes = self.shapes
        if "numbers" in shapes:
            found["numbers"] = np.bincount(numbers, minlength=self.symbols + 1)
        if "sums" in shapes:
            grouped = self.by_group(supported).astype(np.float64)  # exact below 2^53, and far quicker
            squared = grouped**2
            found |= {"sums": grouped.sum(axis=0), "products": grouped.T @ grouped}
            found |= {"squares": squared.T @ squared, "crossed": squared.T @ grouped}
        if "labels" in shapes:
            own = supported.reshape(len(supported), -1, self.labels).sum(axis=2)
            found["labels"] = np.stack([(own == count).sum(axis=0) for count in range(self.labels + 1)], axis=1)
        if "by number" in shapes:
            by_number = np.zeros(shapes["by number"], dtype=np.int64)
            np.add.at(by_number, np.minimum(numbers, MOST_NUMBERS - 1), supported)
            found["by number"] = by_number
        return np.concatenate([np.asarray(found[name]).reshape(-1).astype(np.int64) for name in shapes])

    def by_group(self, supported: NDArray[np.bool_]) -> Counts:
        """How many symbols of each group every report supports, [report, group]."""
        rows = -(-self.symbols // self.groups)
        filled = np.zeros((len(supported), rows * self.groups), dtype=np.uint8)
        filled[:, : self.symbols] = supported
        sums: Counts = filled.reshape(len(supported), rows, self.groups).sum(axis=1, dtype=np.int64)
        return sums

    def read(self, counts: Counts) -> dict[str, Counts]:
        """The parts of a section by name, from its counts end to end."""
        found, start = {}, 0
        for name, shape in self.shapes.items():
            size = math.prod(shape)
            found[name] = counts[start : start + size].reshape(shape)
            start += size
        return found


def can_sketch(mechanism: Mechanism) -> bool:
    """Whether anything is known of the symbols that reports support."""
    return bool(sections(mechanism))


@lru_cache(maxsize=64)
def sections(mechanism: Mechanism) -> tuple[Section, ...]:
    """The parts of a mechanism of whose symbols something is known."""
    if isinstance(mechanism, ReportParts):
        parts: list[tuple[int | None, Mechanism]] = list(enumerate(mechanism.parts))
    else:
        parts = [(None, mechanism)]
    found = []
    for number, part in parts:
        laws = part.symbol_laws() if isinstance(part, ReportSymbols) else None
        if laws is not None and 1 < len(laws.keys) <= MOST_SYMBOLS:
            found.append(Section(part, number, laws))
    return tuple(found)


def sketch_fingerprint(mechanism: Mechanism) -> bytes:
    """What a sketch belongs to: reports of this mechanism, and this kind of sketch."""
    return hashlib.sha256(b"keyveil sketch 2 " + mechanism.fingerprint).digest()


def sketch_shape(mechanism: Mechanism) -> tuple[int, ...]:
    """The shape of a sketch; refused where there is none."""
    own = sections(mechanism)
    if not own:
        raise MechanismError(
            "detect/no-sketch",
            f"Nothing is known of which symbols a report of {mechanism.title} supports; there is no sketch.",
        )
    return (sum(one.size for one in own),)


def sketch(mechanism: Mechanism, reports: Reports) -> Tally:
    """What the reports support, as a sketch."""
    counts = np.zeros(sketch_shape(mechanism), dtype=np.int64)
    own = sections(mechanism)
    most = max(1, min(BLOCK, _CELLS // max(one.symbols for one in own)))
    for some in reports.blocks(most):
        start = 0
        for one in own:
            rows = _rows(mechanism, one, some.payloads)
            if len(rows):
                counts[start : start + one.size] += one.counted(rows)
            start += one.size
    return Tally(sketch_fingerprint(mechanism), len(reports), counts)


def _rows(mechanism: Mechanism, one: Section, payloads: Any) -> Any:
    return payloads if one.number is None else mechanism.rows_of(payloads, one.number)  # type: ignore[attr-defined]


def read_sketch(mechanism: Mechanism, sketched: Tally) -> Iterator[tuple[Section, dict[str, Counts]]]:
    """Every section of a sketch with its counts by name; a sketch of something else is refused."""
    sketched.refuse_other(sketch_fingerprint(mechanism), sketch_shape(mechanism))
    start = 0
    for one in sections(mechanism):
        yield one, one.read(sketched.counts[start : start + one.size])
        start += one.size
