"""The largest change of any answer that a search found: for quantiles, conditionals, EM, empirical Bayes and protocols.

Nothing is proved of these: the answer is no average of what reports say. The search tries the reports that an attacker
thinks of for each key of interest (``lab.attacks.crafting``), all crafted reports being alike, and keeps the largest
change in either direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from keyveil.core.attacked import Attacked, Kind
from keyveil.core.coins import Coins
from keyveil.core.errors import KeyveilError, MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.tally import Tally
from keyveil.lab.attacks.added import Added, single_counts
from keyveil.lab.attacks.crafting import JUDGED, TRIED, thought_of
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.report_laws import ReportParts
from keyveil.protocols.base import Finished, History, Protocol

THOUGHT_OF = 256  # reports that an attacker thinks of for a key in a round
MOST_SEARCHED = 20  # keys

Answer = Callable[[Tally], float]
"""A question about a tally, answered by one number."""


@dataclass(frozen=True)
class Found:
    """An answer, and the least and the largest that a search made of it."""

    value: float
    low: float
    high: float
    tried: int  # different reports
    kind: Kind = "largest found"


def largest_found(
    mechanism: Mechanism,
    tally: Tally,
    attackers: int,
    answer: Answer,
    keys: Sequence[str | int],
    coins: Coins,
    tried: int = TRIED,
    judged: int = JUDGED,
) -> Found:
    """How far the answer moves if ``attackers`` of the reports are replaced by copies of one that was tried.

    The reports that are replaced are like all others: their part of the counts is taken off evenly. ``keys`` are those
    that the question is about. ``tried`` reports are thought of, and of those that differ ``judged`` are looked at.
    """
    left = max(tally.reports - attackers, 0)
    kept = thinned(mechanism, tally, left)
    kinds: dict[bytes, Added] = {}
    for key in keys:
        pool = thought_of(mechanism, mechanism.schema.place(key), coins, max(tried // len(keys), 1))
        kinds |= {one.kind: one for one in single_counts(mechanism, pool)}
    value = answer(tally)
    moved = [value]
    looked_at = list(kinds.values())[:judged]
    for one in looked_at:
        try:
            moved.append(answer(kept + one.tally(tally.fingerprint, tally.reports - left)))
        except KeyveilError:
            continue  # such reports leave nothing to say
    known = [number for number in moved if not np.isnan(number)]
    return Found(value, min(known, default=np.nan), max(known, default=np.nan), len(looked_at))


def thinned(mechanism: Mechanism, tally: Tally, left: int) -> Tally:
    """``left`` reports like those of the tally: every count in proportion, of every part by itself."""
    share = left / max(tally.reports, 1)
    if not isinstance(mechanism, ReportParts):
        return Tally(tally.fingerprint, left, np.rint(tally.counts * share).astype(np.int64))
    own = [mechanism.part_tally(tally, number) for number in range(len(mechanism.parts))]
    ends = np.rint(np.cumsum([0, *(one.reports for one in own)]) * share).astype(np.int64)  # so that they add up
    fewer = np.diff(ends).tolist()
    return mechanism.whole_tally([thinned(*one) for one in zip(mechanism.parts, own, fewer, strict=True)])


def found_limits(
    rounds: Sequence[tuple[Mechanism, Tally]],
    judge: Callable[[Sequence[Tally]], Estimates],
    attackers: int,
    coins: Coins,
    keys: Sequence[int] | None = None,
) -> Attacked:
    """The least and the largest estimates that a search found, if ``attackers`` people of every round are replaced.

    Where a round has fewer reports, all of them are; the same people need not speak in every round.

    ``judge`` estimates from a tally for each round. Of each key the reports are tried that an attacker thinks of, in
    every round by itself and the best of all rounds together. Keys that are not among ``keys`` have no limits; those
    are the most frequent ones, ``MOST_SEARCHED`` of them, unless given.
    """
    tallies = [tally for _, tally in rounds]
    most = max((tally.reports for tally in tallies), default=0)
    if not 0 <= attackers <= most:
        told = f"Of {most:,} reports, 0 to {most:,} can be crafted, not {attackers:,}."
        raise MechanismError("attack/attackers", told)
    told_now = judge(tallies)
    places = _searched(told_now) if keys is None else list(keys)
    names = ("frequency", "mean")
    low = {name: np.full(told_now.schema.d, np.nan) for name in names}
    high = {name: np.full(told_now.schema.d, np.nan) for name in names}
    for key in places if attackers else ():
        best: dict[tuple[str, bool], list[Tally]] = {
            (name, up): list(tallies) for name in names for up in (False, True)
        }
        seen = {name: [_value(told_now, name, key)] for name in names}

        def look(moved: Sequence[Tally], key: int = key, seen: dict[str, list[float]] = seen) -> dict[str, float]:
            try:
                values = {name: _value(judge(moved), name, key) for name in names}
            except KeyveilError:
                return {}  # such reports leave nothing to say
            for name, value in values.items():
                seen[name].append(value)
            return values

        for number, (mechanism, tally) in enumerate(rounds):
            reached = {(name, up): seen[name][0] for name in names for up in (False, True)}
            for changed in _replaced(mechanism, tally, min(attackers, tally.reports), key, coins):
                values = look([*tallies[:number], changed, *tallies[number + 1 :]])
                for (name, up), now in reached.items():
                    value = values.get(name, np.nan)
                    if value > now if up else value < now:
                        reached[name, up], best[name, up][number] = value, changed
        for together in best.values() if len(rounds) > 1 else ():
            look(together)
        for name in names:
            low[name][key], high[name][key] = np.fmin.reduce(seen[name]), np.fmax.reduce(seen[name])
    kinds: list[Kind] = ["none" if getattr(told_now, name).absent else "largest found" for name in names]
    return Attacked(
        told_now.schema, attackers, low["frequency"], high["frequency"], low["mean"], high["mean"], kinds[0], kinds[1]
    )


def protocol_limits(
    protocol: Protocol, history: History, attackers: int, coins: Coins, keys: Sequence[int] | None = None
) -> Attacked:
    """``found_limits`` of the estimates of several rounds. What was announced after a round stays as it was."""

    def judge(tallies: Sequence[Tally]) -> Estimates:
        moved = [Finished(one.round, tally) for one, tally in zip(history, tallies, strict=True)]
        return protocol.estimate(moved)

    return found_limits([(one.round.mechanism, one.tally) for one in history], judge, attackers, coins, keys)


def _searched(estimates: Estimates) -> list[int]:
    """The most frequent keys, or the first ones where frequencies are not estimated."""
    if estimates.frequency.absent:
        return list(range(min(estimates.schema.d, MOST_SEARCHED)))
    order = np.argsort(-np.nan_to_num(estimates.frequency.values, nan=-np.inf), kind="stable")
    return [int(key) for key in order[:MOST_SEARCHED]]


def _value(estimates: Estimates, name: str, key: int) -> float:
    value = float(getattr(estimates, name).values[key])
    return float(np.clip(value, -1, 1)) if name == "mean" else value


def _replaced(mechanism: Mechanism, tally: Tally, attackers: int, key: int, coins: Coins) -> Iterator[Tally]:
    """Tallies in which so many people, who are like all others, send copies of one report instead.

    Of the reports that an attacker thinks of, those are taken that move f or f·m of the key most, up or down, by what
    this round alone says.
    """
    left, key = tally.reports - attackers, min(key, mechanism.schema.d - 1)
    kept = thinned(mechanism, tally, left)
    pool = thought_of(mechanism, key, coins, THOUGHT_OF)
    kinds = {one.kind: one for one in single_counts(mechanism, pool)}
    changed = [kept + one.tally(tally.fingerprint, attackers) for one in kinds.values()]
    said = [mechanism.estimate(one) for one in changed]
    products = [one.mean.values if one.product is None else one.product for one in said]
    chosen: dict[int, None] = {}
    for values in ([one.frequency.values[key] for one in said], [one[key] for one in products]):
        known = np.array(values, dtype=np.float64)
        if not np.isnan(known).all():
            chosen |= {int(np.nanargmin(known)): None, int(np.nanargmax(known)): None}
    yield from (changed[at] for at in chosen or range(min(len(changed), 4)))
