"""Privacy, and whether what is drawn has the law that was enumerated.

Statistical checks run on seeded coins; at a fresh seed each would raise a false alarm with probability below 1e-6.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import partial
from itertools import islice
from statistics import NormalDist
from typing import Any

from keyveil.core.epsilon import decimal_text, keeps, log_ceiling
from keyveil.core.errors import ContractError
from keyveil.core.extras import extra
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Mechanism
from keyveil.privacy.certify import Worst, enumerate_worst
from keyveil.privacy.enumerate import law
from keyveil.privacy.shuffled import largest_variation
from keyveil.testing.people import copies, full_record
from keyveil.testing.verdict import about, hold

ALARM = 1e-7  # probability of a false alarm of one comparison, or of all comparisons of one kind together

Law = dict[Any, Fraction]


def beyond(alarm: float) -> float:
    """The standard normal number that is exceeded with this probability."""
    return -NormalDist().inv_cdf(alarm)


def privacy_by_enumeration(mechanism: Mechanism, *, tight: bool = False) -> None:
    """No report tells any two records apart by more than e^ε, and the closed form is never below that.

    With ``tight`` the same enumeration also shows that the budget is used, as ``tightness`` asks.
    """
    try:
        with about(mechanism, "respond"):
            worst = enumerate_worst(mechanism)
    except ContractError as refused:
        too_large = getattr(refused.__cause__, "code", "") == "privacy/too-large"
        hold(not too_large, mechanism, "reduced", "leaves more outcomes than can be enumerated")
        raise
    epsilon = decimal_text(mechanism.epsilon)
    spent = f"spends {log_ceiling(worst.ratio):.9f}, more than epsilon {epsilon}"
    hold(keeps(worst.ratio, mechanism.epsilon), mechanism, "respond", spent)
    hold(worst.ratio <= mechanism.ratio, mechanism, "ratio", "is below what respond spends")
    hold(keeps(mechanism.ratio, mechanism.epsilon), mechanism, "ratio", f"is more than e^{epsilon}")
    if tight:
        _uses_its_budget(mechanism, worst)


def variation_is_not_understated(mechanism: Mechanism) -> None:
    """Reports of any two records are at most as far apart as ``variation`` says.

    Where nothing is said, the ratio tells it (``core.channels.universal_variation``).
    """
    if type(mechanism).variation is not Mechanism.variation:
        with about(mechanism, "variation"):
            largest_variation(mechanism)


def tightness(mechanism: Mechanism) -> None:
    """The budget is used: the sampler spends what was requested, up to the rounding of its integers."""
    _uses_its_budget(mechanism, enumerate_worst(mechanism))


def _uses_its_budget(mechanism: Mechanism, worst: Worst) -> None:
    spent = Fraction(log_ceiling(worst.ratio))
    hold(
        spent > mechanism.epsilon - Fraction(1, 10**6),
        mechanism,
        "respond",
        f"spends only {float(spent):.9f} of epsilon {decimal_text(mechanism.epsilon)}",
    )


def single_draws_have_the_law(mechanism: Mechanism, draws: int = 4000) -> None:
    """Real coins give what the enumeration says: the same program, other coins."""
    for number, (word, pairs, expected) in enumerate(laws(mechanism)):
        coins = SeededCoins(11, number)
        seen = Counter(mechanism.respond(pairs, word, coins) for _ in range(draws))
        _fits(mechanism, "respond", seen, expected, draws)


def bulk_draws_have_the_law(mechanism: Mechanism, draws: int = 40_000) -> None:
    """Arrays give what single devices give."""
    for number, (word, pairs, expected) in enumerate(laws(mechanism)):
        words = mechanism.same_word(word, draws)
        rows = mechanism.respond_many(copies(pairs, draws, mechanism.schema.d), words, SeededCoins(12, number))
        _fits(mechanism, "respond_many", Counter(mechanism.codec.unstack(rows)), expected, draws)


def devices_do_at_full_size_what_bulk_does(mechanism: Mechanism, singles: int = 1200, many: int = 10_000) -> None:
    """Beyond what can be enumerated, every part of a report is as likely from a device as from the arrays.

    Single draws limit what is seen: the largest ``many`` would make the gap that is noticed less than 6 % smaller.
    """
    pairs, word = full_record(mechanism), list(islice(mechanism.every_word(), 7))[-1]
    coins = SeededCoins(16)
    drawn = [mechanism.respond(pairs, word, coins) for _ in range(singles)]
    words = mechanism.same_word(word, many)
    rows = mechanism.respond_many(copies(pairs, many, mechanism.schema.d), words, SeededCoins(17))
    mine, theirs = (
        Counter(part for payload in payloads for part in _parts(payload))
        for payloads in (drawn, mechanism.codec.unstack(rows))
    )
    alarm = beyond(ALARM / max(len(theirs | mine), 1))
    for part in mine | theirs:
        share = (mine[part] + theirs[part]) / (singles + many)
        error = math.sqrt(max(share * (1 - share), 1 / many) * (1 / singles + 1 / many))
        gap = abs(mine[part] / singles - theirs[part] / many)
        # The normal law is a poor guide to rare parts: three reports more or less prove nothing.
        hold(
            gap < alarm * error + 3 / singles,
            mechanism,
            "respond_many",
            f"gives {part[0]} {part[1]} in {theirs[part]} of {many} reports, respond in {mine[part]} of {singles}",
        )


def laws(mechanism: Mechanism) -> list[tuple[int, Any, Law]]:
    """Exact laws of a few records, the first and the last among them, at the first and the last public word."""
    records, words = list(mechanism.every_record()), list(mechanism.every_word())
    chosen = {0, len(records) // 3, len(records) // 2, len(records) - 1}
    return [
        (word, records[at], law(partial(mechanism.respond, records[at], word)))
        for word in {words[0], words[-1]}
        for at in sorted(chosen)
    ]


def _parts(payload: Any) -> list[tuple[str, int]]:
    """What a payload is made of: its set bits, its members, or its symbol and where that lies in the alphabet."""
    if isinstance(payload, bytes):
        bits = int.from_bytes(payload, "little")
        return [("bit", place) for place in range(8 * len(payload)) if bits >> place & 1]
    if isinstance(payload, tuple):
        return [("member", member) for member in payload]
    return [("symbol", payload), ("sixteenth", payload // 16), ("parity", payload % 2)]


def _fits(mechanism: Mechanism, member: str, seen: Counter[Any], expected: Law, draws: int) -> None:
    """A chi-squared test of what was seen, with rare outcomes taken together."""
    strange = [outcome for outcome in seen if outcome not in expected]
    hold(not strange, mechanism, member, f"draws the report {strange[:1]}, which the enumeration of respond lacks")
    outcomes = sorted(expected, key=lambda outcome: expected[outcome], reverse=True)
    common = [outcome for outcome in outcomes if draws * expected[outcome] >= 5]
    observed = [seen[outcome] for outcome in common]
    shares = [float(draws * expected[outcome]) for outcome in common]
    rest = draws - sum(observed), draws - sum(shares)
    if rest[1] > 1e-6:
        observed.append(rest[0])
        shares.append(rest[1])
    if len(shares) > 1:
        with extra("local", "The checks of a mechanism"):
            from scipy.special import chdtrc
        scale = sum(observed) / sum(shares)
        distance = sum(
            (count - scale * share) ** 2 / (scale * share) for count, share in zip(observed, shares, strict=True)
        )
        likely = float(chdtrc(len(shares) - 1, distance)) > ALARM
        hold(likely, mechanism, member, "draws from another law than the enumeration of respond finds")
