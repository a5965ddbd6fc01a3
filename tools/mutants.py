"""Change the code in one place at a time, and see whether a test notices: ``make mutants``.

A mutant is one small change of one module: an operator, a comparison, a number, a condition, a result, a statement left
out. Its tests run in a copy of the tree. First those of each room run unchanged, which tells which test files call
which functions; a mutant is then tried on the files that call the function it is in, the one with the module's own name
first. With ``BY=names`` that first run is spared: a mutant is tried on the files that name its module. What was found
is kept in the copy's folder: a run that was stopped goes on, and a mutant that survived is tried again only when the
room's tests have changed (docs/decisions/0012-mutants.md).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.changes import Change, brief, changes

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / ".mutants"
TREE, FOUND = WORK / "tree", WORK / "found.jsonl"
ROOMS = ("collector", "device", "learn", "protocols")
COPIED = ("src", "tests", "tools", "benchmarks", "docs", "pyproject.toml", "README.md", "Makefile", "CHANGELOG.md")
CALLS, NAMES = "calls", "names"
KILLED, SURVIVED, ENDLESS = "killed", "survived", "endless"

Remarks = dict[tuple[str, str, str], str]


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: of which source (its hash), and against which tests (the room's hash)."""

    module: str
    change: Change
    source: str
    tests: str
    verdict: str
    seconds: float

    @property
    def place(self) -> tuple[str, str, int, int, str]:
        return self.module, self.source, self.change.line, self.change.column, self.change.after


def main() -> int:
    """Try a sample of mutants and write the page."""
    given = _arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends this ends its tests, too
    print(f"Seed {given.seed}: {given.sample} mutants of {', '.join(given.modules)}, at most {given.minutes} minutes.")
    _copy()
    all_mutants = [(module, one) for module in _modules(given.modules) for one in changes(_source(module))]
    sample = random.Random(given.seed).sample(all_mutants, min(given.sample, len(all_mutants)))
    end = time.monotonic() + 60 * given.minutes
    outcomes = []
    for number, (module, change) in enumerate(sample, 1):
        if time.monotonic() > end:
            print(f"The time is over: {len(sample) - number + 1} mutants were not tried; run again to go on.")
            break
        outcome = _known(module, change) or _tried(module, change, given.limit, given.by)
        outcomes.append(outcome)
        print(
            f"{number}/{len(sample)} {outcome.verdict} ({outcome.seconds:.0f} s): {module}:{change.line} {change}",
            flush=True,
        )
    sizes = Counter(_room(module) for module, _ in all_mutants)
    before = given.page.read_text(encoding="utf-8") if given.page.exists() else ""
    drawn = f"SAMPLE={given.sample} SEED={given.seed}" + (f" BY={given.by}" if given.by != CALLS else "")
    given.page.write_text(page(outcomes, sizes, drawn, before), encoding="utf-8")
    print(f"Written: {given.page}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__.split("\n")[0])
    parser.add_argument("modules", nargs="*", default=list(ROOMS), help="rooms or modules, such as learn/ranking")
    parser.add_argument("--sample", type=int, default=60, help="how many mutants are tried")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--minutes", type=float, default=15, help="after so long no other is begun")
    parser.add_argument(
        "--by", choices=(CALLS, NAMES), default=CALLS, help="tests that call what was changed, or name it"
    )
    parser.add_argument("--limit", type=float, default=120, help="seconds for one mutant, beside what its tests take")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "mutants.md")
    return parser.parse_args()


# -- the tree -------------------------------------------------------------------------------------------------------


def _copy() -> None:
    """The tree as it is now. Times of files are kept, so that compiled kernels stay valid from run to run."""
    TREE.mkdir(parents=True, exist_ok=True)
    kept = set()
    for path in (one for name in COPIED for one in _files(ROOT / name)):
        target = TREE / path.relative_to(ROOT)
        kept.add(target)
        if not target.exists() or target.read_bytes() != path.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
    for path in [one for name in COPIED for one in _files(TREE / name) if one not in kept]:
        path.unlink()


