"""Gains of attacks on every mechanism and protocol, with detection and recovery: the numbers behind a page.

    python -m keyveil.lab.attacks.study ROWS.jsonl [--ids N | --power RUNS | --honest RUNS]

appends a line for every setting that is not in the file yet, so that it goes on where it was stopped;
``keyveil.lab.attacks.page`` writes the page from it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from keyveil.core.errors import KeyveilError
from keyveil.core.report import Reports
from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.kernels.backend import prepare
from keyveil.lab import datasets
from keyveil.lab.attacks.bench import Attack, Kind
from keyveil.lab.attacks.crafting import JUDGED, joined
from keyveil.lab.attacks.found import protocol_limits
from keyveil.lab.attacks.goals import Goal, Quantity, possible
from keyveil.lab.attacks.honest import honest_rows
from keyveil.lab.attacks.ids import id_search
from keyveil.lab.attacks.settings import with_cap
from keyveil.lab.coins import SeededCoins
from keyveil.lab.rounds import Blocks, ask
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import find, is_protocol, names
from keyveil.mechanisms.report_laws import OnePairSupports
from keyveil.protocols.base import Finished, History, Protocol, Round
from keyveil.protocols.registry import as_protocol
from keyveil.robustness.detection import detect, tests_words
from keyveil.robustness.influence import influence
from keyveil.robustness.recovery import constrained, recover
from keyveil.robustness.sketches import can_sketch, sketch

PEOPLE, KEYS, CAP, SEED = 20_000, 8, 4, 11
FREQUENCIES, MEANS = np.linspace(0.08, 0.35, KEYS), np.linspace(-0.6, 0.7, KEYS)
EPSILONS, SHARES = ("1", "4", "2", "0.5"), (0.01, 0.05)
TARGET = 0  # the rarest key
TRIED: tuple[Kind, ...] = ("maximal", "bare", "hidden")
MOVED: tuple[Quantity, ...] = ("frequency", "mean")
LEFT_OUT = frozenset({"hierarchy", "coordinates"})  # their parts are kvue, and nothing else happens
FEWER_KEYS = {"ioh": 4}  # 3^8 cells are too many to set one by one
SLOW = frozenset({"apart", "split", "ioh", "rappor-meanest", "marginals", "moments", "block", "rappor"})
HONEST_EPSILONS = {"ssr": ("0.5", "1")}  # its answers have another size at each
POWER_EPSILONS = {"ssr": "0.5"}  # at 1 its answers are single symbols for these people, and nothing is tested
FEWER = 80  # different reports that are judged where an estimate takes long


def crowd(takes: str, keys: int = KEYS) -> Population:
    """People of the kind that a mechanism takes."""
    frequencies, means = FREQUENCIES[:keys], MEANS[:keys]
    if takes == "one key":
        return datasets.one_key(PEOPLE, frequencies / frequencies.sum(), means, SEED)
    if takes == "every key":
        return datasets.everyone(PEOPLE, means, SEED)
    return datasets.independent(PEOPLE, frequencies, means, SEED)


def made(name: str, epsilon: str) -> tuple[Mechanism | Protocol, Population]:
    """A mechanism or protocol for these people, with a cap of four where it needs one and without overflow group."""
    kind = find(name)
    takes = "every set" if is_protocol(name) else kind.takes  # type: ignore[union-attr]
    keys = FEWER_KEYS.get(name, KEYS)
    people, schema = crowd(takes, keys), Schema(keys=keys)
    return with_cap(name, schema, epsilon, people.sizes, CAP), people


class Recorded:
    """An attack whose reports are kept, for a sketch of them."""

    def __init__(self, attack: Attack) -> None:
        self.attack, self.reports = attack, None

    reports: Reports | None

    def __call__(self, history: History, current: Round, place: int, honest: Reports) -> Reports:
        self.reports = self.attack(history, current, place, honest)
        return self.reports


def rows(name: str, epsilon: str) -> Iterator[dict[str, Any]]:
    """For every share of attackers and quantity, the gains of all attacks."""
    built, people = made(name, epsilon)
    protocol = as_protocol(built)
    blocks = Blocks.of(people, protocol.schema)
    honest = ask(protocol, blocks, SEED)
    before = protocol.estimate(honest)
    judged = FEWER if name in SLOW or protocol.single is None else JUDGED
    for share in SHARES:
        attackers = round(share * honest[0].tally.reports)
        limits = None
        if protocol.single is not None:
            try:
                limits = influence(protocol.single, honest[0].tally, attackers, before)
            except KeyveilError:
                limits = None
        for quantity in MOVED:
            if not possible(before, quantity):
                continue
            goal = Goal(TARGET, quantity)
            row: dict[str, Any] = {"name": name, "epsilon": epsilon, "share": share, "quantity": quantity}
            row["bound"] = None if limits is None else goal.bound(before, limits)
            if limits is not None:
                row["bound_kind"] = limits.mean_kind if quantity == "mean" else limits.frequency_kind
            for kind in TRIED:
                if kind == "bare" and not isinstance(protocol.single, OnePairSupports):
                    continue  # there is nothing that such reports could leave unsaid
                one = Attack(protocol, goal, kind, share, SEED, judged=judged)
                row[kind] = _outcome(protocol, blocks, before, one)
            yield row


def _outcome(protocol: Protocol, blocks: Blocks, before: Any, attack: Attack) -> dict[str, Any]:
    """The gain, whether a test tells, and what recovery leaves of the gain on a frequency."""
    recorded, goal = Recorded(attack), attack.goal
    attacked: list[Finished] = ask(protocol, blocks, SEED, replace=recorded)
    after = protocol.estimate(attacked)
    found: dict[str, Any] = {"gain": goal.gain(before, after), "alarm": None, "constrained": None, "removal": None}
    mechanism, value = protocol.single, goal.value(before)
    if goal.quantity == "frequency":
        try:
            found["constrained"] = float(constrained(after, mechanism).frequency[goal.target]) - value
        except KeyveilError:
            found["constrained"] = None
    if mechanism is None or recorded.reports is None:
        return found
    sketched = sketch(mechanism, recorded.reports) if can_sketch(mechanism) else None
    detection = detect(mechanism, attacked[0].tally, sketched)
    found["alarm"] = detection.alarm if detection.signs else None
    if goal.quantity == "frequency" and can_sketch(mechanism):
        try:
            left = recover("removal", mechanism, attacked[0].tally, after, sketched)
            found["removal"] = float(left.frequency[goal.target]) - value
        except KeyveilError:
            found["removal"] = None
    return found


def round_rows(name: str) -> Iterator[dict[str, Any]]:
    """At ε = 1, what attackers gain who speak in one round of a protocol only, beside the largest change found."""
    built, people = made(name, "1")
    protocol, coins = as_protocol(built), SeededCoins(SEED, 78)
    blocks = Blocks.of(people, protocol.schema)
    honest = ask(protocol, blocks, SEED)
    before = protocol.estimate(honest)
    for share in SHARES:
        limits = protocol_limits(protocol, honest, round(share * PEOPLE), coins, [TARGET])
        for quantity in MOVED:
            goal = Goal(TARGET, quantity)
            for number in range(1, len(honest) + 1) if possible(before, quantity) else ():
                attack = Attack(protocol, goal, "maximal", share, SEED, number, judged=FEWER)
                gain = goal.gain(before, protocol.estimate(ask(protocol, blocks, SEED, replace=attack)))
                told = {"name": name, "round": number, "attackers": share, "quantity": quantity}
                yield {**told, "gain": gain, "found": goal.bound(before, limits)}


def id_rows(name: str, tried: int) -> Iterator[dict[str, Any]]:
    """At ε = 1 and 1 % attackers, the gain of choosing an id, for one target and for five."""
    built, people = made(name, "1")
    mechanism = as_protocol(built).single
    if mechanism is None or not mechanism.reads_words:
        return
    quantity = "frequency" if "frequency" in mechanism.estimated else "mean"
    coins, attackers = SeededCoins(SEED, 77), PEOPLE // 100
    reports = mechanism.perturb_many(people.records(mechanism.schema), coins)
    kept = mechanism.tally(Reports(reports.publics[attackers:], reports.payloads[attackers:]))
    goals = ((0,), (0, 1, 2, 3, 4))
    for targets, found in zip(goals, id_search(mechanism, kept, attackers, goals, tried, coins), strict=False):
        yield {"name": name, "targets": len(targets), "quantity": quantity, "tried": tried, **vars(found)}


def power_rows(name: str, runs: int) -> Iterator[dict[str, Any]]:
    """How often a test tells the strongest attack that it is made for, and honest reports."""
    epsilon = POWER_EPSILONS.get(name, "1")
    built, people = made(name, epsilon)
    mechanism = as_protocol(built).single
    if mechanism is None or not (tests_words(mechanism) or can_sketch(mechanism)):
        return
    kind: Kind = "bare" if isinstance(mechanism, OnePairSupports) else "maximal"
    quantity: Quantity = "frequency" if "frequency" in mechanism.estimated else "mean"
    records = people.records(mechanism.schema)
    for share in (0.0, *SHARES):
        attackers, crafted, alarms = round(share * PEOPLE), None, 0
        for run in range(runs):
            reports = mechanism.perturb_many(records, SeededCoins(SEED, 1000 + run))
            if attackers and crafted is None:
                attack = Attack(as_protocol(mechanism), Goal(TARGET, quantity), kind, share, SEED)
                moved = attack((), Round(1, mechanism), 0, reports)
                crafted = Reports(moved.publics[-attackers:], moved.payloads[-attackers:])
            if crafted is not None:
                reports = joined([Reports(reports.publics[attackers:], reports.payloads[attackers:]), crafted])
            sketched = sketch(mechanism, reports) if can_sketch(mechanism) else None
            alarms += detect(mechanism, mechanism.tally(reports), sketched).alarm
        told = {"name": name, "epsilon": epsilon, "power": alarms / runs, "runs": runs}
        yield {**told, "attackers": share, "kind": kind}


def main(path: Path, tried: int | None, runs: int | None = None, honest: int | None = None) -> None:
    """Append what is missing."""
    prepare()
    known = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if honest is not None:
        for name in names():
            if not is_protocol(name):
                _append_honest(path, name, honest, known)
        return
    if runs is not None:
        done = {one["name"] for one in known if "power" in one}
        for name in names():
            if name not in LEFT_OUT | done:
                _append(path, power_rows(name, runs))
        return
    if tried is not None:
        done = {(one["name"], one["tried"]) for one in known if "targets" in one}
        for name in names():
            if name not in LEFT_OUT and (name, tried) not in done:
                _append(path, id_rows(name, tried))
        return
    rounds = {one["name"] for one in known if "round" in one}
    for name in names():
        if is_protocol(name) and name not in rounds:
            _append(path, round_rows(name))
    settings = {(one["name"], one["epsilon"]) for one in known if "share" in one}
    for epsilon in EPSILONS:
        for name in names():
            if name not in LEFT_OUT and (name, epsilon) not in settings:
                try:
                    _append(path, rows(name, epsilon))
                except KeyveilError as reason:
                    sys.stderr.write(f"{name} at {epsilon}: {reason.sentence}\n")


def _append_honest(path: Path, name: str, runs: int, known: list[dict[str, Any]]) -> None:
    """The populations of one mechanism, each written as soon as it was run."""
    for epsilon in HONEST_EPSILONS.get(name, ("1",)):
        own = [one for one in known if "population" in one and (one["name"], one["epsilon"]) == (name, epsilon)]
        done = frozenset(one["population"] for one in own if one["runs"] >= runs)
        try:
            for row in honest_rows(name, epsilon, runs, done):
                _append(path, iter([row]))
        except KeyveilError as reason:
            sys.stderr.write(f"{name} at {epsilon}: {reason.sentence}\n")


def _append(path: Path, some: Iterator[dict[str, Any]]) -> None:
    lines = [json.dumps(row) for row in some]
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    number = int(sys.argv[3]) if len(sys.argv) > 3 else None
    asked = {name: number if f"--{name}" in sys.argv else None for name in ("ids", "power", "honest")}
    main(Path(sys.argv[1]), asked["ids"], asked["power"], asked["honest"])
