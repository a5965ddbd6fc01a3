"""The certificate: the exact epsilon of a mechanism, from the integers that its sampler runs on.

``enumerate_worst`` runs ``respond`` over every record and every outcome of the coins, at sizes where that is possible,
and compares all pairs of records. At other sizes the closed form of the channel's shape speaks, after it was held
against the enumeration of the reduced mechanism: it may never be below it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Protocol

from keyveil.core.channels import Ratio
from keyveil.core.coins import Coins
from keyveil.core.epsilon import decimal_text, exact_entries, float_ceiling, keeps, log_ceiling, realised
from keyveil.core.errors import PrivacyError
from keyveil.core.rendering import Shown
from keyveil.core.report import Payload
from keyveil.privacy.enumerate import LIMIT, law, over_one_total

Pairs = Sequence[tuple[int, int]]


class Certifiable(Protocol):
    """What the certificate needs to see of a mechanism; other people's code can offer it too."""

    @property
    def name(self) -> str: ...
    @property
    def epsilon(self) -> Fraction: ...
    @property
    def ratio(self) -> Ratio: ...
    @property
    def sizes(self) -> dict[str, int]: ...
    @property
    def exhaustive(self) -> bool: ...
    def reduced(self) -> Certifiable: ...
    def every_record(self) -> Iterable[Pairs]: ...
    def every_word(self) -> Iterable[int]: ...
    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload: ...


@dataclass(frozen=True)
class Worst:
    """Two records and a report that tell them apart best."""

    ratio: Ratio
    likely: Pairs
    unlikely: Pairs
    report: Payload
    word: int
    chances: tuple[Fraction, Fraction]  # of the report, given the word, with the likely and with the unlikely record


@dataclass(frozen=True, repr=False)
class Certificate(Shown):
    """What a mechanism promises and what it keeps."""

    shown_as: ClassVar[str] = "certificate"

    mechanism: str
    requested_epsilon: Fraction
    ratio: Ratio
    method: str  # "enumeration" at the mechanism's own sizes, or "closed-form" checked against it at reduced ones
    sizes: dict[str, int]
    worst: Worst
    worst_sizes: dict[str, int]

    def __repr__(self) -> str:
        kept = "kept" if self.certified else "BROKEN"
        return f"Certificate({self.mechanism}, ε={decimal_text(self.requested_epsilon)} {kept}, {self.method})"

    @property
    def exact_epsilon(self) -> Decimal:
        """The realised epsilon, rounded up; never above the request if that is kept."""
        return realised(self.ratio, self.requested_epsilon)

    @property
    def at_most(self) -> bool:
        """Whether ``exact_epsilon`` is a bound: the product over rounds, which no enumerated report attains."""
        return "rounds" in self.sizes and self.worst.ratio < self.ratio

    @property
    def certified(self) -> bool:
        return keeps(self.ratio, self.requested_epsilon)

    def document(self) -> dict[str, Any]:
        """The object that ``keyveil certify --json`` prints."""
        return {
            "mechanism": self.mechanism,
            "requested_epsilon": float(self.requested_epsilon),
            **exact_entries(self.exact_epsilon),
            "at_most": self.at_most,
            "certified": self.certified,
            "method": self.method,
            "sizes": self.sizes,
            "worst": {
                "record": [list(pair) for pair in self.worst.likely],
                "other_record": [list(pair) for pair in self.worst.unlikely],
                "report": self.worst.report.hex() if isinstance(self.worst.report, bytes) else self.worst.report,
                "public_word": f"{self.worst.word:016x}",
                "ratio": None if self.worst.ratio == math.inf else decimal_text(Fraction(self.worst.ratio)),
                "epsilon": None if self.worst.ratio == math.inf else float_ceiling(log_ceiling(self.worst.ratio)),
                "sizes": self.worst_sizes,
            },
        }


def enumerate_worst(mechanism: Certifiable, limit: int = LIMIT) -> Worst:
    """The largest ratio over all reports and all pairs of records, exactly."""
    worst: Worst | None = None
    entries = 0
    for word in mechanism.every_word():
        records = [list(record) for record in mechanism.every_record()]
        laws, total = over_one_total([law(partial(mechanism.respond, pairs, word), limit) for pairs in records])
        if any(sum(one.values()) != total for one in laws):
            raise PrivacyError("privacy/weights", f"A law of {mechanism.name} does not add up to one.")
        entries += sum(map(len, laws))
        if entries > limit:
            raise PrivacyError("privacy/too-large", f"The table of probabilities has more than {limit} entries.")
        reports = set().union(*laws)
        for report in reports:
            weights = [distribution.get(report, 0) for distribution in laws]
            high, low = max(weights), min(weights)
            ratio = math.inf if low == 0 else Fraction(high, low)
            if worst is None or ratio > worst.ratio:
                likely, unlikely = (records[weights.index(weight)] for weight in (high, low))
                chances = Fraction(high, total), Fraction(low, total)
                worst = Worst(ratio, likely, unlikely, report, word, chances)
    if worst is None:
        raise PrivacyError("privacy/nothing", "The mechanism has no records to compare.")
    return worst


def certify(mechanism: Certifiable) -> Certificate:
    """The exact epsilon of a mechanism with the worst pair of records and the worst report."""
    small = mechanism.reduced()
    worst = enumerate_worst(small)
    if worst.ratio > small.ratio:
        raise PrivacyError(
            "privacy/closed-form",
            f"The sampler of {mechanism.name} spends {log_ceiling(worst.ratio):.9f} at sizes {small.sizes}, "
            f"more than its closed form {log_ceiling(small.ratio):.9f} admits.",
        )
    whole = small == mechanism and mechanism.exhaustive
    return Certificate(
        mechanism=mechanism.name,
        requested_epsilon=mechanism.epsilon,
        ratio=worst.ratio if whole else mechanism.ratio,
        method="enumeration" if whole else "closed-form",
        sizes=mechanism.sizes,
        worst=worst,
        worst_sizes=small.sizes,
    )
