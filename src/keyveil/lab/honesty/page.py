"""The page docs/honesty.md: every mechanism and protocol on every population, and what does not hold.

python -m keyveil.lab.honesty.page docs/honesty.md

Cells that are in the results already are not measured again, so that a run can be stopped and go on; ``--minutes``
stops it in time. A new seed, drawn and printed unless it is given, draws new people in every cell.
"""

from __future__ import annotations

import argparse
import json
import secrets
import shlex
import sys
import textwrap
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path

from keyveil.core.text import many
from keyveil.lab.datasets.lifelike import LIFELIKE
from keyveil.lab.datasets.real import real
from keyveil.lab.honesty.cells import (
    COLUMNS,
    HOPELESS,
    LEAST,
    MOST_RUNS,
    NEVER,
    PARTS,
    QUESTIONS,
    SEEN,
    Cell,
    Count,
    Measured,
    Part,
    Target,
    coins_of,
    measure,
)
from keyveil.lab.honesty.rule import Fault, biased, faults
from keyveil.mechanisms.registry import names

EPSILONS = ("0.5", "1", "2", "4")
TARGETS: tuple[Target, ...] = ("people", "population")
MANY = ("ssr", "topsel", "topsel-project", "kvue", "wheel", "wsr", "pckv-grr", "kv-sw")  # also at a million people
SOME, LOTS = 10**5, 10**6
REAL_EPSILON = "1"  # of the cells on real people

_OPENING = """\
# Honesty

Do intervals hold the truth as often as they say, or say that they do not? Every mechanism and protocol is measured on
populations with what real people bring: keys that go together, a few people who hold very much, ratings, signs, skewed
values, values in two peaks, all values equal, thousands of keys that hardly anybody holds; and once on real
people, as many as there are ([comparison](comparison.md) names the sets). No constant of an estimator was chosen on
them, but for the limits of empirical Bayes (docs/theory.md says on which), of the overflow group (`heavy`, `activity`,
`baskets`, `peaks` and `constant`, docs/decisions/0048-overflow-group.md) and of quantiles (`skewed` and `heavy`,
docs/decisions/0178-quantiles-and-flags-that-hold.md). Mechanisms with a cap have an overflow group, as a campaign has
it, and what `apart` has to know of values is declared as it is. *People* are asked again and again and are the target
themselves; as a *population* they are sampled with replacement, and the target is what is true of all of them.

The rule (`keyveil.lab.honesty.rule`): 95 % intervals that have no flag, or only *shrunk*, hold the truth in at least
93 % of cases (92 % after shrinkage); plain ones of keys that are common enough, and of which 200 reports could tell, in
at most 97 %: one-sided tests with Holm's correction over all cells. Of keys called *truncated* at least 80 % are
undercounted by more than a quarter of a standard error. Of keys whose true frequency is beyond five standard errors at
most half are flagged; *wide* does not count there, since a key may be certain while its frequency or mean is not, and
the interval shows it. Plain are intervals that allow for noise alone; where others are longer, the page says how many
times. Some contenders are measured on a million people as well, and so is whoever is off the truth by more than 0.2
standard errors on average on a population, since there a bias shows that noise hides elsewhere.

The page is written by"""

_TABLE = """\
## Coverage

For every question the share of tested intervals that hold the truth, over all cells, then the lowest share of a cell
with at least 100 tested intervals, and the share of intervals that have a flag."""


_FLAGS = """\
## Flags and widths

For every population, at ε = 0.5, 1, 2 and 4, the share of keys whose frequency or mean has a flag other than *shrunk*,
over all cells at that ε. Then how many times as long as plain ones are intervals that are longer: those of frequencies
where a cap may hide something, those of means that allow for values that were cut, and those after shrinkage. "–" says
that none is."""


def cells(contenders: Sequence[str], populations: Sequence[str], people: int = SOME) -> Iterator[Cell]:
    """All cells of a page, in turns.

    In a turn every contender meets every population once, at an ε and a target that a hash chooses: first so many
    people, then a million, one population after the other. So a run that is stopped has seen as many pairs as it could.
    """
    wanted = [
        Cell(contender, population, epsilon, people, target)
        for contender in contenders
        for population in populations
        for epsilon in EPSILONS
        for target in TARGETS
    ]
    if people == SOME:
        wanted += [
            Cell(contender, population, epsilon, LOTS, "people")
            for contender in contenders
            for population in populations
            for epsilon in EPSILONS
            if contender in MANY
        ]
    turns = Counter[tuple[str, str, int]]()
    drawn = []
    for cell in sorted(wanted, key=lambda cell: coins_of(cell, 0)):
        together = populations.index(cell.population) if cell.n == LOTS else 0  # so many people are drawn once a turn
        drawn.append((turns[cell.contender, cell.population, cell.n], cell.n, together, cell))
        turns[cell.contender, cell.population, cell.n] += 1
    yield from (cell for *_, cell in sorted(drawn, key=lambda one: one[:3]))


