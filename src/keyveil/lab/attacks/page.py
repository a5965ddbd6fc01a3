"""The page for operators, from the rows of ``lab.attacks.study``.

python -m keyveil.lab.attacks.study docs/robustness.jsonl
python -m keyveil.lab.attacks.study docs/robustness.jsonl --ids 1000000
python -m keyveil.lab.attacks.page docs/robustness.jsonl docs/robustness.md
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keyveil.lab.attacks.study import KEYS, PEOPLE
from keyveil.mechanisms.registry import names

Row = dict[str, Any]

TOP = """# Malicious clients

Local privacy lets anyone send anything. A report that an honest device could have sent is counted, whoever made it up.
This page says how far made-up reports can move estimates, what shows them, and what to do. Its tables are written by
`python -m keyveil.lab.attacks.page docs/robustness.jsonl docs/robustness.md`, from rows that
`python -m keyveil.lab.attacks.study docs/robustness.jsonl` measures.

## What to do

1. **Bound how many reports one person can send.** Enrolment tokens (`campaign enrol`) are the only thing that limits
   the share of attackers. Without them assume any share.
2. **Read limits, not only intervals.** `--attackers M` of `keyveil estimate`, `simulate` and `campaign estimates` puts
   beside each estimate how far M crafted reports could have moved it (a paler interval in pictures, `attacked` in JSON).
   A difference that is smaller than these limits should not decide anything.
3. **Choose the mechanism for it** where attackers are expected (see the tables): one whose limits are small, and that
   derives nothing from the id: `ssr`, `wsr`, `pckv-grr` for sets with values; `grr`, `ss`, `oue` for one key a person.
   Mechanisms that ask about a key by the id (`kvue`, `privkv`, `block`, `marginals`, `moments`) have large limits, since
   an attacker who chooses ids speaks only about the key that he wants; but whoever does so is seen (below), and whoever
   does not can do little.
4. **Raise ε or lower the cap** if limits are too wide: a report counts for less noise then, and so does a crafted one.
5. **Turn the overflow group off** (`overflow=off`) where attackers are expected and the cap hardly binds: it is 3 % of
   the people, who correct all frequencies at once.
6. **Try it**: `keyveil attack DATA --mechanism M --epsilon E --share 0.01,0.05` on data like yours.

## What the limits are

Most estimates are averages of what each report adds (`mechanisms.effects`). If m of the N reports of an average are
replaced, whichever they are and whatever they say, it moves by at most

> m/N · (largest − smallest number that one report can add).

Proof: let r reports leave and c ≤ m come, r ≤ m. The average becomes (N·a − what left + what came)/(N − r + c), which is
at most (N·a − r·min + c·max)/(N − r + c). That rises with c, since no average exceeds max, and with r, since none lies
below min; so it is largest at r = c = m. The same holds in every direction of the plane (f, f·m). The
largest and the smallest number come from the estimator itself, asked about the counts of extreme reports.

