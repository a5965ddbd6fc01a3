"""What estimates say, in one or two sentences: by a rule, so that nothing is said that the intervals do not tell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from keyveil.core.columns import Column
from keyveil.core.estimates import Estimates

LEADS, HIGHEST = ("leads", "lead"), ("has the highest mean", "have the highest means")  # one key, several keys
_NAMED = 3  # leading keys that are named; of more, only their ranks are


def finding(estimates: Estimates) -> str:
    """Who leads, which ranks cannot be told apart, and how many keys are told from absent.

    Two ranks are told apart if every interval above lies above every interval below. The intervals are those for keys
    that were chosen by their estimates (``Estimates.chosen``), and all keys count, those that are not told as well.
    """
    if not estimates.n:
        return "Nobody reported yet."
    if estimates.frequency.absent:
        return _ranking(estimates.schema.keys, estimates.mean, estimates.schema.d, HIGHEST)
    told = int(np.count_nonzero(estimates.told))
    if not told:
        return "No key is told from absent yet: more people must report."
    first = _ranking(estimates.schema.keys, estimates.chosen(told).frequency, told, LEADS)
    few = f"{told:,} of {estimates.schema.d:,} keys {'is' if told == 1 else 'are'} told from absent."
    return first if told == estimates.schema.d else f"{first} {few}"


def _ranking(keys: Sequence[str], column: Column, told: int, said: tuple[str, str]) -> str:
    order = np.argsort(-column.values, kind="stable")  # NaN sorts last
    blocks = _blocks(column.low[order], column.high[order])
    if blocks[0] >= told > 1:
        return "No key's rank can be told from that of the others."
    leading = [keys[at] for at in order[: blocks[0]]]
    first = int(np.count_nonzero(~(column.high < column.low[order[0]])))  # keys that may have the first rank
    sentences = [_leading(leading, said, first)]
    ends = np.cumsum(blocks)
    unclear = [
        f"{start + 1} to {end}"
        for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
        if end - start > 1 and start + 1 < told
    ]
    if unclear:
        sentences.append(f"ranks {unclear[0]} cannot be told apart")
    return "; ".join(sentences) + "."


def _leading(names: Sequence[str], said: tuple[str, str], first: int) -> str:
    if len(names) == 1:
        return f"{names[0]} {said[0]}"
    if len(names) > _NAMED and first < len(names):
        return f"{names[0]} is among the first {first:,}; the ranks of the first {len(names):,} overlap"
    if len(names) > _NAMED:
        return f"The first {len(names):,} ranks cannot be told apart"
    return f"{', '.join(names[:-1])} and {names[-1]} {said[1]}, and which of them is first cannot be told"


def _blocks(low: NDArray[np.float64], high: NDArray[np.float64]) -> list[int]:
    """Sizes of runs of ranks that cannot be told apart, from the first rank; an unknown limit tells nothing."""
    least = np.minimum.accumulate(np.where(np.isnan(low), -np.inf, low))
    most = np.maximum.accumulate(np.where(np.isnan(high), np.inf, high)[::-1])[::-1]
    ends = np.flatnonzero(least[:-1] > most[1:]) + 1
    sizes: list[int] = np.diff(np.concatenate(([0], ends, [len(low)]))).tolist()
    return sizes
