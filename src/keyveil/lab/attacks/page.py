"""The page of limits and gains, from the mechanisms themselves and the rows of ``lab.attacks.study``.

python -m keyveil.lab.attacks.study docs/robustness.jsonl
python -m keyveil.lab.attacks.study docs/robustness.jsonl --power 50
python -m keyveil.lab.attacks.study docs/robustness.jsonl --honest 1000
python -m keyveil.lab.attacks.study docs/robustness.jsonl --ids 1000000
python -m keyveil.lab.attacks.page docs/robustness.jsonl docs/robustness-gains.md
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from keyveil.core.errors import KeyveilError
from keyveil.lab.attacks import honest
from keyveil.lab.attacks.crafting import IDS
from keyveil.lab.attacks.study import EPSILONS, KEYS, LEFT_OUT, PEOPLE, SEED, SHARES, made
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.registry import is_protocol, mechanism_names, names
from keyveil.protocols.registry import as_protocol
from keyveil.robustness.influence import influence

Row = dict[str, Any]

TOP = """# Limits and gains

Written by this command, after those that measure:

```console
$ python -m keyveil.lab.attacks.study docs/robustness.jsonl
$ python -m keyveil.lab.attacks.study docs/robustness.jsonl --power 50
$ python -m keyveil.lab.attacks.study docs/robustness.jsonl --honest 1000
$ python -m keyveil.lab.attacks.study docs/robustness.jsonl --ids 1000000
$ python -m keyveil.lab.attacks.page docs/robustness.jsonl docs/robustness-gains.md
```

What the columns mean for somebody who runs a collection is said in [Malicious clients](robustness.md).
"""
LIMITS = """
## Limits

{people:,} people and {keys} keys that 8 to 35 % of them hold (one key a person, or all keys, where a mechanism takes
nothing else; four keys for `ioh`), cap 4, no overflow group. How far 1 % of the reports can raise the frequency of the
rarest key, beside its standard error, at four ε; ordered by the first.
"""
GAINS = """
## Gains

The same people, one run. The rarest key is to be raised. Those who are replaced are any people, so that the strongest
attack stays below the bound, which is about the worst choice of them. *maximal* is the strongest attack that was found,
*bare* the published one that says the target and nothing else, *hidden* the adaptive one that knows the tests. ! marks
an alarm at level 1 %, · none; no mark: nothing can be tested. *constrained* is what is left of the gain of *maximal*
after constrained inference, *removal* what is left of that of *bare*, or of *maximal* where there is no *bare*. `ioh`
has four keys, since 3⁸ cells are too many to set one by one; `hierarchy` and `coordinates` ask as `kvue` does and are
not listed. Where an estimate takes long (protocols, `apart`, `split` …) fewer reports are judged, so that a stronger
attack may exist. A mean has no gain where it is not estimated, or where it is at its limit already. Nothing is proved
of protocols, whose column *bound* is empty (–).
"""
POWER = """
## How often tests tell

Share of {runs} runs with an alarm at level 1 %, at ε = 1 (`ssr` at 1/2, since its answers are single symbols at 1):
honest reports, and the attack that the tests are made for.
"""
BELOW = "On at least two populations, or on their only one, all of them reach a fifth of the level."
HONEST = """
## How often tests tell honest reports

Share of runs with an alarm at level 5 % for {people:,} people and {keys} keys, all of them honest, over five
populations; and over all of these together at level 1 % and 0.1 %. People hold independent, dense, correlated or
grouped sets, or nearly nothing; or one key each, evenly, rising, one or two frequent ones, or each half as frequent as
the one before. What reports are about follows from ids, whatever people hold: mechanisms with no other test have one
law, and one row. By Holm's test at {family:.0%} over all rates and levels, {verdict}
{below}
"""
ROUNDS = """
## Attackers who speak in one round only

Protocols at ε = 1: gain of the strongest attack that was found, if this share of the people of one round attack and
everybody is honest in the others. Beside it the largest change that a search found if so many people of all (200 or
1,000) may speak in every round, also where a round asks few people, as the first of `pilot` and `adaptive` does;
nothing is proved of it, and a gain may exceed it a little, since it depends on whom attackers replace. – stands where
a mean is unknown.
"""
TRYING = """
## Trying ids

