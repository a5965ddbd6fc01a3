"""Attacks over a population: the same honest reports, with and without some of them replaced by crafted ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from keyveil.core.epsilon import Number
from keyveil.core.errors import KeyveilError, MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.report import Reports
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.frames.population import Population
from keyveil.lab.attacks.added import single_counts
from keyveil.lab.attacks.crafting import (
    JUDGED,
    Judge,
    Scene,
    bare,
    joined,
    random_messages,
    random_pairs,
    strongest,
    unremarkable,
    with_given_ids,
)
from keyveil.lab.attacks.goals import QUANTITIES, Goal, Quantity, need_possible, possible, usual_target
from keyveil.lab.coins import SeededCoins
from keyveil.lab.public_options import collected_for, with_typical
from keyveil.lab.rounds import Blocks, ask
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.report_laws import AskedAbout, OnePairSupports
from keyveil.protocols.base import Finished, History, Protocol, Round
from keyveil.protocols.registry import as_protocol
from keyveil.robustness.influence import influence

Kind = Literal["maximal", "bare", "hidden", "random pairs", "random messages"]
KINDS: tuple[Kind, ...] = ("maximal", "bare", "hidden", "random pairs", "random messages")
"""By what reports are crafted: those that do most; those that say the wanted thing and nothing else, as published
attacks do; those that do most among reports that no test tells from honest ones; honest reports of a wanted pair; and
any valid messages."""

_STREAM = 1 << 40  # the attackers' coins are numbered far from everybody else's


@dataclass(frozen=True)
class Attack:
    """Some people of every block send crafted reports in one round (in all of them unless given)."""

    protocol: Protocol
    goal: Goal
    kind: Kind
    share: float
    seed: int
    round: int | None = None
    worst: bool = False  # the reports that are replaced are those that stand against the goal, instead of any
    judged: int = JUDGED  # different reports whose effect is computed

    def __call__(self, history: History, current: Round, place: int, honest: Reports) -> Reports:
        """Reports of a block with some replaced: what the driver counts instead (``lab.rounds.Replace``)."""
        attackers = round(self.share * len(honest))
        if not attackers or (self.round is not None and current.number != self.round):
            return honest
        coins = SeededCoins(self.seed, _STREAM + (current.number << 20) + place)
        mechanism, judge = current.mechanism, self._judge(history, current)
        everybody = mechanism.tally(honest)
        if self.worst:
            replaced = _against(mechanism, honest, everybody, judge, self.goal)[:attackers]
        else:
            replaced = np.argsort(coins.words(len(honest)))[:attackers]
        kept = np.ones(len(honest), dtype=bool)
        kept[replaced] = False
        others = Reports(honest.publics[kept], honest.payloads[kept])
        scene = Scene(mechanism, mechanism.tally(others), attackers, judge, self.judged)
        if self.kind == "maximal":
            crafted = strongest(scene, self.goal, coins)
        elif self.kind == "bare":
            crafted = bare(scene, self.goal, coins)
        elif self.kind == "hidden" and isinstance(mechanism, AskedAbout):
            crafted = with_given_ids(scene, self.goal, coins)
        elif self.kind == "hidden":
            crafted = unremarkable(scene, self.goal, honest, coins)
        elif self.kind == "random pairs":
            crafted = random_pairs(mechanism, self.goal, attackers, coins)
        else:
            crafted = random_messages(mechanism, attackers, coins)
        return joined([others, crafted])

    def _judge(self, history: History, current: Round) -> Judge:
        """Estimates after this round, from what was counted in the rounds before it."""
        return lambda tally: self.protocol.estimate([*history, Finished(current, tally)])


def _against(mechanism: Mechanism, honest: Reports, tally: Tally, judge: Judge, goal: Goal) -> NDArray[np.int64]:
    """The places of all reports, those first whose absence alone helps the goal most."""
    known: dict[bytes, float] = {}
    worths = np.empty(len(honest))
    for at, one in enumerate(single_counts(mechanism, honest)):
        if one.kind not in known:
            less = Tally(tally.fingerprint, tally.reports - 1, tally.counts - one.times(1))
            known[one.kind] = goal.worth(judge(less))
        worths[at] = known[one.kind]
    return np.argsort(-worths, kind="stable")


@dataclass(frozen=True)
class Gain:
    """What one attack came to."""

    kind: Kind
    quantity: Quantity
    up: bool
    share: float
    attackers: int
    before: float
    after: float
    gain: float
    bound: float | None  # the most that so many reports can do; None where nothing is proved
    bound_kind: str
    round: int | None = None

    def document(self) -> dict[str, Any]:
        def known(number: float | None) -> float | None:
            return None if number is None or not math.isfinite(number) else number

        numbers = {name: known(getattr(self, name)) for name in ("before", "after", "gain", "bound")}
        return {
            "attack": self.kind,
            "quantity": self.quantity,
            "direction": "up" if self.up else "down",
            "share": self.share,
            "attackers": self.attackers,
            **numbers,
            "bound_kind": self.bound_kind,
            "round": self.round,
        }


@dataclass(frozen=True)
class AttackStudy:
    """Gains of several attacks on one key, over several shares of attackers."""

    protocol: Protocol
    target: str
    n: int
    seed: int
    estimates: Estimates  # without an attack
    gains: tuple[Gain, ...]
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """The object that ``keyveil attack --json`` prints."""
        return {
            "mechanism": self.protocol.name,
            "options": self.protocol.parameters,
            "epsilon": float(self.protocol.epsilon),
            "n": self.n,
            "keys": self.protocol.schema.d,
            "target": self.target,
            "seed": self.seed,
            "gains": [one.document() for one in self.gains],
            "notes": list(self.notes),
        }


def attack(
    mechanism: str | Mechanism | Protocol,
    population: Population,
    schema: Schema | None = None,
    epsilon: Number = 1,
    *,
    shares: Sequence[float] = (0.01, 0.05),
    target: str | int | None = None,
    quantities: Sequence[Quantity] | None = None,
    kinds: Sequence[Kind] | None = None,
    directions: Sequence[bool] = (True,),
    seed: int = 0,
    round: int | None = None,
    worst: bool = False,
    **options: Any,
) -> AttackStudy:
    """Simulate attacks on the estimates of one key, beside the most that so many reports can do.

    ``target`` is the least frequent key that is told from absent, unless given. ``quantities`` are frequency, mean and
    rank, as far as they are estimated; ``kinds`` are all that differ, unless given. ``round`` is the only one in which
    attackers speak. ``worst`` replaces the reports that stand against the goal instead of any.
    """
    for share in shares:
        if not 0 < share <= 1:
            raise MechanismError("attack/share", f"A share of attackers lies above 0 and up to 1, not at {share:g}.")
    made, people, notes = _made(mechanism, population, schema, epsilon, options)
    protocol = as_protocol(made)
    if target is not None:
        protocol.schema.place(target)
    blocks = Blocks.of(people, protocol.schema)
    honest = ask(protocol, blocks, seed)
    if round is not None and not 1 <= round <= len(honest):
        raise MechanismError("attack/round", f"{protocol.name} has {len(honest)} rounds here, so no round {round}.")
    before = protocol.estimate(honest)
    place = usual_target(before) if target is None else protocol.schema.place(target)
    for wanted in quantities or ():
        need_possible(before, wanted)
    moved = [one for one in (quantities or QUANTITIES) if possible(before, one)]
    gains = [
        _gain(blocks, honest, before, Attack(protocol, Goal(place, one, up), kind, share, seed, round, worst))
        for share in shares
        for one in moved
        for up in directions
        for kind in (_differing(protocol) if kinds is None else kinds)
    ]
    return AttackStudy(protocol, protocol.schema.keys[place], people.n, seed, before, tuple(gains), notes)


def _differing(protocol: Protocol) -> list[Kind]:
    """Reports that say one thing and nothing else are the strongest ones, unless a report speaks of every key."""
    return [kind for kind in KINDS if kind != "bare" or isinstance(protocol.single, OnePairSupports)]


def _gain(blocks: Blocks, honest: list[Finished], before: Estimates, one: Attack) -> Gain:
    """One attack over all rounds, with the coins of the honest run."""
    protocol, goal = one.protocol, one.goal
    attacked = ask(protocol, blocks, one.seed, replace=one)
    after = protocol.estimate(attacked)
    attackers = round(one.share * honest[0].tally.reports)
    bound, kind = _bound(protocol, honest, before, goal, attackers)
    values = goal.value(before), goal.value(after), goal.gain(before, after)
    return Gain(one.kind, goal.quantity, goal.up, one.share, attackers, *values, bound, kind, one.round)


def _bound(
    protocol: Protocol, honest: list[Finished], before: Estimates, goal: Goal, attackers: int
) -> tuple[float | None, str]:
    """The most that so many reports can do, and what kind of limit it is."""
    if protocol.single is None:
        return None, "none"
    try:
        limits = influence(protocol.single, honest[0].tally, attackers, before)
    except KeyveilError:
        return None, "none"
    kind = limits.mean_kind if goal.quantity == "mean" else limits.frequency_kind
    return goal.bound(before, limits), kind


def _made(
    mechanism: str | Mechanism | Protocol,
    population: Population,
    schema: Schema | None,
    epsilon: Number,
    options: dict[str, Any],
) -> tuple[Mechanism | Protocol, Population, tuple[str, ...]]:
    """The mechanism or protocol, the people with its keys, and what was chosen for it."""
    if not isinstance(mechanism, str):
        return mechanism, population.keyed(mechanism.schema), ()
    schema = schema or population.schema()
    people = population.keyed(schema)
    told, typical = with_typical(mechanism, people, schema, options)
    made, notes = collected_for(mechanism, schema, epsilon, people.sizes, told)
    return made, people, (*typical, *notes)