def more_cells(biased: Iterable[tuple[str, str]], people: int) -> list[Cell]:
    """A million people for those who show a bias and are not measured on so many anyway."""
    pairs = sorted(pair for pair in biased if pair[0] not in MANY and people == SOME)
    found = (Cell(who, population, epsilon, LOTS, "people") for who, population in pairs for epsilon in EPSILONS)
    return sorted(found, key=lambda cell: (cell.population, coins_of(cell, 0)))


def real_cells(contenders: Sequence[str], files: Iterable[Path]) -> Iterator[Cell]:
    """One cell for each contender and file of real people, who are as many as they are."""
    for file in files:
        n = real(file).population.n
        yield from (Cell(contender, file.stem, REAL_EPSILON, n, "people") for contender in contenders)


def read(results: Path) -> list[Measured]:
    """What was measured before."""
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    return [Measured.from_document(json.loads(line)) for line in lines]


def measure_all(
    wanted: Iterable[Cell],
    results: Path,
    seed: int,
    minutes: float,
    workers: int,
    parts: Sequence[Part] = tuple(PARTS),
    files: Mapping[str, Path] | None = None,
) -> list[Measured]:
    """Measure what is missing in the results, write each part of a cell to them, and return all of them.

    ``files`` are those of populations that are no recipes.
    """
    known = {(one.cell, one.part): one for one in read(results)}
    open_parts = ((cell, [part for part in parts if (cell, part) not in known]) for cell in wanted)
    missing = deque((cell, some) for cell, some in open_parts if some)
    end, waiting = time.monotonic() + 60 * minutes, set[Future[list[Measured]]]()
    with ProcessPoolExecutor(workers) as pool, results.open("a", encoding="utf-8") as file:
        while waiting or (missing and time.monotonic() < end):
            while missing and len(waiting) < 2 * workers and time.monotonic() < end:
                cell, some = missing.popleft()
                waiting.add(pool.submit(measure, cell, seed, some, (files or {}).get(cell.population)))
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for one in (one for future in done for one in future.result()):
                known[one.cell, one.part] = one
                file.write(json.dumps(one.document(), separators=(",", ":")) + "\n")
                file.flush()
                to_do = f"{len(known):,} parts known, {len(missing) + len(waiting):,} cells to do"
                _say(f"{to_do}; last {one.seconds:.1f} s, {one.part}, {one.cell}")
    return list(known.values())


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def page(measured: Sequence[Measured], command: str, of: int) -> str:
    """The page of what was measured, of so many cells in all."""
    answered = [one for one in measured if one.counts]
    wrong = faults(answered)
    whole = Counter(one.cell for one in answered)
    told, refused = sum(count == len(PARTS) for count in whole.values()), {one.cell for one in measured if one.refused}
    seeds = sorted({one.seed for one in measured})
    what = (
        f"Of {of:,} cells {told:,} were measured, with and without shrinkage, {len(whole) - told:,} in one of these "
        f"ways,\nand {len(refused - set(whole)):,} do not apply. Seeds: {seeds[0]} to {seeds[-1]}.\n"
        f"A question was asked until it had {LEAST} intervals without a flag, {SEEN} times as many of any kind\n"
        f"({LEAST} where fewer than {HOPELESS:.0%} had none, {LEAST // NEVER} where none had), or {MOST_RUNS} times. "
        f"That took {sum(one.seconds for one in measured) / 3600:.1f} hours\nof one core."
        if seeds
        else "Nothing was measured yet."
    )
    return "\n\n".join(
        [
            _OPENING,
            f"```console\n$ {command}\n```",
            what,
            _TABLE,
            _coverage(answered),
            _FLAGS,
            _flags(answered),
            _wrong(wrong),
            _refused(measured),
        ]
    )


def _coverage(measured: Sequence[Measured]) -> str:
    rows = ["| who | " + " | ".join(QUESTIONS) + " |", "|---|" + "---:|" * len(QUESTIONS)]
    for contender in dict.fromkeys(one.cell.contender for one in sorted(measured, key=lambda one: one.cell)):
        mine = [one for one in measured if one.cell.contender == contender]
        rows.append(f"| {contender} | " + " | ".join(_shown(mine, question) for question in QUESTIONS) + " |")
    return "\n".join(rows)


def _shown(measured: Sequence[Measured], question: str) -> str:
    counts = [one.counts[question] for one in measured if question in one.counts]
    tested, seen = sum(one.tested for one in counts), sum(one.seen for one in counts)
    if not seen:
        return "–"
    shares = [one.covered / one.tested for one in counts if one.tested >= 100]
    share = f"{sum(one.covered for one in counts) / tested:.3f}" if tested else "–"
    least = f"{min(shares):.3f}" if shares else "–"
    return f"{share}, {least}, {1 - _unflagged(counts) / seen:.0%}"


