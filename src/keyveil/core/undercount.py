"""What a cap on pairs does to frequencies: pairs above it are not counted, so that keys come out too low.

How much is missing is *unknown* unless somebody was asked how many pairs they hold (docs/theory.md, the cap).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ONE_SIDED = 1.645  # standard errors of a one-sided limit of 95 %
UNKNOWN, NONE, TRUNCATED, CORRECTED = "unknown", "none", "truncated", "corrected"


@dataclass(frozen=True)
class Undercount:
    """How much the cap hides. Where nobody was asked, everything but the cap is ``None``."""

    cap: int
    over: float | None = None  # share of the people who hold more pairs than the cap, unclipped
    over_se: float | None = None
    surplus: float | None = None  # pairs above the cap a person, on average, unclipped
    surplus_se: float | None = None
    kept: float | None = None  # share of all pairs that count
    kept_se: float | None = None
    limit: float | None = None  # one-sided 95 %: the frequency of no key lacks more than this, before a correction
    common: float = 0.0  # relative variance of f and f·m that all keys share: of the correction, or of what is missing
    shift: float = 0.0  # variance, on [-1, 1], of how far the mean value of dropped pairs may be from that of kept ones
    stretch: float = 1.0  # what upper limits of frequencies were multiplied by, where they were not corrected
    raised: float = 0.0  # what upper limits were raised by beyond that, for keys that mostly busy people hold
    raised_se: float = 0.0  # the error of ``raised``, which counts where nothing is seen
    seen: bool = False  # whether the surplus is told from none
    corrected: bool = False  # whether frequencies were divided by ``kept``
    size: float | None = None  # pairs of a person that count, on average
    reach: float | None = None  # the largest surplus that an answer can tell
    beyond: bool = False  # whether surpluses may exceed that, so that ``surplus`` may be too low

    @property
    def state(self) -> str:
        """unknown; none that is told from chance; truncated (frequencies are too low); or corrected."""
        if self.surplus is None:
            return UNKNOWN
        return CORRECTED if self.corrected else TRUNCATED if self.seen else NONE

    @property
    def widens(self) -> bool:
        """Whether intervals are wider than noise alone makes them."""
        return self.common > 0 or self.stretch > 1 or self.raised > 0 or self.raised_se > 0

    @property
    def scale(self) -> float:
        """What frequencies were divided by."""
        return self.kept if self.corrected and self.kept is not None else 1.0

    def highest(self, frequency: Floats, noise_se: Floats, z: float) -> Floats:
        """What frequencies may be at most, from estimates with the errors of noise alone.

        Where a surplus is not told from none, it counts with its own error, but no key lacks more than the limit.
        """
        limits = frequency + z * noise_se
        told = self.stretch * limits + self.raised
        if self.seen or self.limit is None or self.kept is None or self.kept_se is None:
            return told
        unseen = np.fmax(frequency, 0) * self.kept_se / self.kept**2 + self.raised_se
        noise = self.stretch * noise_se
        return np.clip(told + z * (np.hypot(noise, unseen) - noise), told, np.fmax(told, limits + self.limit))

    def shifts(self, frequency: Floats) -> Floats:
        """The variance of f·m over f² for values of dropped pairs that differ from those of kept ones.

        Of the pairs of a rare key nearly all may be dropped, if mostly busy people hold it.
        """
        if not self.shift or self.kept is None:
            return np.zeros_like(frequency)
        rare = self.raised / np.maximum(np.maximum(np.nan_to_num(frequency), 0) + self.raised, 1e-12)
        return np.asarray(self.shift * np.maximum(1 - self.kept, rare) ** 2)

    def highest_sum(self, total: float, noise_se: float, keys: int, z: float) -> float:
        """What the sum of the frequencies of some keys may be at most, from that of the parts that are kept.

        Noise of single keys averages out in a sum and what the cap hides does not, so that here the surplus counts with
        its own error, also where it is not told from none. A share of all kept pairs is taken to lack as large a share
        of the surplus, and half as much is allowed for keys that busy people hold; besides, upper limits of all keys
        were raised for keys that they alone hold. Where surpluses may exceed what answers can tell, only what holds
        whoever holds what is added (docs/theory.md, the cap).
        """
        plain = total + z * noise_se
        if self.surplus is None or self.surplus_se is None:
            return plain
        if self.corrected:
            return plain + min(keys * self.raised, self._most_hidden(keys, z))
        if self.beyond or not self.size:
            return plain + self._most_hidden(keys, z)
        assert self.kept is not None and self.kept_se is not None
        more, more_se = self.surplus / self.size, self.kept_se / self.kept**2
        spread = math.hypot((1 + more) * noise_se, more_se * total, more_se * noise_se, max(more, 0.0) / 2 * total)
        likely = max(plain, (1 + more) * total + z * spread)
        return likely + min(keys * self.raised, self._most_hidden(keys, z))

    def _most_hidden(self, keys: int, z: float) -> float:
        """What the cap hides of so many keys together at most, whoever holds them, by limits of z standard errors.

        Who holds s > l pairs hides at most s - l of them, at most the share (s - l)/(l + 1) of each key, and no more
        keys than there are. Who exceeds the reach of answers counts there with no less than its share of the keys.
        """
        if self.surplus is None or self.surplus_se is None or self.over is None or self.over_se is None:
            return float(keys)
        surplus = max(0.0, self.surplus + z * self.surplus_se)
        reach = self.reach or float(self.cap)
        each = min(1.0, max(0.0, self.over + z * self.over_se), surplus / min(self.cap + 1, reach))
        return min(keys * each, surplus * max(1.0, keys / reach))

    def added(self, frequency: Floats, product: Floats) -> tuple[Floats, Floats, Floats]:
        """What this adds to the variances of f and f·m and to their covariance, beyond the noise of reports."""
        common = self.common
        shifts = self.shifts(frequency)
        return common * frequency**2, common * product**2 + shifts * frequency**2, common * frequency * product

    def __str__(self) -> str:
        """One sentence for people."""
        counted = "1 pair of a person counts" if self.cap == 1 else f"{self.cap} pairs of a person count"
        if self.surplus is None or self.over is None or self.kept is None or self.limit is None:
            return (
                f"At most {counted}; how much that hides is unknown, because nobody was asked how many pairs they hold."
            )
        over, at_most = (self.over, "") if self.seen else (self.over + ONE_SIDED * (self.over_se or 0.0), "at most ")
        told = (
            f"At most {counted}: {at_most}{min(max(over, 0.0), 1.0):.1%} of the people hold more, and no frequency is "
            f"too low by more than {self.limit:.4f} for that (95 % confidence)"
        )
        if not self.seen:
            return f"{told}."
        if not self.corrected:
            return f"{told}; keys that this surely moves are flagged truncated."
        divided = f"{told}; frequencies were divided by {self.kept:.3f}, the share of all pairs that count"
        return f"{divided}, which may be less: upper limits allow for that." if self.beyond else f"{divided}."

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"state": self.state, **asdict(self)}

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """The undercount that ``document`` wrote down."""
        return cls(**{name: value for name, value in document.items() if name != "state"})
