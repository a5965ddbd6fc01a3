"""Reports of several parts in bulk: the rows of every part as they are, and to which part each report belongs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.codecs.padding import Padded
from keyveil.core.errors import MechanismError
from keyveil.core.report import Payload


@dataclass(frozen=True, eq=False)
class PartRows:
    """The payloads of n reports. It is indexed like an array of n rows: by slices, masks and arrays of places."""

    parts: NDArray[np.int64]  # [n], the number of each report's part
    rows: tuple[Any, ...]  # for every part its payloads in bulk form, in the order of the reports

    @classmethod
    def joined(cls, blocks: Sequence[PartRows]) -> PartRows:
        """Blocks of rows in order, as one."""
        parts = range(len(blocks[0].rows))
        rows = [[block.rows[part] for block in blocks if (block.parts == part).any()] for part in parts]
        together = (concatenated(own) if own else blocks[0].rows[part] for part, own in enumerate(rows))
        return cls(np.concatenate([block.parts for block in blocks]), tuple(together))

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, chosen: Any) -> PartRows:
        places = np.arange(len(self))[chosen]
        parts = self.parts[places]
        rows = (own[self._ranks[places[parts == number]]] for number, own in enumerate(self.rows))
        return PartRows(parts, tuple(rows))

    @cached_property
    def _ranks(self) -> NDArray[np.int64]:
        """The place of each report among those of its part."""
        ranks = np.empty(len(self), dtype=np.int64)
        for number in range(len(self.rows)):
            mine = np.flatnonzero(self.parts == number)
            ranks[mine] = np.arange(len(mine))
        return ranks


def concatenated(rows: Sequence[Any]) -> Any:
    """Payloads in bulk form, block after block, as one."""
    if len(rows) == 1:
        return rows[0]
    return np.concatenate(rows) if isinstance(rows[0], np.ndarray) else type(rows[0]).joined(rows)


@dataclass(frozen=True)
class PartedCodec:
    """The lengths of reports whose form follows from their public bytes, and the payloads of bulk rows.

    Without public bytes nothing can be encoded or decoded: ``Mechanism.codec_at``, ``encode`` and ``decode`` have them.
    """

    forms: tuple[Padded, ...]
    shares: tuple[Fraction, ...]  # of all reports, for each form

    varies = False

    @property
    def bits(self) -> float:
        """What payloads take on average, without the padding to one length."""
        return sum(float(share) * form.bits for share, form in zip(self.shares, self.forms, strict=True))

    @property
    def longest(self) -> int:
        return self.forms[0].size

    def unstack(self, rows: Any) -> list[Payload]:
        """The payloads of ``PartRows``, in the order of the reports."""
        payloads: list[Payload] = [0] * len(rows)
        for number, (form, own) in enumerate(zip(self.forms, rows.rows, strict=True)):
            mine = np.flatnonzero(rows.parts == number)
            for place, payload in zip(mine.tolist(), form.unstack(own) if len(mine) else (), strict=True):
                payloads[place] = payload
        return payloads

    def encode(self, payload: Payload) -> bytes:
        raise _needs_public()

    def decode(self, data: bytes) -> Payload:
        raise _needs_public()

    def stack(self, payloads: Sequence[Payload]) -> NDArray[Any]:
        raise _needs_public()


def _needs_public() -> MechanismError:
    return MechanismError(
        "mechanism/codec",
        "How a report is written follows from its public bytes here: use the mechanism's encode, decode and tally.",
    )