def _unflagged(counts: Sequence[Count]) -> int:
    return sum(one.flags["ok"] + one.flags["shrunk"] for one in counts)


def _flags(measured: Sequence[Measured]) -> str:
    widened = COLUMNS
    head = ["who", "population", "frequencies", "means", *(f"{question}, times" for question in widened)]
    rows = ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * (len(head) - 2)]
    groups: dict[tuple[str, str], list[Measured]] = {}
    for one in sorted(measured, key=lambda one: one.cell):
        groups.setdefault((one.cell.contender, one.cell.population), []).append(one)
    for (contender, population), mine in groups.items():
        shares = [" ".join(_flagged(mine, question, epsilon) for epsilon in EPSILONS) for question in QUESTIONS[:2]]
        rows.append("| " + " | ".join([contender, population, *shares, *(_times(mine, one) for one in widened)]) + " |")
    return "\n".join(rows)


def _flagged(measured: Sequence[Measured], question: str, epsilon: str) -> str:
    asked = [one.counts[question] for one in measured if one.cell.epsilon == epsilon and question in one.counts]
    seen = sum(one.seen for one in asked)
    return f"{1 - _unflagged(asked) / seen:.0%}" if seen else "–"


def _times(measured: Sequence[Measured], question: str) -> str:
    counts = [one.counts[question] for one in measured if question in one.counts]
    wider = sum(one.wider for one in counts)
    return f"{sum(one.times for one in counts) / wider:.2f}" if wider else "–"


def _wrong(wrong: Sequence[Fault]) -> str:
    if not wrong:
        return "## What does not hold\n\nNothing breaks the rule."
    rows = ["| who | population | ε | people | target | question | what |", "|---|---|---:|---:|---|---|---|"]
    rows += [
        f"| {one.cell.contender} | {one.cell.population} | {one.cell.epsilon} | {one.cell.n:,} | {one.cell.target} "
        f"| {one.question} | {one.kind}: {one} |"
        for one in sorted(wrong, key=lambda one: (one.cell, one.question))
    ]
    return f"## What does not hold\n\n{len(wrong)} counts break the rule.\n\n" + "\n".join(rows)


def _refused(measured: Sequence[Measured]) -> str:
    """Who does not take which people: one reason each, which may name other numbers for other people."""
    reasons = {one.cell: one.refused for one in measured if one.refused}
    counts = Counter(cell.contender for cell in reasons)
    firsts = {cell.contender: reasons[cell] for cell in sorted(reasons, reverse=True)}
    rows = [
        textwrap.fill(
            f"- {who} ({many(count, 'cell')}): {firsts[who]}", 118, subsequent_indent="  ", break_long_words=False
        )
        for who, count in sorted(counts.items())
    ]
    return "## What does not apply\n\n" + ("\n".join(rows) or "Everybody took every population.")


def main() -> None:
    reader = argparse.ArgumentParser(prog="python -m keyveil.lab.honesty.page", description=__doc__)
    reader.add_argument("page", type=Path, help="where the page is written; the results lie beside it")
    reader.add_argument("--seed", type=int, help="of people and coins; otherwise drawn, and printed")
    reader.add_argument("--minutes", type=float, default=240, help="after which no further cell begins")
    reader.add_argument("--workers", type=int, default=2, help="processes")
    reader.add_argument("--names", default=",".join(names()), help="who is measured, with commas")
    reader.add_argument("--populations", default=",".join(LIFELIKE), help="on whom, with commas")
    reader.add_argument("--people", type=int, default=SOME, help="how many in a cell")
    reader.add_argument("--files", type=Path, nargs="*", default=[], help="real people to measure on as well")
    reader.add_argument("--parts", default=",".join(PARTS), help="raw, shrunk or both: with shrinkage and without")
    given = reader.parse_args()
    seed = secrets.randbelow(1 << 31) if given.seed is None else given.seed
    _say(f"seed {seed}")
    wanted = list(cells(given.names.split(","), given.populations.split(","), given.people))
    wanted += real_cells(given.names.split(","), given.files)
    parts, files = [part for part in PARTS if part in given.parts.split(",")], {one.stem: one for one in given.files}
    results = given.page.with_suffix(".jsonl")
    end = time.monotonic() + 60 * given.minutes
    measured = measure_all(wanted, results, seed, given.minutes, given.workers, parts, files)
    real_people = {one.stem for one in given.files}
    wanted += more_cells((pair for pair in biased(measured) if pair[1] not in real_people), given.people)
    left = (end - time.monotonic()) / 60
    measured = measure_all(wanted, results, seed, left, given.workers, parts, files)
    told = (Path(word).name if Path(word) in given.files else word for word in sys.argv[1:])  # wherever the files are
    command = shlex.join(["python", "-m", "keyveil.lab.honesty.page", *told])
    given.page.write_text(page(measured, command, len(wanted)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
