"""The page docs/equal-decoders.md: what a mechanism chosen in advance gains over the best published one.

python -m keyveil.planning.studies.equal_decoders docs/equal-decoders.md

Cells that are in the results already are not measured again, so that a run can be stopped and go on; ``--minutes``
stops it in time. The seed, drawn and printed unless it is given, draws the people of every cell.
"""

from __future__ import annotations

import argparse
import json
import secrets
import shlex
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import lru_cache
from pathlib import Path

from keyveil.lab.datasets.recipes import names, recipe
from keyveil.lab.decoders import BAYES, EQUAL, RAW, changes, title
from keyveil.lab.equal_decoders.cells import MOST_PAIRS, PEOPLE, REPEATS, Cell, Duel, Measured, measure
from keyveil.lab.equal_decoders.rule import NEAR, OURS, QUANTITIES, Setting
from keyveil.lab.ratios import Gain, gain
from keyveil.lab.scores import told_apart
from keyveil.mechanisms.base import Mechanism
from keyveil.planning.ask import plan
from keyveil.planning.studies.choices import form
from keyveil.planning.studies.looked_at import drawn, looked_at
from keyveil.planning.studies.regret import GOALS as PLANNED

EPSILONS = ("0.5", "1", "2", "4")
GOALS = {"frequency": 1.2, "mean": 1.3, "mean_top": 1.5}
"""What the project wants to gain with empirical Bayes on both sides, over all cells."""

_MANY = 5000  # keys beyond which a cell takes minutes and is measured last
_TITLES = {"frequency": "frequencies", "mean": "means", "mean_top": "means of the 20 most frequent keys"}

_OPENING = f"""\
# Equal decoders

Does a mechanism of this project lead the published ones if everybody has the same decoder? In every cell (a population
of `keyveil.lab.datasets` and an ε) one mechanism of the project is **chosen in advance** for every quantity and
decoder: what [a plan](plan.md) puts first among those of one round. It knows the people as a sample, and whether
estimates will be read after empirical Bayes. No run is looked at for it. The published side gets more: **the best of
its mechanisms, splits and caps is found on one half of the runs** and measured on the other. Forms whose predicted
error is beyond {NEAR:g} times the least predicted one for every quantity are not measured; `shist-harmony`,
`rappor-meanest` and `moments` never are. `kvue`, `collision` and `marginals` count as published. PrivKVM has one real
round and virtual iterations.

A gain is the error of the best published over that of the chosen one: above 1 the project is better. A cell is won or
lost if the errors are more than two standard errors of the difference apart, otherwise tied. All spend the same exact
ε. Every cell has {PEOPLE:,} people (fewer where they would hold more than {MOST_PAIRS:,} pairs), the same in all runs.
Levels of values are not stated, so that `kvue` asks for signs as it was published. At small ε the project's `block`
has a width of one and is `kvue` itself: such a cell should tie, and what it shows beyond that is chance and the price
that the published side pays for its search.

Cells whose results were seen before the rule of choice was fixed
([decision 173](decisions/0173-few-keys-are-drawn.md)) are measured last; the seed draws the order of the others.

The page is written by"""


def planned(setting: Setting, quantity: str, decoder: str) -> Mechanism:
    """What a plan puts first among the mechanisms of this project of one round."""
    return _planned(setting, quantity, decoder if decoder == BAYES else None)


@lru_cache(maxsize=8)  # of a cell: methods of consistency are planned for as estimates as they are
def _planned(setting: Setting, quantity: str, read: str | None) -> Mechanism:
    found = plan(
        sample=setting.people,
        schema=setting.schema,
        epsilon=setting.epsilon,
        goal=PLANNED[quantity],
        mechanisms=OURS,
        postprocess=read,
    ).mechanism
    assert isinstance(found, Mechanism)
    return found