def _files(place: Path) -> Iterator[Path]:
    found = [place] if place.is_file() else sorted(place.rglob("*"))
    return (one for one in found if one.is_file() and not {"__pycache__", "_build"} & set(one.parts))


def _modules(wanted: list[str]) -> list[str]:
    every = [str(one.relative_to(TREE / "src/keyveil").with_suffix("")) for one in _files(TREE / "src/keyveil")]
    found = [one for one in every if any(one == name or one.startswith(f"{name}/") for name in wanted)]
    if not found:
        raise SystemExit(f"There are no modules {', '.join(wanted)} in src/keyveil.")
    return [one for one in found if not one.endswith("__init__") and "/migrations/" not in one]


def _path(module: str) -> Path:
    return TREE / f"src/keyveil/{module}.py"


def _source(module: str) -> str:
    return _path(module).read_text(encoding="utf-8")


# -- trying ---------------------------------------------------------------------------------------------------------


def _tried(module: str, change: Change, limit: float, by: str) -> Outcome:
    """Run the tests that call what was changed, or name its module; the tree is as before afterwards."""
    room, source = _room(module), _source(module)
    callers = _namers(module) if by == NAMES else _callers(room)
    tests = callers.select(module, change)
    began, usual = time.monotonic(), sum(callers.seconds[one] for one in tests)
    _path(module).write_text(change.applied(source), encoding="utf-8")
    try:
        ended = _pytest(*tests, "-x", timeout=limit + 3 * usual).returncode
        verdict = {0: SURVIVED, 5: SURVIVED}.get(ended, KILLED) if tests else SURVIVED
    except subprocess.TimeoutExpired:
        verdict = ENDLESS
    finally:
        _path(module).write_text(source, encoding="utf-8")
    outcome = Outcome(module, change, _hash(source), _tests_hash(room), verdict, round(time.monotonic() - began, 1))
    with FOUND.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(asdict(outcome)) + "\n")
    return outcome


def _known(module: str, change: Change) -> Outcome | None:
    """What is known already: whatever was killed, and what survived the tests of today."""
    found = None
    for line in FOUND.read_text(encoding="utf-8").splitlines() if FOUND.exists() else ():
        fields = json.loads(line)
        one = Outcome(**{**fields, "change": Change(**fields["change"])})
        if one.place == (module, _hash(_source(module)), change.line, change.column, change.after):
            found = one
    today = _tests_hash(_room(module))
    return found if found and (found.verdict != SURVIVED or found.tests == today) else None


@dataclass(frozen=True)
class Callers:
    """Per test file of a room the functions that it calls, ``module:line``, and how long it takes."""

    called: dict[str, list[str]]
    seconds: dict[str, float]

    def select(self, module: str, change: Change) -> list[str]:
        """The files to run, the module's own first and then the quickest; all for what no function holds."""
        own = f"test_{module.split('/')[-1]}.py"
        chosen = [
            file
            for file, called in self.called.items()
            if not change.function or f"{module}:{change.function}" in called or file.endswith(own)
        ]
        return sorted(chosen, key=lambda file: (not file.endswith(own), self.seconds[file]))


_LOADED: dict[str, Callers] = {}


def _namers(module: str) -> Callers:
    """The test files of a room that import a module, as if they called all of it; how long they take is not known."""
    room, called = _room(module), {}
    names = re.compile(
        rf"keyveil\.{module.replace('/', '[.]')}\b|from keyveil\.{room} import .*\b{module.split('/')[-1]}\b"
    )
    for file in (one for one in _files(TREE / f"tests/{room}") if one.name.startswith("test_")):
        if names.search(file.read_text(encoding="utf-8")):
            called[str(file.relative_to(TREE))] = [f"{module}:{one.function}" for one in changes(_source(module))]
        elif file.name == f"test_{module.split('/')[-1]}.py":
            called[str(file.relative_to(TREE))] = []
    return Callers(called, dict.fromkeys(called, 0.0))


