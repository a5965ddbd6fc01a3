"""The hybrid mechanism: a share of the people answers by ``piecewise``, the others by ``duchi`` (Wang et al. 2019).

The share is the one for which the variance does not depend on the value. Who answers how follows from the report's
public word, so it costs nothing. Below ε ≈ 0.61 everybody answers by ``duchi``. Derivation: docs/mechanisms/hybrid.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio, TwoLevel, two_level
from keyveil.core.codecs.payloads import FINE, SIGN, Decoded, Payloads, first_flaws
from keyveil.core.codecs.symbols import Symbol
from keyveil.core.coins import Coins
from keyveil.core.epsilon import exp_floor
from keyveil.core.errors import ReportError
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.encoders import round_many, round_to
from keyveil.mechanisms.families.numeric import Floats, OneValue, ValueTotals, average
from keyveil.mechanisms.families.window import Window
from keyveil.mechanisms.numeric.duchi import draw_sign, draw_signs
from keyveil.mechanisms.numeric.piecewise import (
    REDUCED_STEPS,
    check_steps,
    extreme_moments,
    fold_moments,
    moments_of_each,
    piecewise_window,
)

THRESHOLD = Fraction("0.609352493027309531718791895199")
"""Below it, no share of piecewise answers helps: the logarithm of (-5 + 2∛(6353-405√241) + 2∛(6353+405√241)) / 27."""

_LOW = (1 << 32) - 1  # the key takes the high bits of the public word, the branch these


@dataclass(frozen=True)
class Hybrid(OneValue):
    """With public probability 1 - e^(-ε/2) the piecewise mechanism, else Duchi's."""

    steps: int = 1024

    name: ClassVar[str] = "hybrid"

    def validate(self) -> None:
        check_steps(self.name, self.steps)

    @cached_property
    def threshold(self) -> int:
        """Of 2^32 low halves of the public word, so many answer by the piecewise mechanism."""
        share = 1 - 1 / exp_floor(self.epsilon / 2) if self.epsilon > THRESHOLD else Fraction(0)
        return round(share * (_LOW + 1))

    @cached_property
    def sign(self) -> TwoLevel:
        return two_level(outputs=2, marked=1, epsilon=self.epsilon)

    @cached_property
    def window(self) -> Window:
        return piecewise_window(self.steps, self.epsilon)

    @property
    def ratio(self) -> Ratio:
        return max(self.sign.ratio, self.window.channel.ratio) if self.threshold else self.sign.ratio

    @property
    def codec(self) -> Symbol:
        """Room for the longer of both answers, so that the length tells nothing."""
        return Symbol(self.window.outputs if self.threshold else 2)

    def is_piecewise(self, word: int) -> bool:
        return word & _LOW < self.threshold

    def are_piecewise(self, words: NDArray[np.uint64]) -> NDArray[np.bool_]:
        chosen: NDArray[np.bool_] = (words & np.uint64(_LOW)) < np.uint64(self.threshold)
        return chosen

    def every_word(self) -> list[int]:
        """Every key with both ways to answer."""
        halves = (0, _LOW) if self.threshold else (_LOW,)
        return [word | half for word in self.encoder.every_word() for half in halves]

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        value = self.value(pairs, word)
        if self.is_piecewise(word):
            return self.window.draw(round_to(value, 2 * self.steps, coins), coins)
        return draw_sign(self.sign, value, coins)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        values, piecewise = self.values(records, words), self.are_piecewise(words)
        answers = np.empty(records.n, dtype=np.int64)
        answers[~piecewise] = draw_signs(self.sign, values[~piecewise], coins)
        answers[piecewise] = self.window.draw_many(round_many(values[piecewise], 2 * self.steps, coins), coins)
        return answers

    def read_encoded(self, payloads: Payloads, words: NDArray[np.uint64], keep: bool = True) -> Decoded:
        """The public word says who sends a sign; nobody else's answer fits there."""
        decoded = super().read_encoded(payloads, words, keep)
        other = np.where(~self.are_piecewise(words) & (decoded.rows > 1), SIGN, FINE).astype(np.int8)
        return Decoded(decoded.rows, first_flaws(decoded.flaws, other))

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (2, 3, self.schema.d)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """For signs, then for piecewise answers: reports, sum and sum of squares."""
        piecewise, keys = self.are_piecewise(words), self.encoder.keys(words)
        signs, answers = payloads[~piecewise], payloads[piecewise]
        refuse_other_than_signs(signs)
        return np.stack(
            (
                fold_moments(2 * signs - 1, keys[~piecewise], self.schema.d),
                fold_moments(answers - int(self.window.middle), keys[piecewise], self.schema.d),
            )
        )

    def counts_of_each(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        piecewise, keys = self.are_piecewise(words)[:, None, None], self.encoder.keys(words)
        of_signs, of_answers = (
            moments_of_each(numbers, keys, self.schema.d)
            for numbers in (2 * payloads - 1, payloads - int(self.window.middle))
        )
        return np.stack((np.where(piecewise, 0, of_signs), np.where(piecewise, of_answers, 0)), axis=1)

    def answers(self, counts: NDArray[np.int64], n: int) -> ValueTotals:
        """The plain mean of all unbiased estimates: of all fixed weights the best at the worst values."""
        (signs, plus, _), (windows, totals, squares) = counts
        respondents = signs + windows
        mean = average(plus / self._slope + self.window.unit(totals), respondents)
        share = average(windows, respondents)
        answers, spread = self.window.squares(squares / np.maximum(windows, 1), mean)
        return ValueTotals(
            respondents, mean, share * answers + (1 - share) / self._slope**2, np.where(windows > 0, spread, 0.0)
        )

    def extreme_counts(self) -> list[NDArray[np.int64]]:
        d, nothing = self.schema.d, np.zeros((3, self.schema.d), dtype=np.int64)
        far = int(self.window.middle)
        signs = [np.stack((extreme_moments(sign, d), nothing)) for sign in (-1, 1)]
        return signs + [np.stack((nothing, extreme_moments(sign * far, d))) for sign in (-1, 1)]

    def squares_at(self, mean: Floats) -> Floats:
        share = self.threshold / (_LOW + 1)
        windows = self.window.answer_squares(self.window.rounded_squares(mean))
        return share * windows + (1 - share) / self._slope**2

    @property
    def _slope(self) -> float:
        return float(self.sign.hit - self.sign.miss)

    def every_value(self) -> list[int]:
        return self.window.every_value()

    def reduced(self) -> Self:
        return replace(super().reduced(), steps=min(self.steps, REDUCED_STEPS))

    @property
    def sizes(self) -> dict[str, int]:
        return {"keys": self.schema.d, "steps": self.steps}


def refuse_other_than_signs(signs: NDArray[np.int64]) -> None:
    """The public word says who sends a sign; nobody else's answer fits there."""
    if np.any(signs > 1):
        raise ReportError("report/malformed", "A report that should hold a sign holds another answer.")