The public word is a hash of the id, so a client can try ids. Gain in the sum of the targets' frequencies, or means
where there are no frequencies, by {attackers} of {people:,} people at ε = 1: with the best report under an id as
given (the mean over {given} ids), and with the best of many ids, each tried with one message of somebody who holds a
target, or all of them, and, where reports are bits, with every bit set that helps. `hierarchy` and `coordinates` ask
as `kvue` does, and each round of a protocol as a mechanism does. Limits always assume freely chosen ids; why the
choice is not taken away is said in [decision 107](decisions/0107-words-by-commitment.md).
"""
NO_IDS = "These derive nothing from the id, so that trying ids gains nothing: {some}."


def page(rows: Sequence[Row]) -> str:
    """The whole page."""
    order = {name: at for at, name in enumerate(names())}
    gains = sorted((row for row in rows if "share" in row), key=lambda row: order[row["name"]])
    parts = [TOP, *_limits()]
    if gains:
        settings = {(row["name"], row["epsilon"]) for row in gains}
        every = (len(names()) - len(LEFT_OUT)) * len(EPSILONS)
        told = f"{len(settings)} of {every} settings (a name at an ε) were measured; the others are not listed."
        parts += [GAINS, told, *_tables(gains)]
    return "\n".join(
        [
            *parts,
            *_rounds([row for row in rows if "round" in row]),
            *_power([row for row in rows if "power" in row]),
            *_honest([row for row in rows if "population" in row], {row["name"] for row in rows if "power" in row}),
            *_ids([row for row in rows if "targets" in row], order),
        ]
    )


def _limits() -> list[str]:
    """For every mechanism that gives frequencies, how far one report in a hundred raises one of them."""
    found: dict[str, dict[str, str]] = {}
    first: dict[str, float] = {}
    epsilons = sorted(EPSILONS, key=float)
    for name in mechanism_names():
        for epsilon in epsilons if name not in LEFT_OUT else ():
            try:
                raised, error = _limit(name, epsilon)
            except KeyveilError:
                continue
            if not math.isnan(raised):
                found.setdefault(name, {})[epsilon] = f"{raised:.3f} ± {error:.3f}"
                first.setdefault(name, raised)
    head = f"| name | {' | '.join(f'ε = {one}' for one in epsilons)} |\n|{'---|' * (1 + len(epsilons))}"
    told = [f"| `{name}` | {' | '.join(found[name].get(one, '') for one in epsilons)} |" for name in found]
    ordered = [line for _, line in sorted(zip(first.values(), told, strict=True))]
    return [LIMITS.format(people=PEOPLE, keys=KEYS), head, *ordered]


def _limit(name: str, epsilon: str) -> tuple[float, float]:
    built, people = made(name, epsilon)
    mechanism = as_protocol(built).single
    assert mechanism is not None
    tally = mechanism.tally(mechanism.perturb_many(people.records(mechanism.schema), SeededCoins(SEED)))
    estimates = mechanism.estimate(tally)
    limits = influence(mechanism, tally, PEOPLE // 100, estimates)
    return float(limits.frequency_high[0] - estimates.frequency.values[0]), float(estimates.frequency.se[0])


def _tables(gains: Sequence[Row]) -> list[str]:
    written = []
    for quantity in ("frequency", "mean"):
        for share in SHARES:
            some = [row for row in gains if row["quantity"] == quantity and row["share"] == share]
            for epsilon in sorted({row["epsilon"] for row in some}, key=float):
                own = [row for row in some if row["epsilon"] == epsilon]
                title = f"\n### {quantity.capitalize()}, {share:.0%} attackers, ε = {epsilon}\n"
                written += [title, *(_frequencies(own) if quantity == "frequency" else _means(own))]
    return written


def _frequencies(rows: Sequence[Row]) -> list[str]:
    head = "| name | bound | maximal | bare | hidden | constrained | removal |\n|---|---|---|---|---|---|---|"
    return [head] + [
        f"| `{row['name']}` | {_bound(row)} | {_cell(row.get('maximal'))} | {_cell(row.get('bare'))} "
        f"| {_cell(row.get('hidden'))} | {_number(row['maximal']['constrained'])} "
        f"| {_number((row.get('bare') or row['maximal']).get('removal'))} |"
        for row in rows
    ]


def _means(rows: Sequence[Row]) -> list[str]:
    head = "| name | bound | maximal | hidden |\n|---|---|---|---|"
    cells = ((row["name"], _bound(row), _cell(row.get("maximal")), _cell(row.get("hidden"))) for row in rows)
    return [head] + [f"| `{name}` | {bound} | {maximal} | {hidden} |" for name, bound, maximal, hidden in cells]


def _bound(row: Row) -> str:
    mark = " (found)" if row.get("bound_kind") == "largest found" else ""
    return "–" if row["bound"] is None else _number(row["bound"]) + mark


def _cell(outcome: Row | None) -> str:
    if outcome is None:
        return ""
    mark = {True: " !", False: " ·", None: ""}[outcome["alarm"]]
    return _number(outcome["gain"]) + mark


def _number(number: float | None) -> str:
    if number is None:
        return ""
    return "–" if math.isnan(number) else f"{round(number, 3) + 0.0:.3f}"


def _power(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    head = "| name | attack | honest | 1 % attackers | 5 % attackers |\n|---|---|---|---|---|"
    told = [POWER.format(runs=rows[0]["runs"]), head]
    for name in dict.fromkeys(row["name"] for row in rows):
        own = {row["attackers"]: row for row in rows if row["name"] == name}
        cells = " | ".join(f"{own[share]['power']:.2f}" if share in own else "" for share in (0.0, *SHARES))
        told.append(f"| `{name}` | {next(iter(own.values()))['kind']} | {cells} |")
    return told


def _honest(rows: Sequence[Row], tested: set[str]) -> list[str]:
    if not rows:
        return []
    faults = [f"{row['name']} on {row['population']} at {level:g}" for row, level in honest.too_many(rows)]
    verdict = f"these are too many: {', '.join(faults)}." if faults else "none of them is above its level."
    low = [f"`{name}` at ε = {epsilon}" for name, epsilon in honest.far_below(rows)]
    below = f"Below a fifth of the level on all but one population: {', '.join(low)}." if low else BELOW
    told = HONEST.format(people=honest.PEOPLE, keys=honest.KEYS, family=honest.FAMILY, verdict=verdict, below=below)
    missing = sorted(tested - {row["name"] for row in rows})
    if missing:
        told += f"\nNot run on honest reports, though there are tests: {', '.join(f'`{name}`' for name in missing)}.\n"
    head = f"| name | ε | populations | {' | '.join(f'{level:.1%}' for level in honest.LEVELS)} |"
    lines = [told, head, f"|{'---|' * (3 + len(honest.LEVELS))}"]
    for name, epsilon in dict.fromkeys((row["name"], row["epsilon"]) for row in rows):
        own = [row for row in rows if (row["name"], row["epsilon"]) == (name, epsilon)]
        runs = sum(row["runs"] for row in own)
        each = ", ".join(f"{row['alarms'][str(honest.LEVELS[0])] / row['runs']:.1%}" for row in own)
        others = " | ".join(
            f"{sum(row['alarms'][str(level)] for row in own) / runs:.2%}" for level in honest.LEVELS[1:]
        )
        lines.append(f"| `{name}` | {epsilon} | {', '.join(row['population'] for row in own)} | {each} | {others} |")
    return lines


def _rounds(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    head = "| name | quantity | attackers | gain, by round | largest found |\n|---|---|---|---|---|"
    lines = [ROUNDS, head]
    for name, quantity, share in dict.fromkeys((row["name"], row["quantity"], row["attackers"]) for row in rows):
        own = [row for row in rows if (row["name"], row["quantity"], row["attackers"]) == (name, quantity, share)]
        gains = ", ".join(_number(row["gain"]) for row in own)
        lines.append(f"| `{name}` | {quantity} | {share:.0%} | {gains} | {_number(own[0]['found'])} |")
    return lines


def _ids(rows: Sequence[Row], order: dict[str, int]) -> list[str]:
    if not rows:
        return []
    some = ", ".join(f"`{name}`" for name in order if not is_protocol(name) and not reads_ids(name))
    each = ("given", "tried", "times")
    columns = ("name", "of", "ids tried", f"one target: {each[0]}", *each[1:], f"five targets: {each[0]}", *each[1:])
    without = fill(NO_IDS.format(some=some), 120, break_on_hyphens=False)
    told = [TRYING.format(attackers=PEOPLE // 100, people=PEOPLE, given=IDS), f"{without}\n"]
    told.append(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for name in sorted({row["name"] for row in rows}, key=order.__getitem__):
        tried = max(row["tried"] for row in rows if row["name"] == name)
        own = {row["targets"]: row for row in rows if row["name"] == name and row["tried"] == tried}
        cells = []
        for targets in (1, 5):
            row = own.get(targets)
            times = "" if row is None or row["given"] <= 0 else f"{row['searched'] / row['given']:.1f}"
            cells += ["", "", ""] if row is None else [_number(row["given"]), _number(row["searched"]), times]
        told.append(f"| `{name}` | {own[1]['quantity']} | {tried:,} | {' | '.join(cells)} |")
    return told


def reads_ids(name: str) -> bool:
    """Whether a mechanism derives anything from the id, with the options of these tables."""
    mechanism = as_protocol(made(name, "1")[0]).single
    assert mechanism is not None
    return mechanism.reads_words


if __name__ == "__main__":
    rows_file = Path(sys.argv[1])
    found = [json.loads(line) for line in rows_file.read_text().splitlines()] if rows_file.exists() else []
    Path(sys.argv[2]).write_text(page(found) + "\n")