The mean is f·m / f. It exceeds μ somewhere among what can be reached exactly if f·m − μ·f does, and the most that this
comes to falls as μ rises, so the limit is found by bisection. Where f may come within five standard errors of zero (at
most half the distance of the extremes over √N, by Popoviciu's inequality) the limit is the whole range.
Ranks follow from the limits of all keys, each moved on its own.

| said beside the limits | means |
|---|---|
| `bound` | proved, for freely chosen ids |
| `first order` | weights or corrections follow from the data (`split`, overflow groups, means of `apart`): right as long as these move little; an overflow group's own effect is computed and included |
| `largest found` | a search found it; nothing is proved |

Protocols of several rounds, post-processed estimates, quantiles and conditionals have no limits: the command says so.

## What shows an attack

Only what has a known law whatever people hold can show one (`keyveil.robustness.detection`):

- **What reports are about**, where the id says it. `campaign status` looks at it and warns, naming the key, also after
  payloads are gone: the tally is enough. One look warns of honest reports once in a thousand.
- **How many keys a report supports, and which together**, for `oue`, `sue`, `pckv-ue`, `kv-sw`: from a sketch, a second
  tally with a fingerprint of its own (`sketch(mechanism, reports)`). The collector does not keep it yet.
- Nothing shows a crafted report that is one symbol (`grr`, `wsr`, `pckv-grr`, `olh`, `wheel` …): it is what an honest
  holder of the key sends.

The *adaptive* attack knows all this: it sends only reports that have the law of honest ones. Detection does not stop it;
it forces it to gains that the tables show beside those of the strongest attack.

## What can be recovered

Two labelled choices (`keyveil.robustness.recovery`), never the default. *Constrained* inference needs to know nothing of
the attack and takes back only what the sum of frequencies shows: on these data little or nothing. *Removal* leaves out
reports whose number of keys noise does not explain; it undoes published attacks on `oue`, `sue`, `pckv-ue` and `kv-sw`
(column *bare*), and does nothing against the adaptive one. Means are not recovered.
"""


def page(rows: Sequence[Row]) -> str:
    """The whole page."""
    order = {name: at for at, name in enumerate(names())}
    gains = sorted((row for row in rows if "share" in row), key=lambda row: order[row["name"]])
    text = [TOP, _setting(), *_tables(gains), *_ids([row for row in rows if "targets" in row], order)]
    return "\n".join(text)


def _setting() -> str:
    return (
        f"\n## Gains\n\n{PEOPLE:,} people and {KEYS} keys that 8 to 35 % of them hold (one key a person, or all keys,\n"
        "where a mechanism takes nothing else), cap 4, no overflow group, one run. The target is the rarest key, to be\n"
        "raised. Those who are replaced are any, so that the strongest attack stays below the bound, which is about any\n"
        "reports replaced. *maximal* is the strongest attack that was found, *bare* the published one that says the target\n"
        "and nothing else, *adaptive* the one that no test sees. ! marks an alarm at level 1 %, · none; no mark: nothing\n"
        "can be tested. *constrained* and *removal* are what is left of the gain of *maximal* and of *bare*.\n"
    )


def _tables(gains: Sequence[Row]) -> list[str]:
    written = []
    for quantity in ("frequency", "mean"):
        for share in (0.01, 0.05):
            some = [row for row in gains if row["quantity"] == quantity and row["share"] == share]
            for epsilon in sorted({row["epsilon"] for row in some}, key=float):
                own = [row for row in some if row["epsilon"] == epsilon]
                title = f"\n### {quantity.capitalize()}, {share:.0%} attackers, ε = {epsilon}\n"
                written += [title, *(_frequencies(own) if quantity == "frequency" else _means(own))]
    return written


def _frequencies(rows: Sequence[Row]) -> list[str]:
    head = "| name | bound | maximal | bare | adaptive | constrained | removal |\n|---|---|---|---|---|---|---|"
    return [head] + [
        f"| `{row['name']}` | {_bound(row)} | {_cell(row.get('maximal'))} | {_cell(row.get('bare'))} "
        f"| {_cell(row.get('adaptive'))} | {_number(row['maximal']['constrained'])} "
        f"| {_number((row.get('bare') or {}).get('removal'))} |"
        for row in rows
    ]


def _means(rows: Sequence[Row]) -> list[str]:
    head = "| name | bound | maximal | adaptive |\n|---|---|---|---|"
    return [head] + [
        f"| `{row['name']}` | {_bound(row)} | {_cell(row.get('maximal'))} | {_cell(row.get('adaptive'))} |"
        for row in rows
    ]


def _bound(row: Row) -> str:
    mark = " (first order)" if row.get("bound_kind") == "first order" else ""
    return "–" if row["bound"] is None else _number(row["bound"]) + mark


def _cell(outcome: Row | None) -> str:
    if outcome is None:
        return ""
    mark = {True: " !", False: " ·", None: ""}[outcome["alarm"]]
    return _number(outcome["gain"]) + mark


def _number(number: float | None) -> str:
    if number is None:
        return ""
    return "–" if math.isnan(number) else f"{number + 0.0:.3f}"


def _ids(rows: Sequence[Row], order: dict[str, int]) -> list[str]:
    if not rows:
        return []
    tried = max(row["tried"] for row in rows)
    told = [
        f"\n## Trying ids\n\nThe public word is a hash of the id, so a client can try ids. Gain in the sum of the targets'\n"
        f"frequencies of 1 % attackers at ε = 1: with the best report under an id as given, and with the best of\n"
        f"{tried:,} ids, each tried with one message. Mechanisms that are not listed derive nothing from the id\n"
        f"(`ssr`, `wsr`, `pckv-*`, `kv-sw`, `grr`, `sue`, `oue`, `ss`, `ioh`, `krr-harmony`) and have no such gain, or give\n"
        f"no frequencies. Limits always assume freely chosen ids. Why the choice is not taken away:\n"
        "[decision 107](decisions/0107-words-by-commitment.md).\n",
        "| name | one target: given | tried | times | five targets: given | tried | times |\n|---|---|---|---|---|---|---|",
    ]
    for name in sorted({row["name"] for row in rows}, key=order.__getitem__):
        own = {row["targets"]: row for row in rows if row["name"] == name and row["tried"] == tried}
        cells = []
        for targets in (1, 5):
            row = own.get(targets)
            times = "" if row is None or row["given"] <= 0 else f"{row['searched'] / row['given']:.1f}"
            cells += ["", "", ""] if row is None else [_number(row["given"]), _number(row["searched"]), times]
        told.append(f"| `{name}` | {' | '.join(cells)} |")
    return told


if __name__ == "__main__":
    found = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    Path(sys.argv[2]).write_text(page(found) + "\n")