def _callers(room: str) -> Callers:
    """Run a room's tests unchanged, once for every state of source and tests, and see what they call."""
    if room not in _LOADED:
        state = _hash("".join(_hash(one.read_text(encoding="utf-8")) for one in _files(TREE / f"src/keyveil/{room}")))
        file = WORK / f"callers-{room}-{state[:12]}-{_tests_hash(room)[:12]}.json"
        if not file.exists():
            print(f"Running the tests of {room} unchanged ...", flush=True)
            ended = _pytest(f"tests/{room}", "-p", "tools.callers", CALLERS=str(file))
            if ended.returncode:
                raise SystemExit(f"The tests of {room} fail without any change:\n{ended.stdout[-2000:]}")
        _LOADED[room] = Callers(**json.loads(file.read_text(encoding="utf-8")))
    return _LOADED[room]


def _pytest(*arguments: str, timeout: float | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run tests in the copy. Bytecode is not kept: a mutant may have the size and the second of what it replaces."""
    paths = os.pathsep.join((str(TREE / "src"), str(TREE)))
    settings = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=TREE, env=settings, stdout=pipe, text=True, start_new_session=True) as running:
        try:
            told, _ = running.communicate(timeout=timeout)
        except BaseException:
            _end(running)
            raise
    return subprocess.CompletedProcess(command, running.returncode, told)


def _end(running: subprocess.Popen[str]) -> None:
    """End tests and what they have started: when interrupted, pytest stops its servers; otherwise all are killed."""
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(running.pid, signal.SIGINT)
        running.wait(20)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)


def _tests_hash(room: str) -> str:
    return _hash("".join(_hash(one.read_text(encoding="utf-8")) for one in _files(TREE / f"tests/{room}")))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# -- the page -------------------------------------------------------------------------------------------------------


def page(outcomes: list[Outcome], sizes: Counter[str], drawn: str, before: str) -> str:
    """How many were tried in each room, drawn how, and what survived.

    From the page as it was ``before`` stay the rooms that are not in this run, and the remarks that somebody wrote into
    the last column.
    """
    rows = [row for row in _rows(before) if row[0].startswith("`") and _room(row[0]) not in sizes]
    head = [
        "# Mutants",
        "",
        "Each room is written by `make mutants MODULES=room` with the sample and the seed in its row.",
        "Endless are those whose tests did not end in time. See [decision 12](decisions/0012-mutants.md).",
        "",
    ]
    rooms = [row for row in rows if len(row) == 7]
    for room, size in sizes.items():
        verdicts = Counter(one.verdict for one in outcomes if _room(one.module) == room)
        counts = (size, verdicts.total(), verdicts[KILLED], verdicts[ENDLESS], verdicts[SURVIVED])
        rooms.append([f"`{room}`", f"`{drawn}`", *map(str, counts)])
    survivors, remarks = [row for row in rows if len(row) == 5], remarks_of(before)
    for one in (one for one in outcomes if one.verdict == SURVIVED):
        told, around = (text.replace("|", "\\|") for text in (str(one.change), f"`{brief(one.change.line_text)}`"))
        remark = remarks.get((one.module, told, around), "")
        survivors.append([f"`{one.module}`", str(one.change.line), told, around, remark])
    table = _table(
        ["module", "line", "change", "in", "remark"], sorted(survivors, key=lambda row: (row[0], int(row[1])))
    )
    return "\n".join(
        [
            *head,
            *_table(["room", "drawn by", "mutants", "tried", "killed", "endless", "survived"], sorted(rooms)),
            "",
            *(table if survivors else ["None survived."]),
            "",
        ]
    )


def remarks_of(text: str) -> Remarks:
    """What somebody wrote beside a survivor, by module, change and line of code."""
    rows = [row for row in _rows(text) if len(row) == 5]
    return {(module.strip("`"), change, around): remark for module, _, change, around, remark in rows}


def _room(module: str) -> str:
    return module.strip("`").split("/")[0]


def _table(names: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (names, ["---"] * len(names), *rows)]


def _rows(text: str) -> list[list[str]]:
    """The cells of every row of the tables in a page; a bar inside a cell is written with a backslash, and stays so."""
    rows = [line.replace("\\|", "\0")[1:-1].split("|") for line in text.splitlines() if line.startswith("|")]
    return [[one.replace("\0", "\\|").strip() for one in row] for row in rows]


if __name__ == "__main__":
    sys.exit(main())
