"""Fuzzing that is guided by coverage: what reaches a new place in Keyveil's own code is spoilt further.

A target takes bytes and answers or refuses them with a ``KeyveilError``; everything else that it raises is a crash. Of
every ``TRACED`` inputs one is run under ``sys.settrace``, which is slow, and tells the steps from line to line that it
took. Compiled kernels take no such steps, so a target may return what it saw, and that guides just as steps do.
"""

from __future__ import annotations

import json
import random
import sys
import traceback
from collections.abc import Callable, Hashable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import keyveil
from keyveil.core.errors import KeyveilError

TRACED = 8  # one of so many inputs is traced
_OWN = str(Path(keyveil.__file__).parent)
_LONGEST = 1 << 16  # bytes of an input
_MOST_KEPT = 2000  # inputs of a corpus

Mutate = Callable[[bytes, random.Random], bytes]
Step = tuple[int, int, int]
"""From one line to another of a code object."""


@dataclass(frozen=True)
class Target:
    """Something that reads what strangers write: where to begin, how to spoil it, and what reads it."""

    name: str
    seeds: Sequence[bytes]
    read: Callable[[bytes], Hashable]
    mutate: Mutate


@dataclass
class Hunt:
    """What became of the inputs of one target."""

    inputs: int = 0
    answered: int = 0
    places: set[Hashable] = field(default_factory=set)  # steps, codes of refusals and what the target saw
    corpus: list[bytes] = field(default_factory=list)
    crashes: dict[str, tuple[bytes, str]] = field(default_factory=dict)  # by place: an input and what it raised


def hunt(target: Target, inputs: int, seed: int, traced: int = TRACED) -> Hunt:
    """Feed so many spoilt inputs to a target."""
    chance, found = random.Random(seed), Hunt(corpus=list(target.seeds))
    for one in target.seeds:
        _feed(target, one, found, trace=True)
    while found.inputs < inputs:
        data = target.mutate(chance.choice(found.corpus), chance)[:_LONGEST]
        trace = found.inputs % traced == 0
        if _feed(target, data, found, trace) and len(found.corpus) < _MOST_KEPT:
            found.corpus.append(data)
    return found


def _feed(target: Target, data: bytes, found: Hunt, trace: bool) -> bool:
    """Run one input; whether it reached a place that none did before."""
    found.inputs += 1
    steps: set[Step] = set()
    before = len(found.places)
    if trace:
        sys.settrace(_tracer(steps))
    try:
        seen = target.read(data)
    except KeyveilError as refused:
        found.places.add(refused.code)
    except Exception as crash:
        sys.settrace(None)
        where = traceback.extract_tb(crash.__traceback__)[-1]
        told = f"{type(crash).__name__} at {Path(where.filename).name}:{where.lineno}"
        found.crashes.setdefault(told, (data, "".join(traceback.format_exception(crash))[-3000:]))
        found.places.add(told)
    else:
        found.answered += 1
        found.places.add(seen)
    finally:
        sys.settrace(None)
    found.places |= steps
    return len(found.places) > before


def _tracer(steps: set[Step]) -> Callable[[FrameType, str, Any], Any]:
    """What ``sys.settrace`` calls: notes steps in code of Keyveil, and stays away from all other code."""

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        code: CodeType = frame.f_code
        if not code.co_filename.startswith(_OWN):
            return None
        number, last = id(code), 0

        def line(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal last
            if event == "line":
                steps.add((number, last, frame.f_lineno))
                last = frame.f_lineno
            return line

        return line

    return enter


# -- ways to spoil ---------------------------------------------------------------------------------------------------

_PIECES = [b'"', b"{", b"}", b"[", b"]", b":", b",", b"null", b"1e999", b"-0", b"\\u0000", b"\xff", b"\xed\xa0\x80"]
_PIECES += [b"9" * 30, b"\n", b"\xef\xbb\xbf", b"NaN", b"inf", b"\0" * 8, b"\xff" * 8, b"\x80" + b"\0" * 7]

_HOSTILE: list[Any] = [None, True, False, 0, 1, -1, 2, 255, 65536, 1 << 31, 1 << 63, 10**40, 0.5, -0.0, 1e308, "", "0"]
_HOSTILE += ["1e999", "nan", "-1", "1/3", "0.1", "\0", "é" * 70, "x" * 5000, [], {}, [[]], {"": 0}, [None] * 40, "1_0"]


def spoilt(whole: bytes, chance: random.Random) -> bytes:
    """A few cuts, flips, copies and foreign pieces."""
    data = bytearray(whole)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(6)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[at : at + chance.randint(1, 8)]
        elif kind == 2:
            data[at:at] = chance.randbytes(chance.randint(1, 8))
        elif kind == 3:
            data[at:at] = chance.choice(_PIECES)
        elif kind == 4:
            start = chance.randrange(len(data) + 1)
            data[at:at] = data[start : start + chance.randint(1, 40)]
        else:
            del data[at:]
    return bytes(data)


def spoilt_json(whole: bytes, chance: random.Random) -> bytes:
    """A document with other values in some places, or now and then with spoilt bytes."""
    if chance.random() < 0.2:
        return spoilt(whole, chance)
    try:
        document = json.loads(whole)
    except (ValueError, RecursionError):
        return spoilt(whole, chance)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        document = _changed(document, chance)
    try:
        return json.dumps(document).encode()
    except (ValueError, RecursionError):
        return spoilt(whole, chance)


def _changed(document: Any, chance: random.Random) -> Any:
    """The same with one place changed: a value replaced, moved, doubled or taken out."""
    holders = _holders(document)
    if not holders:
        return deepcopy(chance.choice(_HOSTILE))
    holder = chance.choice(holders)
    where = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    kind = chance.randrange(8)
    if kind == 0:
        del holder[where]
    elif kind == 1:
        holder[where] = deepcopy(chance.choice(holders))
    elif kind == 2 and isinstance(holder, dict):
        holder[chance.choice(("", "name", "keys", "x", str(where) + "s"))] = holder[where]
    elif kind == 2:
        holder.append(holder[where])
    elif kind <= 4 and _is_number(holder[where]):
        holder[where] = _near(holder[where], chance)
    else:
        holder[where] = deepcopy(chance.choice(_HOSTILE))
    return document


def _holders(document: Any) -> list[Any]:
    """All objects and lists in a document that hold something."""
    found, open_ = [], [document]
    while open_:
        one = open_.pop()
        inside = list(one.values()) if isinstance(one, dict) else one if isinstance(one, list) else []
        if inside:
            found.append(one)
            open_ += inside
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _near(number: Any, chance: random.Random) -> Any:
    return chance.choice((number + 1, number - 1, -number, number * 2, number * 1000, str(number), number + 0.5))
