"""Programs with one planted mistake each, and the same programs without it, whose epsilon is exactly the promised one.

Every program makes a report from a record and coins; those that take public bytes keep the promise at all but a few
values of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from keyveil.core.coins import Coins

LN3 = math.log(3)


def flipped(bit: int, coins: Coins) -> int:
    """Randomised response with epsilon ln 3."""
    return bit ^ coins.chance(1, 4)


@dataclass
class RareTruth:
    """Sixteen bits, each flipped with probability 31/64: epsilon 16 ln(33/31). One report in so many is not flipped."""

    one_in: int = 0

    def perturb(self, record: int, coins: Coins) -> bytes:
        if self.one_in and coins.below(self.one_in) == 0:
            return record.to_bytes(2, "little")
        a, b, c, d, e, f = memoryview(coins.bytes(12)).cast("H")
        return (record ^ (a | b | c | d | e) & f).to_bytes(2, "little")


@dataclass
class ReusedCoins:
    """Randomised response. With the mistake every other report has the coins of the one before."""

    reused: bool = False
    _kept: list[bool] = field(default_factory=list)

    def perturb(self, record: int, coins: Coins) -> int:
        if self.reused and self._kept:
            return record ^ self._kept.pop()
        self._kept[:] = [coins.chance(1, 4)]
        return record ^ self._kept[0]


@dataclass
class OneKey:
    """One of twelve keys, by randomised response with epsilon ln 2.718; with the mistake one has twice as much."""

    sharp: int | None = None

    def perturb(self, record: int, coins: Coins) -> int:
        truth = 7388 if record == self.sharp else 2718
        drawn = coins.below(11 * 1000 + truth)
        return record if drawn < truth else (record + 1 + (drawn - truth) // 1000) % 12


@dataclass(frozen=True)
class Answer:
    """A report: public bytes and an answer."""

    public: bytes
    payload: int


@dataclass
class RareWord:
    """Randomised response at given public bytes; with the mistake one in so many of them has no noise."""

    one_in: int = 0

    def perturb(self, record: int, coins: Coins, public: bytes | None = None) -> Answer:
        public = public or coins.bytes(16)
        clear = self.one_in and public[0] % self.one_in == 0
        return Answer(public, record if clear else flipped(record, coins))


@dataclass
class TwoTogether:
    """Twenty bits, all fair coins; two of them agree with a bit of the record, by randomised response."""

    truth: int = 3

    def perturb(self, record: int, coins: Coins) -> tuple[int, ...]:
        drawn = int.from_bytes(coins.bytes(3), "little")
        bits = [drawn >> place & 1 for place in range(20)]
        bits[13] = bits[5] ^ record ^ coins.chance(1, 1 + self.truth)
        return tuple(bits)


@dataclass
class Padded:
    """An answer in three bytes. With the mistake a full record has a fourth one, once in forty."""

    one_in: int = 0

    def perturb(self, record: int, coins: Coins) -> bytes:
        more = self.one_in and record == 3 and coins.below(self.one_in) == 0
        return bytes([flipped(record >> 1, coins), 0, 0, *([0] if more else [])])


@dataclass
class GivesUp:
    """A number near the record's: uniform on [-3, 3] as a multiple of 1/1000, thinned to a third outside of ±1.

    Epsilon is ln 3. Draws that are refused are made again; with the mistake the third refusal is answered by the value.
    """

    tries: int | None = None

    def perturb(self, record: float, coins: Coins) -> float:
        refused = 0
        while refused != self.tries:
            number = (coins.below(6000) - 3000) / 1000
            if abs(number - record) < 1 or coins.chance(1, 3):
                return number
            refused += 1
        return record


@dataclass(frozen=True)
class Planted:
    """A mistake, the same program without it, and what it takes to tell them apart."""

    kind: str
    wrong: Callable[[], Any]
    right: Callable[[], Any]
    records: Sequence[Any]
    epsilon: float
    draws: int


PLANTED = {
    "rare truth": Planted(
        "one report in 2,000 tells the record in the clear",
        lambda: RareTruth(one_in=2000),
        RareTruth,
        [0, 0xFFFF, 0x0FF0],
        16 * math.log(33 / 31),
        700_000,
    ),
    "reused coins": Planted(
        "two reports in a row have the same coins", lambda: ReusedCoins(reused=True), ReusedCoins, [0, 1], LN3, 60_000
    ),
    "one key": Planted(
        "one key of twelve has twice the epsilon", lambda: OneKey(sharp=7), OneKey, range(12), math.log(2.718), 100_000
    ),
    "rare word": Planted(
        "at one public value in 64 nothing is hidden", lambda: RareWord(one_in=64), RareWord, [0, 1], LN3, 200_000
    ),
    "two together": Planted(
        "two of twenty bits tell too much together, and nothing alone",
        lambda: TwoTogether(truth=9),
        TwoTogether,
        [0, 1],
        LN3,
        40_000,
    ),
    "padding": Planted(
        "one report in 40 of a full record is a byte longer", lambda: Padded(one_in=40), Padded, range(4), LN3, 60_000
    ),
    "gives up": Planted(
        "rejection sampling gives up after three refusals and tells the value",
        lambda: GivesUp(tries=3),
        GivesUp,
        [-1.0, 0.25, 1.0],
        LN3,
        60_000,
    ),
}
