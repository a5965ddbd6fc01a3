"""Crafted reports: which valid reports, out of many that an attacker can think of, move a quantity most.

Nothing here knows a mechanism. An attacker runs the device's own code on records of his choice under ids of his
choice, looks at what each report would do to the estimate, and sends the best. Where reports are bits, they are set
one by one as well, since honest code hardly ever sets many at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.codecs.labelled_keys import LabelledKeys
from keyveil.core.codecs.symbols import BitVector, Symbol
from keyveil.core.coins import Coins
from keyveil.core.errors import KeyveilError
from keyveil.core.estimates import Estimates
from keyveil.core.records import Records
from keyveil.core.report import PUBLIC_BYTES, Reports
from keyveil.core.schema import GRID
from keyveil.core.tally import Tally
from keyveil.lab.attacks.added import Added, single_counts, weighed
from keyveil.lab.attacks.goals import Goal
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.part_rows import concatenated
from keyveil.mechanisms.report_laws import ReportSymbols
from keyveil.robustness.sketches import sections

TRIED = 2000  # ids and draws that an attacker tries
JUDGED = 500  # different reports among them whose effect is computed
IDS, DRAWS = 150, 12  # ids that are not chosen, and draws under each
MOST_IDS = 2000  # of attackers who each have their own
MOST_BITS = 1024  # of reports whose bits are tried one by one
MOST_CELLS = 2000  # counts whose effect is computed one by one
ALIKE = 1e-9  # two reports that move a quantity so equally do it equally well

Judge = Callable[[Tally], Estimates]
"""The estimates that come out if a round has this tally."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scene:
    """What an attacker works on: the mechanism, the counts of everybody else, and how many reports are his."""

    mechanism: Mechanism
    kept: Tally
    attackers: int
    judge: Judge
    judged: int = JUDGED  # different reports whose effect is computed

    def worth(self, goal: Goal, added: Added) -> float:
        """What comes out for the goal if all crafted reports add the same."""
        return goal.worth(self.judge(self.kept + added.tally(self.mechanism.fingerprint, self.attackers)))

    def worths(self, goal: Goal, single: Sequence[Added]) -> Floats:
        """What comes out for the goal with each of these reports; -∞ for those that are not looked at.

        Equal reports are judged once. Where more than ``judged`` differ, those are judged that do most if the estimate
        were linear in the counts.
        """
        kinds: dict[bytes, int] = {}
        places = np.array([kinds.setdefault(one.kind, len(kinds)) for one in single])
        first = np.unique(places, return_index=True)[1]
        chosen = np.arange(len(kinds))
        if len(kinds) > self.judged:
            chosen = np.argsort(-self._linear(goal, [single[at] for at in first]), kind="stable")[: self.judged]
        found = np.full(len(kinds), -np.inf)
        for kind in chosen.tolist():
            found[kind] = self.worth(goal, single[first[kind]])
        worths: Floats = found[places]
        return worths

    def every_worth(self, goal: Goal, single: Sequence[Added]) -> Floats:
        """``worths``, or what it would be to first order for all of them where too many differ."""
        differ = len({one.kind for one in single}) > self.judged
        return self._linear(goal, single) if differ else self.worths(goal, single)

    def _linear(self, goal: Goal, single: Sequence[Added]) -> Floats:
        """What the reports add to the goal to first order; all alike where too many counts are touched."""
        touched = np.unique(np.concatenate([one.cells for one in single]))
        if len(touched) > MOST_CELLS:
            return np.zeros(len(single))
        total = self.kept + single[0].tally(self.mechanism.fingerprint, self.attackers)
        plain, slopes = goal.worth(self.judge(total)), np.zeros(len(touched))
        for at, cell in enumerate(touched.tolist()):
            moved = total.counts.copy()
            moved.flat[cell] += max(self.attackers // 4, 1)
            try:
                slopes[at] = goal.worth(self.judge(Tally(total.fingerprint, total.reports, moved))) - plain
            except KeyveilError:
                continue  # counts that no reports have
        return weighed(single, touched, np.nan_to_num(slopes, posinf=0.0, neginf=0.0))


def strongest(scene: Scene, goal: Goal, coins: Coins) -> Reports:
    """As many reports as there are attackers, each of them one of the best that were found for the goal."""
    pool = thought_of(scene.mechanism, goal.target, coins, TRIED)
    best, worth = _best(scene, goal, pool)
    bits = _by_bits(scene, goal, pool)
    if bits is not None and scene.worth(goal, single_counts(scene.mechanism, bits)[0]) > worth + ALIKE:
        return repeated(bits, scene.attackers, coins)
    return repeated(best, scene.attackers, coins)


def thought_of(mechanism: Mechanism, target: int, coins: Coins, tried: int) -> Reports:
    """Reports under fresh ids by the device's own code, for records about the target and for others."""
    records = _records(mechanism, target)
    each = -(-tried // len(records))
    return joined([mechanism.perturb_many(_copies(pairs, each, mechanism.schema.d), coins) for pairs in records])


def joined(parts: Sequence[Reports]) -> Reports:
    """Reports of several groups of people as one."""
    publics = np.concatenate([part.publics for part in parts])
    return Reports(publics, concatenated([part.payloads for part in parts]))


def _records(mechanism: Mechanism, target: int) -> list[list[tuple[int, int]]]:
    d = mechanism.schema.d
    other = (target + 1) % d
    if mechanism.takes == "one key":
        return [[(target, 0)], [(other, 0)]]
    if mechanism.takes == "every key":
        return [[(key, end) for key in range(d)] for end in (-GRID, GRID)]
    return [[(target, GRID)], [(target, -GRID)], [], [(other, GRID)]]


def _copies(pairs: list[tuple[int, int]], count: int, d: int) -> Records:
    keys, values = (np.array([pair[part] for pair in pairs], dtype=np.int32) for part in (0, 1))
    offsets = np.arange(count + 1, dtype=np.int64) * len(pairs)
    return Records(offsets, np.tile(keys, count), np.tile(values, count), d)


def _best(scene: Scene, goal: Goal, pool: Reports) -> tuple[Reports, float]:
    """The reports of the pool that do most, and what they do."""
    worths = scene.worths(goal, single_counts(scene.mechanism, pool))
    most = float(worths.max())
    places = np.flatnonzero(worths >= most - ALIKE)
    return Reports(pool.publics[places], pool.payloads[places]), most


def _by_bits(scene: Scene, goal: Goal, pool: Reports) -> Reports | None:
    """One report of bits, each set if it helps under the id of the best start; nothing for reports that are no bits."""
    codec = scene.mechanism.codec
    if not isinstance(codec, BitVector) or codec.length > MOST_BITS:
        return None
    rows = np.vstack([np.zeros(codec.length, dtype=bool), np.eye(codec.length, dtype=bool)])
    publics = pool.publics[:1].repeat(len(rows), axis=0)
    stacked = codec.stack([BitVector.pack(row) for row in rows])
    single = single_counts(scene.mechanism, Reports(publics, stacked))
    worths = np.array([scene.worth(goal, one) for one in single])
    helpful = worths[1:] > worths[0] + ALIKE
    return Reports(pool.publics[:1], codec.stack([BitVector.pack(helpful)]))


def bare(scene: Scene, goal: Goal, coins: Coins) -> Reports:
    """Reports that say what the attacker wants and nothing else, as published attacks do; else the strongest."""
    codec, target = scene.mechanism.codec, goal.target
    pool = thought_of(scene.mechanism, target, coins, 4)
    single = _by_bits(scene, goal, pool)
    if single is None and isinstance(codec, LabelledKeys):
        labels = codec.labels
        said: list[tuple[int, ...]] = [(), (labels * target,), (labels * target + labels - 1,)]
        rows = Reports(pool.publics[:1].repeat(3, axis=0), codec.stack(said))
        worths = [scene.worth(goal, one) for one in single_counts(scene.mechanism, rows)]
        best = [int(np.argmax(worths))]
        single = Reports(rows.publics[best], rows.payloads[best])
    return strongest(scene, goal, coins) if single is None else repeated(single, scene.attackers, coins)


def with_given_ids(scene: Scene, goal: Goal, coins: Coins) -> Reports:
    """The strongest reports under ids that were not chosen: what they are about has the law of honest ids."""
    mechanism, ids = scene.mechanism, min(scene.attackers, MOST_IDS)  # fewer would show by their repetition
    publics = coins.words(2 * ids).view(np.uint8).reshape(ids, PUBLIC_BYTES).repeat(DRAWS, axis=0)
    words, parts = mechanism.read_words(publics), _records(mechanism, goal.target)
    each = -(-DRAWS // len(parts))
    mixed = [pairs for pairs in parts for _ in range(each)][:DRAWS] * ids
    rows = mechanism.respond_many(several_records(mixed, mechanism.schema.d), words, coins)
    found = scene.every_worth(goal, single_counts(mechanism, Reports(publics, rows)))
    found = np.where(remarkable(mechanism, Reports(publics, rows)), -np.inf, found)
    best = np.arange(ids) * DRAWS + found.reshape(ids, DRAWS).argmax(axis=1)
    best = np.resize(best, scene.attackers)
    return Reports(publics[best], rows[best])


def several_records(records: list[list[tuple[int, int]]], d: int) -> Records:
    flat = [pair for pairs in records for pair in pairs]
    keys, values = (np.array([pair[part] for pair in flat], dtype=np.int32) for part in (0, 1))
    offsets = np.concatenate(([0], np.cumsum([len(pairs) for pairs in records]))).astype(np.int64)
    return Records(offsets, keys, values, d)


def repeated(reports: Reports, count: int, coins: Coins) -> Reports:
    """So many reports, drawn from these again and again."""
    places = coins.below_many(len(reports), count)
    return Reports(reports.publics[places], reports.payloads[places])


def random_messages(mechanism: Mechanism, count: int, coins: Coins) -> Reports:
    """Valid messages drawn at random: symbols and bits evenly, other forms as devices without a record send them."""
    codec = mechanism.codec
    publics = coins.words(2 * count).view(np.uint8).reshape(count, PUBLIC_BYTES)
    words = mechanism.read_words(publics)
    if isinstance(codec, Symbol):
        drawn = coins.below_many(codec.outputs, count)
        flaws = mechanism.read_encoded(mechanism.encode_many(Reports(publics, drawn)), words).flaws
        return Reports(publics, np.where(flaws == 0, drawn, drawn % 2))  # some ids allow fewer symbols
    if isinstance(codec, BitVector):
        bits = coins.words(count * codec.length).reshape(count, codec.length) & np.uint64(1)
        return Reports(publics, codec.stack([BitVector.pack(row.astype(bool)) for row in bits]))
    pairs = _records(mechanism, 0)[-2 if mechanism.takes == "every set" else 0]
    return mechanism.perturb_many(_copies(pairs, count, mechanism.schema.d), coins)


def random_pairs(mechanism: Mechanism, goal: Goal, count: int, coins: Coins) -> Reports:
    """Reports of devices that honestly report the target with the value that the attacker wants."""
    records = _records(mechanism, goal.target)
    wanted = records[-1] if mechanism.takes == "every key" else records[0]
    if not goal.up:
        wanted = records[0] if mechanism.takes == "every key" else records[1]
    return mechanism.perturb_many(_copies(wanted, count, mechanism.schema.d), coins)


def remarkable(mechanism: Mechanism, reports: Reports) -> NDArray[np.bool_]:
    """Reports that support several values of one key, which is tested; too few of them are no sign."""
    found = np.zeros(len(reports), dtype=np.bool_)
    for section in sections(mechanism):
        if section.labels > 1 and isinstance(section.mechanism, ReportSymbols):
            rows: Any = reports.payloads
            mine = np.ones(len(reports), dtype=np.bool_)
            if section.number is not None:
                mine, rows = rows.parts == section.number, rows.rows[section.number]
            if mine.any():
                supported = section.mechanism.supported(rows)
                found[mine] = (supported.reshape(len(rows), -1, section.labels).sum(axis=2) > 1).any(axis=1)
    return found


def unremarkable(scene: Scene, goal: Goal, honest: Reports, coins: Coins) -> Reports:
    """Reports that honest people send, chosen because they help, with the honest law of how much a report supports.

    The attacker knows the law of everybody's reports. He draws how much a report supports from it, and of all such
    reports sends one of those that help most. None of them supports several values of one key.
    """
    places = np.argsort(coins.words(len(honest)))[:TRIED]
    places = places[~remarkable(scene.mechanism, Reports(honest.publics[places], honest.payloads[places]))]
    single = single_counts(scene.mechanism, Reports(honest.publics[places], honest.payloads[places]))
    amounts = np.array([one.amount for one in single])
    worths = scene.every_worth(goal, single)
    chosen = []
    for amount in amounts[coins.below_many(len(amounts), scene.attackers)]:
        alike = np.flatnonzero(amounts == amount)
        most = worths[alike].max()
        good = alike[worths[alike] >= most - ALIKE]
        chosen.append(int(places[good[coins.below(len(good))]]))
    return Reports(honest.publics[chosen], honest.payloads[chosen])