def cells(populations: Sequence[str], seed: int) -> list[Cell]:
    """All cells in the order that a seed draws, which ``looked_at`` has; populations of very many keys come last."""
    many = {one: len(recipe(one).profile()[0]) > _MANY for one in populations}
    found = (Cell(one, epsilon) for one in populations for epsilon in EPSILONS)
    return sorted(found, key=lambda cell: (many[cell.population], *drawn(seed, cell.population, cell.epsilon)))


def read(results: Path) -> list[Measured]:
    """What was measured before."""
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    return [Measured.from_document(json.loads(line)) for line in lines]


def measure_all(
    wanted: Sequence[Cell], results: Path, seed: int, minutes: float, workers: int, people: int, repeats: int
) -> list[Measured]:
    """Measure what is missing in the results, write each cell to them, and return all of them."""
    known = {one.cell: one for one in read(results)}
    missing = [(cell, seed + zlib.crc32(str(cell).encode())) for cell in wanted if cell not in known]
    end, waiting = time.monotonic() + 60 * minutes, set[Future[Measured]]()
    with ProcessPoolExecutor(workers) as pool, results.open("a", encoding="utf-8") as file:
        while waiting or (missing and time.monotonic() < end):
            while missing and len(waiting) < workers and time.monotonic() < end:
                waiting.add(pool.submit(measure, *missing.pop(0), people, repeats, planned))
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for one in (future.result() for future in done):
                known[one.cell] = one
                file.write(json.dumps(one.document(), separators=(",", ":")) + "\n")
                file.flush()
                _say(f"{len(known)} of {len(wanted)} cells done; last {one.cell}")
    return [known[cell] for cell in wanted if cell in known]


def page(measured: Sequence[Measured], of: int, command: str) -> str:
    """The whole page, from some of ``of`` cells."""
    if not measured:
        return f"{_OPENING}\n\n```console\n$ {command}\n```\n\nNothing was measured yet.\n"
    repeats = " or ".join(map(str, sorted({one.repeats for one in measured})))
    fresh = [one for one in measured if not looked_at(one.cell.population, one.cell.epsilon)]
    keys = {one.cell.population: len(recipe(one.cell.population).profile()[0]) for one in measured}
    told = (
        f"{len(measured)} of {of} cells were measured, {len(fresh)} of which were not looked at before, with {repeats} "
        f"runs each. They have {min(keys.values())} to {max(keys.values())} keys."
    )
    losses = [
        f"- {one.cell}, {_TITLES[duel.quantity]}: {_forms(duel.ours.forms)} {duel.ours.error:.2e}, "
        f"{_forms(duel.published.forms)} {duel.published.error:.2e}"
        for one in measured
        for duel in one.duels
        if duel.decoder == BAYES and told_apart(duel.ours, duel.published) < 0
    ]
    parts = [
        _OPENING,
        f"```console\n$ {command}\n```",
        told,
        "## Over all cells",
        _over_all(measured),
        "## The same on cells that were not looked at before",
        _over_all(fresh),
        "## By ε, with empirical Bayes",
        _by(measured, "ε", lambda cell: cell.epsilon),
        "## By population, with empirical Bayes",
        _by(measured, "population", lambda cell: cell.population),
        "## Who was chosen, and who was best",
        _who(measured),
        "## Cells that are lost with empirical Bayes",
        "\n".join(losses) or "None.",
    ]
    return "\n\n".join(parts) + "\n"


def _over_all(measured: Sequence[Measured]) -> str:
    lines = ["| errors of | decoder | gain | least | most | won | tied | lost | wanted |", "|---|---|" + "---:|" * 7]
    for quantity in QUANTITIES:
        for decoder in (one for one in EQUAL if changes(one, quantity)):
            found = _gain(measured, quantity, decoder)
            if found is not None:
                wanted = f"{GOALS[quantity]:g}" + (", reached" if found.ratio >= GOALS[quantity] else ", not reached")
                lines.append(
                    f"| {_TITLES[quantity]} | {title(decoder)} | {found} | {found.least:.2f} | {found.most:.2f} "
                    f"| {found.wins} | {found.ties} | {found.losses} | {wanted if decoder != RAW else '–'} |"
                )
    return "\n".join(lines)


