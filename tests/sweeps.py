"""Sweeps over many cases and settings: some of them in every run, the others in ``make soak``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest


def in_turn(
    cases: Iterable[Sequence[Any]], settings: Sequence[Any], each: int = 1, first: int = 0
) -> Iterator[tuple[Sequence[Any], Any, bool]]:
    """Every case with every setting, and whether it is a case's turn: ``each`` of its settings are, in a circle.

    The first case begins with setting number ``first``, the next one where that ended. So every case has its turn in
    each run, and every setting has it with some cases.
    """
    for number, case in enumerate(cases):
        turns = {(first + number * each + step) % len(settings) for step in range(each)}
        for place, setting in enumerate(settings):
            yield case, setting, place in turns


def sampled(
    cases: Sequence[Sequence[Any]],
    settings: Sequence[Any],
    ids: Sequence[str] | None = None,
    each: int = 1,
    first: int = 0,
) -> list[Any]:
    """The parameters (case, setting) of a test; those whose turn it is not have the marker ``soak``."""
    names = ids or ["-".join(map(str, case)) for case in cases]
    labelled = [(name, *case) for name, case in zip(names, cases, strict=True)]
    return [
        pytest.param(*case, setting, id=f"{name}-{setting}", marks=() if turn else pytest.mark.soak)
        for (name, *case), setting, turn in in_turn(labelled, settings, each, first)
    ]