def _by(measured: Sequence[Measured], head: str, group: Callable[[Cell], str]) -> str:
    lines = [f"| {head} | cells | {' | '.join(_TITLES[one] for one in QUANTITIES)} |", "|---|" + "---:|" * 4]
    places = {epsilon: place for place, epsilon in enumerate(EPSILONS)}
    for name in sorted({group(one.cell) for one in measured}, key=lambda name: (places.get(name, 0), name)):
        mine = [one for one in measured if group(one.cell) == name]
        shown = (_shown(_gain(mine, quantity, BAYES)) for quantity in QUANTITIES)
        lines.append(f"| {name} | {len(mine)} | {' | '.join(shown)} |")
    return "Gain, and cells won / tied / lost.\n\n" + "\n".join(lines)


def _shown(found: Gain | None) -> str:
    return "–" if found is None else f"{found}, {found.wins} / {found.ties} / {found.losses}"


def _who(measured: Sequence[Measured]) -> str:
    lines = []
    for quantity in QUANTITIES:
        duels = [one for one in _duels(measured) if one.quantity == quantity and one.decoder == BAYES]
        ours, theirs = (
            Counter(label.partition(":")[0] for one in duels for label in side(one)) for side in (_mine, _others)
        )
        lines.append(f"- {_TITLES[quantity]}: chosen {_counted(ours)}; best published {_counted(theirs)}.")
    return "\n".join(lines)


def _mine(one: Duel) -> Sequence[str]:
    return one.ours.forms


def _others(one: Duel) -> Sequence[str]:
    return one.published.forms[:1]


def _counted(names: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in names.most_common()) or "nobody"


def _gain(measured: Sequence[Measured], quantity: str, decoder: str) -> Gain | None:
    return gain(
        (one.ours, one.published) for one in _duels(measured) if (one.quantity, one.decoder) == (quantity, decoder)
    )


def _duels(measured: Sequence[Measured]) -> Iterator[Duel]:
    return (duel for one in measured for duel in one.duels)


def _forms(forms: Sequence[str]) -> str:
    return " or ".join(dict.fromkeys(map(form, forms)))


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def main() -> None:
    reader = argparse.ArgumentParser(prog="python -m keyveil.planning.studies.equal_decoders", description=__doc__)
    reader.add_argument("page", type=Path, help="where the page is written; the results lie beside it")
    reader.add_argument("--seed", type=int, help="of people and coins; otherwise drawn, and printed")
    reader.add_argument("--minutes", type=float, default=240, help="after which no further cell begins")
    reader.add_argument("--workers", type=int, default=2, help="processes")
    reader.add_argument("--populations", default=",".join(names()), help="on whom, with commas")
    reader.add_argument("--people", type=int, default=PEOPLE, help="how many in a cell")
    reader.add_argument("--repeats", type=int, default=REPEATS, help="runs of a cell")
    given = reader.parse_args()
    seed = secrets.randbelow(1 << 31) if given.seed is None else given.seed
    _say(f"seed {seed}")
    wanted = cells(given.populations.split(","), seed)
    results = given.page.with_suffix(".jsonl")
    measured = measure_all(wanted, results, seed, given.minutes, given.workers, given.people, given.repeats)
    own = [word for word in ("populations", "people", "repeats") if getattr(given, word) != reader.get_default(word)]
    told = [f"--{word}={getattr(given, word)}" for word in own]  # minutes and workers change no number
    command = shlex.join(
        ["python", "-m", "keyveil.planning.studies.equal_decoders", str(given.page), f"--seed={seed}", *told]
    )
    given.page.write_text(page(measured, len(names()) * len(EPSILONS), command), encoding="utf-8")


if __name__ == "__main__":
    main()
